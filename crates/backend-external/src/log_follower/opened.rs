//! One file of the log, open at an offset.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use flate2::read::MultiGzDecoder;
use mailapi_model::Timestamp;

use super::place::{FileId, FilePlace, Head};
use super::rotated_files::{Form, LogFile};

/// A file of the log that is being read.
pub(super) struct Opened {
    pub(super) file: LogFile,
    input: Input,
    /// The first bytes of the file, as far as they were read and identify it.
    head: Vec<u8>,
    head_bytes: usize,
    /// The complete head, once the offset is after it. It no longer changes.
    whole_head: Option<Head>,
    /// The offset of `buffer[start..]` in the file.
    pub(super) offset: u64,
    buffer: Vec<u8>,
    start: usize,
    /// The buffer contains no line end before this index.
    searched: usize,
    /// Number of bytes dropped from the line in the buffer because the line is too long.
    dropped: u64,
}

enum Input {
    Plain(File),
    Gzip(Box<MultiGzDecoder<BufReader<File>>>),
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refilled {
    /// More of the file.
    More,
    /// The end of the file.
    End,
    /// The file was truncated, and perhaps rewritten.
    Replaced,
}

impl Opened {
    /// Opens a file at an offset, or at its end if it is shorter.
    pub(super) fn open(mut file: LogFile, offset: u64, head_bytes: usize) -> io::Result<Self> {
        let handle = File::open(&file.path)?;
        let metadata = handle.metadata()?;
        // The name may belong to another file since the directory was read.
        file.id = FileId::of(&metadata);
        let mut opened = Self {
            input: input(handle, file.form)?,
            file,
            head: Vec::new(),
            head_bytes,
            whole_head: None,
            offset,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            dropped: 0,
        };
        opened.read_head_and_skip()?;
        Ok(opened)
    }

    fn read_head_and_skip(&mut self) -> io::Result<()> {
        let wanted = self.head_bytes.min(usize::try_from(self.offset).unwrap_or(usize::MAX));
        match &mut self.input {
            Input::Plain(file) => self.head = first_bytes(file, wanted)?,
            Input::Gzip(decoder) => {
                decoder.by_ref().take(wanted as u64).read_to_end(&mut self.head)?;
                let behind = self.offset - wanted as u64;
                let skipped = io::copy(&mut decoder.take(behind), &mut io::sink())?;
                self.offset = self.head.len() as u64 + skipped;
            }
        }
        Ok(())
    }

    /// Returns the next line as a range of [`Opened::bytes`]. The rest of a line longer than `max` is dropped. Its
    /// author may have chosen that rest, so it must not appear as a separate line.
    pub(super) fn next_line(&mut self, max: usize) -> Option<Range<usize>> {
        self.skip_zeros();
        let unsearched = &self.buffer[self.searched..];
        let found = unsearched.iter().position(|byte| *byte == b'\n').map(|at| self.searched + at);
        let Some(end) = found else {
            let excess = (self.buffer.len() - self.start).saturating_sub(max);
            self.buffer.truncate(self.buffer.len() - excess);
            self.dropped += excess as u64;
            self.searched = self.buffer.len();
            return None;
        };
        Some(self.consume(end.min(self.start + max), end + 1))
    }

    /// Skips zeros: a file that was truncated while its writer kept its offset begins with them.
    fn skip_zeros(&mut self) {
        if self.dropped > 0 {
            return;
        }
        let zeros = self.buffer[self.start..].iter().take_while(|byte| **byte == 0).count();
        self.start += zeros;
        self.offset += zeros as u64;
        self.searched = self.searched.max(self.start);
    }

    /// Returns the rest of a file that ends without a line end.
    pub(super) fn torn_line(&mut self) -> Option<Range<usize>> {
        let end = self.buffer.len();
        (self.start < end).then(|| self.consume(end, end))
    }

