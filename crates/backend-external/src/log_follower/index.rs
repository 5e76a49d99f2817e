//! An append-only index on disk: the queue ids under which submitted messages were accepted.
//!
//! It is queried after a crash or a lost connection, for a few messages. So scanning the files is fast enough, and
//! costs no memory otherwise. A record may occur twice if lines were read again after a restart.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Duration;

use mailapi_model::{MessageId, QueueId, Timestamp};

use super::report::Taken;
use super::stored::Stored;

const PREFIX: &str = "index-";

/// The index of a follower.
pub(super) struct MessageIndex {
    dir: PathBuf,
    file_bytes: u64,
    max_files: usize,
    lifetime: Duration,
    current: Option<(File, u64)>,
    unwritten: String,
    /// The time of the newest record.
    newest: Option<Timestamp>,
    /// Hash of the first queue id of each message, by the hash of its identifier. Loaded at the first query. It never
    /// shrinks, but the limits of the files bound it too.
    first: Option<HashMap<u64, u64>>,
}

impl MessageIndex {
    pub(super) fn new(dir: PathBuf, file_bytes: u64, max_files: usize, lifetime: Duration) -> Self {
        Self {
            dir,
            file_bytes,
            max_files,
            lifetime,
            current: None,
            unwritten: String::new(),
            newest: None,
            first: None,
        }
    }

    /// Adds a record; [`MessageIndex::write`] writes it.
    ///
    /// A record is a line of four fields between tabs: identifier, queue id, time, and the refused recipients as JSON.
    pub(super) fn add(&mut self, taken: &Taken) {
        let Taken { at, message_id, queue_id, refused } = taken;
        let refused = serde_json::to_string(&refused.form()).expect("lists of text can be written as JSON");
        self.unwritten.push_str(&format!("{message_id}\t{queue_id}\t{}\t{refused}\n", at.as_millis()));
        if let Some(first) = &mut self.first {
            first.entry(hash(&message_id.to_string())).or_insert(hash(&queue_id.0));
        }
        self.newest = self.newest.max(Some(taken.at));
    }

    /// Writes the added records.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let (mut file, size) = match self.current.take() {
            Some((file, size)) if size < self.file_bytes => (file, size),
            _ => self.open()?,
        };
        file.write_all(self.unwritten.as_bytes())?;
        self.current = Some((file, size + self.unwritten.len() as u64));
        self.unwritten.clear();
        Ok(())
    }

    /// Whether this message was first accepted under a queue id other than these.
    pub(super) fn was_taken_elsewhere(&mut self, message_id: MessageId, queue_ids: &[&str]) -> io::Result<bool> {
        self.write()?;
        let first = match self.first.take() {
            Some(first) => first,
            None => self.read_first()?,
        };
        let taken_as = first.get(&hash(&message_id.to_string())).copied();
        self.first = Some(first);
        Ok(taken_as.is_some_and(|taken_as| queue_ids.iter().all(|id| hash(id) != taken_as)))
    }

    fn read_first(&self) -> io::Result<HashMap<u64, u64>> {
        let mut first = HashMap::new();
        for (_, path) in self.files()? {
            let (mut reader, mut line) = (BufReader::new(File::open(path)?), Vec::new());
            while reader.read_until(b'\n', &mut line)? > 0 {
                let text = String::from_utf8_lossy(&line);
                if let Some((message_id, queue_id)) = text.split_once('\t')
                    && let Some((queue_id, _)) = queue_id.split_once('\t')
                {
                    first.entry(hash(message_id)).or_insert(hash(queue_id));
                }
                line.clear();
            }
        }
        Ok(first)
    }

    /// Makes the written records durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        self.current.as_ref().map_or(Ok(()), |(file, _)| file.sync_data())
    }

    /// Returns the first record of a message: later ones are of its continuations.
    pub(super) fn find(&self, message_id: MessageId) -> io::Result<Option<Taken>> {
        let wanted = format!("{message_id}\t");
        for (_, path) in self.files()? {
            let (mut reader, mut line) = (BufReader::new(File::open(path)?), Vec::new());
            while reader.read_until(b'\n', &mut line)? > 0 {
                let record = line.strip_prefix(wanted.as_bytes()).and_then(|rest| record(message_id, rest));
                if record.is_some() {
                    return Ok(record);
                }
                line.clear();
            }
        }
        Ok(None)
    }

    /// Opens the newest file if it has room, otherwise a new one.
    fn open(&mut self) -> io::Result<(File, u64)> {
        let mut files = self.files()?;
        if let Some((_, path)) = files.last() {
            let mut file = OpenOptions::new().read(true).append(true).open(path)?;
            let size = file.metadata()?.len();
            if size < self.file_bytes {
                end_torn_line(&mut file, size)?;
                return Ok((file, size));
            }
        }
        // Ascending names, even if the clock of the lines is set back.
        let after = files.last().map_or(0, |(begun, _)| begun + 1);
        let begun = after.max(self.newest.map_or(0, Timestamp::as_millis));
        let path = self.dir.join(format!("{PREFIX}{begun:015}"));
        let file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        files.push((begun, path));
        self.forget(&files)?;
        Ok((file, 0))
    }

    fn forget(&self, files: &[(i64, PathBuf)]) -> io::Result<()> {
        let horizon = self.newest.map_or(0, |newest| newest.minus(self.lifetime).as_millis());
        let too_many = files.len().saturating_sub(self.max_files.max(1));
        for (index, pair) in files.windows(2).enumerate() {
            // All records of a file are older than the next file.
            if index < too_many || pair[1].0 < horizon {
                fs::remove_file(&pair[0].1)?;
            }
        }
        Ok(())
    }

    /// Returns the files with the time of their creation, oldest first.
    fn files(&self) -> io::Result<Vec<(i64, PathBuf)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            // Anything else in its place could block the reader.
            if !entry.file_type()?.is_file() {
                continue;
            }
            let begun = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|begun| begun.parse().ok());
            files.extend(begun.map(|begun: i64| (begun, entry.path())));
        }
        files.sort();
        Ok(files)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// Ends the last line, which a crash may have truncated. Otherwise the next record would become part of it.
