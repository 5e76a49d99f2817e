//! Base64 that is computed while it is read.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mailapi_model::{Blob, BlobSource};

/// Octets in one line, and its characters with the line end (RFC 2045 section 6.8).
const LINE_OCTETS: usize = 57;
const LINE_CHARACTERS: usize = 78;

/// Content in base64, in lines of 76 characters. The last one has no line end.
pub(super) struct Base64Source {
    content: Blob,
}

impl Base64Source {
    pub(super) const fn new(content: Blob) -> Self {
        Self { content }
    }

    /// Returns the lines from `first` on, at most `count`.
    fn lines(&self, first: usize, count: usize) -> io::Result<Vec<u8>> {
        let start = first * LINE_OCTETS;
        let octets = self.content.slice(start..start.saturating_add(count * LINE_OCTETS)).to_bytes()?;
        let mut lines = String::with_capacity(count * LINE_CHARACTERS);
        for (at, line) in octets.chunks(LINE_OCTETS).enumerate() {
            STANDARD.encode_string(line, &mut lines);
            if start + (at + 1) * LINE_OCTETS < self.content.len() {
                lines.push_str("\r\n");
            }
        }
        Ok(lines.into_bytes())
    }
}

impl BlobSource for Base64Source {
    fn len(&self) -> usize {
        let octets = self.content.len();
        octets.div_ceil(3) * 4 + octets.saturating_sub(1) / LINE_OCTETS * b"\r\n".len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
        /// Lines that are encoded at once.
        const MOST_LINES: usize = 1024;
        let (first, skipped) = (offset / LINE_CHARACTERS, offset % LINE_CHARACTERS);
        let count = (skipped + buffer.len()).div_ceil(LINE_CHARACTERS).min(MOST_LINES);
        let lines = self.lines(first, count)?;
        let wanted = lines.get(skipped..).unwrap_or_default();
        let read = wanted.len().min(buffer.len());
        buffer[..read].copy_from_slice(&wanted[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::super::{TransferEncoding, decode};
    use super::*;

    proptest! {
        #[test]
        fn any_piece_is_that_of_the_whole(
            octets in prop::collection::vec(any::<u8>(), 0..400),
            from in 0_usize..600,
            length in 0_usize..600,
        ) {
            let source = Blob::elsewhere(Arc::new(Base64Source::new(octets.clone().into())));
            let whole = source.to_bytes().unwrap();
            prop_assert_eq!(whole.len(), source.len());
            prop_assert_eq!(decode(TransferEncoding::Base64, &whole), octets);
            prop_assert!(whole.split(|byte| *byte == b'\n').all(|line| line.len() <= 77));
            prop_assert!(!whole.ends_with(b"\n"));
            let range = from.min(whole.len())..(from + length).min(whole.len());
            prop_assert_eq!(source.slice(range.clone()).to_bytes().unwrap(), whole.slice(range));
        }
    }
}
