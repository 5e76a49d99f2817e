//! Writes an mbox file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use mailapi_files::OpenDirectory;

use super::headers::{Own, lines_of};
use super::separator;
use crate::error::at;
use crate::line_ends::{Form, PIECE, write_with_lf};
use crate::maildir::FILE_MODE;
use crate::{ArchiveError, ExportedMessage};

/// Writes messages into an mbox file.
#[derive(Debug)]
pub struct MboxWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl MboxWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// If it exists, or cannot be created.
    pub fn create(directory: &OpenDirectory, name: &str) -> Result<Self, ArchiveError> {
        let file = directory.create_file(name, FILE_MODE)?;
        Ok(Self { path: directory.path().join(name), file: BufWriter::new(file) })
    }

    /// Appends a message.
    ///
    /// # Errors
    /// If that fails.
    pub fn add(&mut self, message: &ExportedMessage) -> Result<(), ArchiveError> {
        write(message, &mut self.file).map_err(at(&self.path))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If that fails.
    pub fn finish(mut self) -> Result<(), ArchiveError> {
        self.file.flush().map_err(at(&self.path))
    }
}

fn write(message: &ExportedMessage, output: &mut impl Write) -> io::Result<()> {
    let (form, _) = Form::of(&message.content)?;
    let (octets, at) = (message.content.len() as u64, message.internal_date);
    output.write_all(separator::write(at).as_bytes())?;
    output.write_all(Own { octets, is_verbatim: form == Form::Verbatim, at }.write().as_bytes())?;
    output.write_all(lines_of(&message.flags).as_bytes())?;
    let mut quoting = Quoting { output, line: Vec::new(), is_in_text: false };
    match form {
        Form::Lines => write_with_lf(&message.content, &mut quoting)?,
        Form::Verbatim => message.content.pieces(PIECE).try_for_each(|piece| quoting.write_all(&piece?))?,
    }
    quoting.finish()
}

/// Adds a `>` to each line of any number of `>` and `From `.
struct Quoting<'a, W> {
    output: &'a mut W,
    /// The beginning of a line, as long as it may have to be quoted.
    line: Vec<u8>,
    /// The rest of the line stays as it is.
    is_in_text: bool,
}

const FROM: &[u8] = b"From ";

/// The beginning of a line is not held in memory beyond this length; no mail program quotes that often.
const MAX_QUOTES: usize = 4 * 1024;

impl<W: Write> Quoting<'_, W> {
    /// Decides whether the line that begins with `self.line` is quoted; `None` if more is needed.
    fn is_quoted(&self) -> Option<bool> {
        let quotes = self.line.iter().position(|byte| *byte != b'>').unwrap_or(self.line.len());
        let rest = &self.line[quotes..];
        match rest {
            _ if rest.starts_with(FROM) => Some(true),
            _ if FROM.starts_with(rest) && self.line.len() < MAX_QUOTES => None,
            _ => Some(false),
        }
    }

    fn begin_text(&mut self, is_quoted: bool) -> io::Result<()> {
        if is_quoted {
            self.output.write_all(b">")?;
        }
        self.output.write_all(&self.line)?;
        self.line.clear();
        self.is_in_text = true;
        Ok(())
    }

    /// Ends the last line, and adds the empty one between messages.
    fn finish(mut self) -> io::Result<()> {
        let is_complete = self.line.is_empty() && !self.is_in_text;
        self.begin_text(false)?;
        self.output.write_all(if is_complete { b"\n" } else { b"\n\n" })
    }
}

impl<W: Write> Write for Quoting<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut rest = line;
            while !self.is_in_text
                && let Some((byte, after)) = rest.split_first()
            {
                self.line.push(*byte);
                rest = after;
                if let Some(is_quoted) = self.is_quoted() {
                    self.begin_text(is_quoted)?;
                }
            }
            self.output.write_all(rest)?;
            if line.ends_with(b"\n") {
                self.is_in_text = false;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