fn end_torn_line(file: &mut File, size: u64) -> io::Result<()> {
    if size > 0 {
        let mut last = [0];
        file.seek(SeekFrom::Start(size - 1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Parses the fields after the identifier; `None` for a line that a crash truncated.
fn record(message_id: MessageId, fields: &[u8]) -> Option<Taken> {
    let fields = std::str::from_utf8(fields).ok()?;
    let (queue_id, rest) = fields.split_once('\t')?;
    let (at, refused) = rest.split_once('\t')?;
    Some(Taken {
        at: Timestamp::from_millis(at.parse().ok()?),
        message_id,
        queue_id: QueueId(queue_id.to_owned()),
        refused: Stored::of_form(serde_json::from_str(refused).ok()?)?,
    })
}

#[cfg(test)]
mod tests {
    use mailapi_model::{EmailAddress, Reply};

    use super::*;

    fn id(number: u8) -> MessageId {
        format!("00000000-0000-4000-8000-0000000000{number:02x}").parse().unwrap()
    }

    fn taken(number: u8, seconds: i64) -> Taken {
        let reply = Reply { code: 550, enhanced: "5.1.1".parse().ok(), text: "no\tsuch user".to_owned() };
        Taken {
            at: Timestamp::from_seconds(seconds),
            message_id: id(number),
            queue_id: QueueId(format!("4jWk{number}")),
            refused: vec![(EmailAddress::as_given("Bob@example.org").unwrap(), reply)],
        }
    }

    #[test]
    fn what_was_taken_is_found_again_once_and_old_files_go() {
        let dir = tempfile::tempdir().unwrap();
        let open = || MessageIndex::new(dir.path().to_owned(), 200, 3, Duration::from_secs(1000));
        assert_eq!(open().find(id(0)).unwrap(), None);
        for number in 0..20 {
            let mut index = open();
            // The same lines were read twice.
            index.add(&taken(number, i64::from(number)));
            index.add(&taken(number, i64::from(number)));
            index.sync().unwrap();
        }
        assert_eq!(open().find(id(19)).unwrap(), Some(taken(19, 19)));
        assert_eq!(open().find(id(0)).unwrap(), None);
        assert!(open().files().unwrap().len() <= 3);
        let mut index = open();
        for number in 20..26 {
            index.add(&taken(number, 5000 * i64::from(number)));
            index.sync().unwrap();
        }
        assert_eq!(index.find(id(19)).unwrap(), None);
        assert_eq!(index.find(id(25)).unwrap(), Some(taken(25, 125_000)));
    }

    #[test]
    fn a_line_that_a_crash_cut_harms_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let open = || MessageIndex::new(dir.path().to_owned(), 1 << 20, 3, Duration::from_secs(1000));
        let mut index = open();
        index.add(&taken(1, 1));
        index.sync().unwrap();
        let (_, path) = index.files().unwrap().remove(0);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        let mut index = open();
        index.add(&taken(2, 2));
        index.sync().unwrap();
        assert_eq!(index.find(id(2)).unwrap(), Some(taken(2, 2)));
    }
}
