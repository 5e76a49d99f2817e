//! Files with one message each.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use mailapi_files::OpenDirectory;
use mailapi_imap::Flags;
use mailapi_model::{Blob, Timestamp};
use sha2::{Digest, Sha256};

use super::MailFile;
use crate::compression::Compression;
use crate::error::at;
use crate::line_ends::{Form, PIECE};
use crate::maildir::content;
use crate::{ArchiveError, ArchivedMessage, ReadSettings, SourceKey};

/// The forms of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageForm {
    /// The message alone.
    Plain,
    /// The length of the message on a line, the message, and a property list (Apple Mail).
    Apple,
}

/// A file with one message.
#[derive(Debug)]
pub(super) struct MessageFile {
    pub(super) file: MailFile,
    pub(super) form: MessageForm,
}

impl MessageFile {
    fn name(&self) -> String {
        self.file.name.to_string_lossy().into_owned()
    }

    /// Returns the number that MH gave it.
    fn number(&self) -> Option<u32> {
        self.name().parse().ok()
    }
}

/// Reads the messages of a directory.
#[derive(Debug)]
pub struct MessageReader {
    files: std::vec::IntoIter<MessageFile>,
    sequences: Option<Sequences>,
    /// How often a message occurred, by the first bytes of its digest.
    seen: HashMap<[u8; 8], u32>,
}

/// A message that was not read.
#[derive(Debug)]
pub struct UnreadMessage {
    /// Its path.
    pub place: String,
    /// The reason.
    pub error: ArchiveError,
}

/// Maximum size of MH's list of sequences.
const MAX_SEQUENCES: u64 = 1024 * 1024;

impl MessageReader {
    pub(super) fn of(directory: &Arc<OpenDirectory>, mut files: Vec<MessageFile>) -> Result<Self, ArchiveError> {
        files.sort_by_key(|file| (file.number().is_none(), file.number(), file.name()));
        let sequences = match directory.read_limited(".mh_sequences", MAX_SEQUENCES) {
            Ok(list) => Some(Sequences::read(&String::from_utf8_lossy(&list))),
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { files: files.into_iter(), sequences, seen: HashMap::new() })
    }

    /// Returns the number of messages that are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.files.len()
    }

    /// Reads the next message; `None` at the end.
    pub fn read_next(&mut self, settings: &ReadSettings) -> Option<Result<ArchivedMessage, UnreadMessage>> {
        let file = self.files.next()?;
        let place = file.file.path().display().to_string();
        Some(self.read(&file, &place, settings).map_err(|error| UnreadMessage { place, error }))
    }

    fn read(
        &mut self,
        file: &MessageFile,
        place: &str,
        settings: &ReadSettings,
    ) -> Result<ArchivedMessage, ArchiveError> {
        let (opened, path) = (file.file.open()?, file.file.path());
        let Opened { content, flags, internal_date } = match file.form {
            MessageForm::Plain => {
                let listed = self.sequences.as_ref().zip(file.number());
                let flags = listed.map(|(sequences, number)| sequences.flags(number)).unwrap_or_default();
                Opened { content: plain(opened, &path, settings)?, flags, internal_date: None }
            }
            MessageForm::Apple => apple(opened, &path, settings)?,
        };
        let key = match &content {
            Some(content) => self.key(content).map_err(at(&path))?,
            // The message is not imported.
            None => SourceKey::of(&[b"file", place.as_bytes()]),
        };
        let place = place.to_owned();
        Ok(ArchivedMessage { place, key, uid: None, flags, lost_flags: 0, special_use: None, internal_date, content })
    }

    /// Programs number files anew, so a message has the key of its bytes. Equal messages are distinguished by their order.
    fn key(&mut self, content: &Blob) -> std::io::Result<SourceKey> {
        let mut digest = Sha256::new();
        for piece in content.pieces(PIECE) {
            digest.update(piece?);
        }
        let SourceKey(digest) = SourceKey::from_digest(digest);
        let count = self.seen.entry(std::array::from_fn(|at| digest[at])).or_default();
        *count += 1;
        Ok(SourceKey::of(&[b"file", &digest, &count.to_be_bytes()]))
    }
}

/// What a file contains.
struct Opened {
    content: Option<Blob>,
    flags: Flags,
    internal_date: Option<Timestamp>,
}

fn plain(mut file: File, path: &Path, settings: &ReadSettings) -> Result<Option<Blob>, ArchiveError> {
    match Compression::of(&mut file).map_err(at(path))? {
        Compression::None => content(&mut file, path, Form::Lines, settings),
        Compression::Gzip => content(&mut MultiGzDecoder::new(file), path, Form::Lines, settings),
        Compression::Other(reason) => Err(ArchiveError::form(path, reason)),
    }
}

/// The first line has at most this many bytes.
const MAX_FIRST_LINE: u64 = 32;

/// Maximum length of the property list.
const MAX_PROPERTIES: u64 = 64 * 1024;

