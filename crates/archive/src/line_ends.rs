//! Line ends: LF in files, CRLF in the mail server.

use std::io::{self, Write};

use mailapi_backend::{BufferError, BufferWriter};
use mailapi_model::Blob;

/// Bytes per read.
pub(crate) const PIECE: usize = 64 * 1024;

/// The forms in which a message can be in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// With LF at the ends of lines.
    Lines,
    /// Byte for byte, since the other form would lose something.
    Verbatim,
}

impl Form {
    /// Returns the form that keeps every byte, and the number of lines.
    pub(crate) fn of(message: &Blob) -> io::Result<(Self, u64)> {
        let (mut form, mut lines, mut before) = (Self::Lines, 0, [0, 0]);
        for piece in message.pieces(PIECE) {
            for byte in piece? {
                if byte == b'\n' {
                    lines += 1;
                    // A bare LF would get a CR when it is read, and of two CRs one would be lost.
                    if before[1] != b'\r' || before[0] == b'\r' {
                        form = Self::Verbatim;
                    }
                }
                before = [before[1], byte];
            }
        }
        Ok((form, lines))
    }
}

/// Writes a message with LF instead of CRLF.
pub(crate) fn write_with_lf(message: &Blob, output: &mut impl Write) -> io::Result<()> {
    let mut held = false;
    for piece in message.pieces(PIECE) {
        let mut kept = Vec::with_capacity(PIECE + 1);
        for byte in piece? {
            if std::mem::take(&mut held) && byte != b'\n' {
                kept.push(b'\r');
            }
            match byte {
                b'\r' => held = true,
                byte => kept.push(byte),
            }
        }
        output.write_all(&kept)?;
    }
    if held { output.write_all(b"\r") } else { Ok(()) }
}

/// Writes bytes into a buffer, and a CR before each LF that has none.
pub(crate) struct WithCrlf {
    form: Form,
    last: u8,
}

impl WithCrlf {
    pub(crate) const fn new(form: Form) -> Self {
        Self { form, last: 0 }
    }

    /// Converts bytes, and passes them on.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), BufferError>,
    ) -> Result<(), BufferError> {
        if self.form == Form::Verbatim {
            return take(bytes);
        }
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let before = if at == 0 { self.last } else { bytes[at - 1] };
            take(&bytes[..at])?;
            take(if before == b'\r' { b"\n" } else { b"\r\n" })?;
            (self.last, bytes) = (b'\n', &bytes[at + 1..]);
        }
        self.last = bytes.last().copied().unwrap_or(self.last);
        take(bytes)
    }
}

/// A message on its way into a buffer, up to a limit.
pub(crate) struct Filling {
    writer: Option<BufferWriter>,
    room: usize,
}

impl Filling {
    pub(crate) fn new(writer: BufferWriter, room: usize) -> Self {
        Self { writer: Some(writer), room }
    }

    /// Adds bytes. Beyond the limit, the message is dropped.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), BufferError> {
        match self.room.checked_sub(bytes.len()) {
            Some(room) => self.room = room,
            None => self.writer = None,
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(bytes))
    }

    /// Returns the message, unless it was too long.
    pub(crate) fn finish(self) -> Result<Option<Blob>, BufferError> {
        self.writer.map(BufferWriter::finish).transpose()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_crlf(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut converter, mut made) = (WithCrlf::new(Form::Lines), Vec::new());
        for piece in pieces {
            converter
                .push(piece, &mut |bytes| {
                    made.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
        }
        made
    }

    #[test]
    fn a_message_that_conversion_would_change_stays_verbatim() {
        for (message, form) in [
            (&b"a\r\nb\r\n"[..], Form::Lines),
            (b"a\rb", Form::Lines),
            (b"", Form::Lines),
            (b"a\nb", Form::Verbatim),
            (b"a\r\r\n", Form::Verbatim),
            (b"\n", Form::Verbatim),
        ] {
            assert_eq!(Form::of(&message.to_vec().into()).unwrap().0, form, "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn lines_come_back_however_they_are_split(message in "([ab]|\r|\n|\r\n){0,30}", at in 0_usize..30) {
            let blob: Blob = message.clone().into_bytes().into();
            let mut written = Vec::new();
            write_with_lf(&blob, &mut written).unwrap();
            let (one, other) = written.split_at(at.min(written.len()));
            let again = with_crlf(&[one, other]);
            prop_assert_eq!(&again, &with_crlf(&[&written]));
            if Form::of(&blob).unwrap().0 == Form::Lines {
                prop_assert_eq!(again, message.as_bytes());
            }
        }
    }
}
