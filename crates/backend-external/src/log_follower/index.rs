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

use mailapi_model::{EmailAddress, MessageId, QueueId, Reply, Timestamp};

use super::report::Taken;
use super::text_record::{fields, push_line};

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
    pub(super) fn add(&mut self, taken: &Taken) {
        let (message_id, at) = (taken.message_id.to_string(), taken.at.as_millis().to_string());
        push_line(&mut self.unwritten, &[&message_id, &taken.queue_id.0, &at]);
        if let Some(first) = &mut self.first {
            first.entry(hash(&message_id)).or_insert(hash(&taken.queue_id.0));
        }
        for (recipient, reply) in &taken.refused {
            let enhanced = reply.enhanced.map_or(String::new(), |code| code.to_string());
            let (recipient, code) = (recipient.shown(), reply.code.to_string());
            push_line(&mut self.unwritten, &[&message_id, &taken.queue_id.0, recipient, &code, &enhanced, &reply.text]);
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

    /// Returns the record of a message. Its first queue id counts, since later ones belong to continuations.
    pub(super) fn find(&self, message_id: MessageId) -> io::Result<Option<Taken>> {
        let wanted = format!("{message_id}\t");
        let mut found: Option<Taken> = None;
        for (_, path) in self.files()? {
            let mut reader = BufReader::new(File::open(path)?);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line)? > 0 {
                if line.starts_with(wanted.as_bytes()) {
                    take_in(&String::from_utf8_lossy(&line), message_id, &mut found);
                }
                line.clear();
            }
        }
        Ok(found)
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

fn take_in(line: &str, message_id: MessageId, found: &mut Option<Taken>) {
    let fields = fields(line.trim_end_matches('\n'));
    match (fields.iter().map(String::as_str).collect::<Vec<_>>()[..].as_ref(), found) {
        ([_, queue_id, at], found @ None) => {
            let Ok(at) = at.parse().map(Timestamp::from_millis) else { return };
            *found = Some(Taken { at, message_id, queue_id: QueueId((*queue_id).to_owned()), refused: Vec::new() });
        }
        ([_, queue_id, recipient, code, enhanced, text], Some(taken)) if taken.queue_id.0 == *queue_id => {
            let (Ok(recipient), Ok(code)) = (EmailAddress::as_given(recipient), code.parse()) else { return };
            if taken.refused.iter().all(|(known, _)| *known != recipient) {
                let reply = Reply { code, enhanced: enhanced.parse().ok(), text: (*text).to_owned() };
                taken.refused.push((recipient, reply));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
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