    fn consume(&mut self, end: usize, next: usize) -> Range<usize> {
        let line = self.start..end;
        self.offset += (next - self.start) as u64 + std::mem::take(&mut self.dropped);
        if self.whole_head.is_none() && self.head.len() == self.head_bytes && self.offset >= self.head_bytes as u64 {
            self.whole_head = Some(Head::of(&self.head));
        }
        (self.start, self.searched) = (next, next);
        line
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Whether the buffer holds an incomplete line.
    pub(super) fn has_torn_line(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// Reads more. The bytes count only if the file is still the same afterwards.
    pub(super) fn refill(&mut self, bytes: usize) -> io::Result<Refilled> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        let known = self.buffer.len();
        let position = self.offset + known as u64 + self.dropped;
        self.buffer.resize(known + bytes.max(1), 0);
        let read = match &mut self.input {
            Input::Plain(file) => file.read_at(&mut self.buffer[known..], position),
            Input::Gzip(decoder) => decoder.read(&mut self.buffer[known..]),
        };
        self.buffer.truncate(known + read.as_ref().map_or(0, |read| *read));
        let read = read?;
        // Checked after the read: a truncation before the check discards the bytes.
        if !self.is_the_same(position + read as u64)? {
            self.buffer.clear();
            (self.searched, self.dropped) = (0, 0);
            return Ok(Refilled::Replaced);
        }
        if self.head.len() < self.head_bytes && position == self.head.len() as u64 {
            let more = (self.head_bytes - self.head.len()).min(read);
            self.head.extend_from_slice(&self.buffer[known..known + more]);
        }
        Ok(if read > 0 { Refilled::More } else { Refilled::End })
    }

    /// Whether the file was not truncated. Only the current file can be truncated while it is read.
    fn is_the_same(&self, read_until: u64) -> io::Result<bool> {
        match &self.input {
            Input::Plain(file) if self.file.rotation.is_none() => {
                let long_enough = file.metadata()?.len() >= read_until;
                Ok(long_enough && first_bytes(file, self.head.len())? == self.head)
            }
            _ => Ok(true),
        }
    }

    /// Returns the position after the last line.
    pub(super) fn place(&self, at: Option<Timestamp>) -> FilePlace {
        let length = self.head.len().min(usize::try_from(self.offset).unwrap_or(usize::MAX));
        let head = self.whole_head.unwrap_or_else(|| Head::of(&self.head[..length]));
        FilePlace { id: self.file.id, offset: self.offset, head, at: at.unwrap_or(Timestamp::from_millis(0)) }
    }
}

/// Whether a file begins with this head. Returns false for a file that cannot be decoded.
pub(super) fn begins_with(file: &LogFile, head: Head) -> io::Result<bool> {
    let handle = match File::open(&file.path) {
        Ok(handle) => handle,
        // Renamed since the directory was read; the caller reads it again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let length = usize::try_from(head.length).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    let read = match input(handle, file.form) {
        Ok(Input::Plain(file)) => file.take(length as u64).read_to_end(&mut bytes),
        Ok(Input::Gzip(decoder)) => decoder.take(length as u64).read_to_end(&mut bytes),
        Err(_) => return Ok(false),
    };
    Ok(read.is_ok() && Head::of(&bytes) == head)
}

/// Returns the first line of a file; `None` if there is none or it cannot be read.
pub(super) fn first_line(file: &LogFile, max: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match input(File::open(&file.path).ok()?, file.form).ok()? {
        Input::Plain(file) => file.take(max as u64).read_to_end(&mut bytes),
        Input::Gzip(decoder) => decoder.take(max as u64).read_to_end(&mut bytes),
    };
    read.ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    bytes.truncate(end);
    Some(bytes)
}

fn input(file: File, form: Form) -> io::Result<Input> {
    match form {
        Form::Plain => Ok(Input::Plain(file)),
        Form::Gzip => Ok(Input::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(file))))),
        Form::Unreadable => Err(io::Error::new(io::ErrorKind::Unsupported, "only gzip can be read")),
    }
}

fn first_bytes(file: &File, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut read = 0;
    while read < length {
        match file.read_at(&mut bytes[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}