fn apple(mut file: File, path: &Path, settings: &ReadSettings) -> Result<Opened, ArchiveError> {
    let mut start = Vec::new();
    (&mut file).take(MAX_FIRST_LINE).read_to_end(&mut start).map_err(at(path))?;
    let end = start.iter().position(|byte| *byte == b'\n').unwrap_or_default();
    let octets: Option<u64> = std::str::from_utf8(&start[..end]).ok().and_then(|line| line.trim().parse().ok());
    let octets = octets.ok_or_else(|| ArchiveError::form(path, "does not begin with the length of a message"))?;
    file.seek(SeekFrom::Start(end as u64 + 1)).map_err(at(path))?;
    let mut message = (&mut file).take(octets);
    let content = content(&mut message, path, Form::Lines, settings)?;
    // A message beyond the limit is not read to its end.
    let is_whole = content.is_none() || message.limit() == 0;
    if !is_whole {
        return Err(ArchiveError::form(path, "ends before the message does"));
    }
    let after = (end as u64 + 1).saturating_add(octets);
    let mut properties = Vec::new();
    file.seek(SeekFrom::Start(after)).map_err(at(path))?;
    file.take(MAX_PROPERTIES).read_to_end(&mut properties).map_err(at(path))?;
    let properties = String::from_utf8_lossy(&properties);
    let received = number_of(&properties, "date-received").filter(|seconds| *seconds > 0);
    let internal_date =
        received.and_then(|seconds| i64::try_from(seconds).ok()).filter(|seconds| *seconds < MAX_SECONDS);
    let flags = apple_flags(number_of(&properties, "flags").unwrap_or_default());
    Ok(Opened { content, flags, internal_date: internal_date.map(Timestamp::from_seconds) })
}

/// Beyond this, a time cannot be shown as a date.
const MAX_SECONDS: i64 = 253_402_300_800;

/// Reads a number of a property list.
fn number_of(properties: &str, key: &str) -> Option<u64> {
    let (_, after) = properties.split_once(&format!("<key>{key}</key>"))?;
    let value = after.trim_start();
    let value = value.strip_prefix("<integer>").or_else(|| value.strip_prefix("<real>"))?;
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value[..digits].parse().ok()
}

fn apple_flags(bits: u64) -> Flags {
    const BITS: [(u32, &str); 6] =
        [(0, "\\Seen"), (1, "\\Deleted"), (2, "\\Answered"), (4, "\\Flagged"), (6, "\\Draft"), (8, "$Forwarded")];
    Flags::from_words(BITS.iter().filter(|(bit, _)| (bits >> bit) & 1 == 1).map(|(_, flag)| *flag))
}

/// MH's list of sequences, each with ranges of numbers.
#[derive(Debug, Default)]
struct Sequences(Vec<(&'static str, Vec<(u32, u32)>)>);

impl Sequences {
    /// The sequences with a meaning of their own.
    const KNOWN: [&str; 3] = ["unseen", "replied", "flagged"];

    fn read(list: &str) -> Self {
        let read = |line: &str| {
            let (name, numbers) = line.split_once(':')?;
            let name = Self::KNOWN.into_iter().find(|known| *known == name.trim())?;
            let range = |word: &str| {
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                Some((first.parse().ok()?, last.parse().ok()?))
            };
            Some((name, numbers.split_ascii_whitespace().filter_map(range).collect()))
        };
        Self(list.lines().filter_map(read).collect())
    }

    fn has(&self, name: &str, number: u32) -> bool {
        let mut ranges = self.0.iter().filter(|(known, _)| *known == name).flat_map(|(_, ranges)| ranges);
        ranges.any(|(first, last)| (*first..=*last).contains(&number))
    }

    fn flags(&self, number: u32) -> Flags {
        let flags = [
            (!self.has("unseen", number), "\\Seen"),
            (self.has("replied", number), "\\Answered"),
            (self.has("flagged", number), "\\Flagged"),
        ];
        Flags::from_words(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sequences_become_flags() {
        let sequences = Sequences::read("unseen: 2-3 7\nreplied: 1\ncur: 7\nflagged: x 3-\n");
        let flags = [1, 2, 4, 7].map(|number| sequences.flags(number).to_string());
        assert_eq!(flags, ["\\Answered \\Seen", "", "\\Seen", ""]);
    }

    #[test]
    fn property_lists_of_apple_mail_are_read() {
        let list = "<dict>\n<key>date-received</key>\n\t<real>1600000000.5</real><key>flags</key><integer>8590195733</integer>";
        assert_eq!(number_of(list, "date-received"), Some(1_600_000_000));
        assert_eq!(number_of(list, "nothing"), None);
        assert_eq!(apple_flags(0b1_0001_0101).to_string(), "\\Answered \\Flagged \\Seen $Forwarded");
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_a_panic(
            text in "(unseen|flags|<key>|</key>|<integer>|[0-9]{1,21}|:|-| |\n|\\PC){0,20}", number in any::<u32>(),
        ) {
            let _ = (Sequences::read(&text).flags(number), number_of(&text, "flags"));
        }
    }
}
