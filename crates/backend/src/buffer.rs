//! Buffers messages in transit: small ones in memory, large ones in anonymous temporary files.
//!
//! A file has no name, so it disappears with its last user or with the process, in whatever way that ends.
//! Files need not be durable: a message counts as accepted only once the mail server has it durably. If a
//! buffer is lost, its sender has received no answer and retries.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use mailapi_model::{Blob, BlobSource, ByteBudget, BytePermit, ClientNetwork, EmailAddress};

/// A client takes at most this fraction (1/8) of [`BufferSettings::max_disk_bytes`], but always one message. By default,
/// that is 512 MiB: 20 messages of 25 MB at a time, as many as Postfix sends to one server by default.
const SHARES: usize = 8;

/// Limits for messages in transit. [`BufferSettings::new`] sets the defaults named at each field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferSettings {
    /// Directory of the files, on a disk and not in memory.
    pub directory: PathBuf,
    /// Maximum length of a message in memory. Default 1 MiB.
    pub max_memory_bytes: usize,
    /// Bytes collected before each write to a file. Default 256 KiB.
    pub write_bytes: usize,
    /// Maximum total size of all files. Default 4 GiB.
    pub max_disk_bytes: u64,
    /// Maximum total size of files from unauthenticated clients ([`Buffer::for_stranger`]). Default 2 GiB.
    pub max_inbound_disk_bytes: u64,
}

impl BufferSettings {
    /// Returns the default settings.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            max_memory_bytes: 1024 * 1024,
            write_bytes: 256 * 1024,
            max_disk_bytes: 4 * 1024 * 1024 * 1024,
            max_inbound_disk_bytes: 2 * 1024 * 1024 * 1024,
        }
    }
}

/// Buffers messages in transit; clones share its limits.
#[derive(Debug, Clone)]
pub struct Buffer {
    inner: Arc<Inner>,
    /// Whose messages these are. Without a client, they have no share: the server's own work, and requests, which have
    /// shares of their own.
    client: Option<BufferClient>,
}

/// A client that has a share of the buffer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum BufferClient {
    /// An unauthenticated client, with all networks of its subscriber.
    Stranger(String),
    Mailbox(EmailAddress),
}

#[derive(Debug)]
struct Inner {
    settings: BufferSettings,
    /// Bytes in files.
    taken: AtomicU64,
    /// Those from unauthenticated clients.
    taken_by_strangers: AtomicU64,
    shares: Arc<ByteBudget<BufferClient>>,
}

/// Why content cannot be buffered at the moment. Nothing of it is kept.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// [`BufferSettings::max_disk_bytes`] is reached, or [`BufferSettings::max_inbound_disk_bytes`] for
    /// unauthenticated clients, or the client has its share.
    #[error("the disk buffer for messages in transit has no room")]
    Full,
    /// The disk failed, or is full.
    #[error("cannot write a message to the disk buffer: {0}")]
    Disk(#[from] io::Error),
}

impl From<BufferError> for io::Error {
    fn from(error: BufferError) -> Self {
        match error {
            BufferError::Full => Self::new(io::ErrorKind::QuotaExceeded, error),
            BufferError::Disk(error) => error,
        }
    }
}

/// Reads a range into memory, on a blocking thread unless it is already there. Use it for one piece at a
/// time.
///
/// # Errors
/// When the range cannot be read at the moment.
pub async fn read_bytes(bytes: &Blob, range: Range<usize>) -> io::Result<Bytes> {
    let piece = bytes.slice(range);
    match piece.into_bytes() {
        Ok(bytes) => Ok(bytes),
        Err(piece) => tokio::task::spawn_blocking(move || piece.to_bytes()).await.map_err(io::Error::other).flatten(),
    }
}

impl Buffer {
    /// Returns an empty buffer.
    #[must_use]
    pub fn new(settings: BufferSettings) -> Self {
        let shares = ByteBudget::new(usize::try_from(settings.max_disk_bytes).unwrap_or(usize::MAX), SHARES);
        let inner = Inner { settings, taken: AtomicU64::default(), taken_by_strangers: AtomicU64::default(), shares };
        Self { inner: Arc::new(inner), client: None }
    }

    /// Returns the same buffer for an unauthenticated client. All of them may use only part of the limit, so that
    /// authenticated users always have room. Each has a share of the limit.
    #[must_use]
    pub fn for_stranger(&self, client: ClientNetwork) -> Self {
        self.of_client(BufferClient::Stranger(client.subscriber()))
    }

    /// Returns the same buffer for a mailbox, which has a share of the limit.
    #[must_use]
    pub fn for_mailbox(&self, mailbox: EmailAddress) -> Self {
        self.of_client(BufferClient::Mailbox(mailbox))
    }

    fn of_client(&self, client: BufferClient) -> Self {
        Self { inner: self.inner.clone(), client: Some(client) }
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &BufferSettings {
        &self.inner.settings
    }

    /// Returns a writer for content of unknown length.
    #[must_use]
    pub fn writer(&self) -> BufferWriter {
        BufferWriter { buffer: self.clone(), gathered: Vec::new(), file: None, failed: false }
    }

    /// Returns the number of bytes in files.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.inner.taken.load(Ordering::Relaxed)
    }

    const fn is_for_stranger(&self) -> bool {
        matches!(self.client, Some(BufferClient::Stranger(_)))
    }

    /// Creates a file, which takes no room yet.
    fn file(&self) -> io::Result<BufferFile> {
        let file = tempfile::tempfile_in(&self.settings().directory)?;
        let share = self.client.clone().map(|client| self.inner.shares.hold(client));
        Ok(BufferFile { file, buffer: self.clone(), share, len: 0 })
    }

    fn take(&self, bytes: u64) -> Result<(), BufferError> {
        let Inner { settings, taken, taken_by_strangers, .. } = &*self.inner;
        // Count in both totals, the smaller one first; undo it if the other is full.
        if self.is_for_stranger() {
            count(taken_by_strangers, bytes, settings.max_inbound_disk_bytes)?;
        }
        count(taken, bytes, settings.max_disk_bytes).inspect_err(|_| {
            if self.is_for_stranger() {
                taken_by_strangers.fetch_sub(bytes, Ordering::Relaxed);
            }
        })
    }

    fn give_back(&self, bytes: u64) {
        self.inner.taken.fetch_sub(bytes, Ordering::Relaxed);
        if self.is_for_stranger() {
            self.inner.taken_by_strangers.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Adds to a total, up to `max`.
fn count(taken: &AtomicU64, bytes: u64, max: u64) -> Result<(), BufferError> {
    let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= max);
    let taken = taken.try_update(Ordering::Relaxed, Ordering::Relaxed, more);
    taken.map(drop).map_err(|_| BufferError::Full)
}

/// Content being buffered. If it is dropped before [`BufferWriter::finish`], its content is discarded.
#[derive(Debug)]
pub struct BufferWriter {
    buffer: Buffer,
    /// The bytes not yet written; without a file, all of them.
    gathered: Vec<u8>,
    file: Option<BufferFile>,
    /// Some content was lost, so the writer cannot finish.
    failed: bool,
}

/// An anonymous file, and the room that it takes.
#[derive(Debug)]
struct BufferFile {
    file: File,
    buffer: Buffer,
    share: Option<BytePermit<BufferClient>>,
    len: u64,
}

impl BufferWriter {
    /// Returns the number of bytes written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gathered.len() + self.file.as_ref().map_or(0, BlobSource::len)
    }

    /// Returns the number of bytes that are in memory.
    #[must_use]
    pub const fn bytes_in_memory(&self) -> usize {
        self.gathered.len()
    }

    /// Returns whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes bytes. Blocks; async code uses [`BufferWriter::push`].
    ///
    /// # Errors
    /// [`BufferError`]; later calls fail too.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BufferError> {
        self.gathered.extend_from_slice(bytes);
        if self.is_full() { self.write_out() } else { Ok(()) }
    }

    /// Writes bytes, on a blocking thread if they go to a file. If the future is dropped early, later calls
    /// fail.
    ///
    /// # Errors
    /// [`BufferError`]; later calls fail too.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), BufferError> {
        self.gathered.extend_from_slice(bytes);
        if !self.is_full() {
            return Ok(());
        }
        // If this future is dropped, the content that moved to the thread is lost.
        let lost = Self { failed: true, ..self.buffer.writer() };
        let mut writer = std::mem::replace(self, lost);
        let writing = tokio::task::spawn_blocking(move || (writer.write_out(), writer));
        let (written, writer) = writing.await.map_err(io::Error::other)?;
        *self = writer;
        written
    }

    /// Returns the content. A file is deleted with the last clone.
    ///
    /// # Errors
    /// [`BufferError`] when content was lost before.
    pub fn finish(self) -> Result<Blob, BufferError> {
        if self.failed {
            return Err(lost());
        }
        let gathered = Blob::from(self.gathered);
        Ok(match self.file {
            None => gathered,
            Some(file) => Blob::joined([Blob::elsewhere(Arc::new(file)), gathered]),
        })
    }

    fn is_full(&self) -> bool {
        let settings = self.buffer.settings();
        // Once a file exists, memory holds only the next write.
        let max = if self.file.is_some() { settings.write_bytes } else { settings.max_memory_bytes };
        self.failed || self.gathered.len() > max
    }

    fn write_out(&mut self) -> Result<(), BufferError> {
        if self.failed {
            return Err(lost());
        }
        // Any early return below leaves the writer failed.
        self.failed = true;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.buffer.file()?),
        };
        file.append(&self.gathered)?;
        // A buffer for a whole small message is larger than one for the following writes.
        self.gathered.clear();
        self.gathered.shrink_to(self.buffer.settings().write_bytes);
        self.failed = false;
        Ok(())
    }
}

fn lost() -> BufferError {
    io::Error::other("an earlier write failed").into()
}

/// Blocks; see [`BufferWriter::write`].
impl io::Write for BufferWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BufferFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), BufferError> {
        let more = bytes.len() as u64;
        if let Some(share) = &mut self.share {
            share.grow(bytes.len()).map_err(|_| BufferError::Full)?;
        }
        self.buffer.take(more)?;
        let at = self.len;
        // Count the bytes before writing, so that `drop` returns them even if the write fails.
        self.len += more;
        Ok(self.file.write_all_at(bytes, at)?)
    }
}

impl BlobSource for BufferFile {
    fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset as u64)
    }
}

impl Drop for BufferFile {
    fn drop(&mut self) {
        self.buffer.give_back(self.len);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn small(directory: &Path) -> BufferSettings {
        BufferSettings {
            max_memory_bytes: 10,
            write_bytes: 4,
            max_disk_bytes: 40,
            max_inbound_disk_bytes: 20,
            directory: directory.into(),
        }
    }

    fn buffer(directory: &Path) -> Buffer {
        Buffer::new(small(directory))
    }

    fn stranger_of(buffer: &Buffer, number: u8) -> Buffer {
        buffer.for_stranger(ClientNetwork::of([192, 0, 2, number].into()))
    }

    async fn held(buffer: &Buffer, bytes: usize) -> Result<BufferWriter, BufferError> {
        let mut writer = buffer.writer();
        writer.push(&vec![1; bytes]).await.map(|()| writer)
    }

    #[tokio::test]
    async fn without_disk_space_a_write_is_refused_and_frees_its_share() {
        let directory = tempfile::tempdir().unwrap();
        let buffer = buffer(directory.path());
        let mut first = buffer.writer();
        first.push(&[1; 30]).await.unwrap();
        let first = first.finish().unwrap();
        assert_eq!((first.len(), buffer.taken()), (30, 30));
        let mut second = buffer.writer();
        second.push(&[2; 10]).await.unwrap();
        assert!(matches!(second.push(&[2]).await, Err(BufferError::Full)));
        assert!(second.push(&[2]).await.is_err(), "a message with a missing part must not be readable");
        assert!(second.finish().is_err());
        let clone = first.slice(10..12);
        drop(first);
        assert_eq!(buffer.taken(), 30);
        drop(clone);
        assert_eq!(buffer.taken(), 0);
    }

    #[tokio::test]
    async fn strangers_get_a_share_and_users_keep_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let buffer = buffer(directory.path());
        let stranger = held(&stranger_of(&buffer, 1), 15).await.unwrap();
        assert!(matches!(held(&stranger_of(&buffer, 2), 15).await, Err(BufferError::Full)));
        let user = held(&buffer, 25).await.unwrap();
        assert!(matches!(held(&buffer, 11).await, Err(BufferError::Full)));
        drop(stranger);
        drop(user);
        assert_eq!(buffer.taken(), 0);
        let user = held(&buffer, 30).await.unwrap();
        assert!(
            matches!(held(&stranger_of(&buffer, 1), 15).await, Err(BufferError::Full)),
            "no space is left when users hold all of it"
        );
        drop(user);
        assert!(held(&stranger_of(&buffer, 1), 20).await.is_ok(), "refused content is not counted");
    }

    #[tokio::test]
    async fn a_client_leaves_room_and_always_has_room_for_one_message() {
        let directory = tempfile::tempdir().unwrap();
        let settings = BufferSettings { max_disk_bytes: 400, max_inbound_disk_bytes: 400, ..small(directory.path()) };
        let buffer = Buffer::new(settings);
        let of = |name: &str| buffer.for_mailbox(name.parse().unwrap());
        for (client, other) in
            [(of("ann@here.example"), of("bob@here.example")), (stranger_of(&buffer, 1), stranger_of(&buffer, 2))]
        {
            let first = held(&client, 30).await.unwrap();
            assert!(matches!(held(&client, 30).await, Err(BufferError::Full)), "an eighth is 50");
            let second = held(&client, 20).await.unwrap();
            let others = held(&other, 50).await.unwrap();
            drop((first, second, others));
            let long = held(&client, 120).await.unwrap();
            assert!(matches!(held(&client, 11).await, Err(BufferError::Full)));
            assert!(held(&client, 10).await.is_ok(), "a small message is in memory");
            drop(long);
            assert_eq!((buffer.taken(), buffer.inner.shares.bytes_taken()), (0, 0));
        }
    }

    #[tokio::test]
    async fn a_failing_disk_is_reported_and_nothing_is_kept() {
        let buffer = buffer(Path::new("/nowhere/at/all"));
        let mut writer = buffer.writer();
        writer.push(b"0123456789").await.unwrap();
        assert!(matches!(writer.push(b"a").await, Err(BufferError::Disk(_))));
        assert!(matches!(writer.write(b"b"), Err(BufferError::Disk(_))));
        assert!(writer.finish().is_err());
        assert_eq!(buffer.taken(), 0);
    }

    #[tokio::test]
    async fn a_small_message_never_sees_the_disk() {
        let buffer = buffer(Path::new("/nowhere/at/all"));
        let mut writer = buffer.writer();
        writer.push(b"01234").await.unwrap();
        writer.write(b"56789").unwrap();
        assert_eq!(writer.len(), 10);
        assert_eq!(writer.finish().unwrap().in_memory().unwrap(), "0123456789");
    }

    #[tokio::test]
    async fn a_large_message_is_the_same_in_its_file_which_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let buffer = buffer(directory.path());
        let mut writer = buffer.writer();
        let whole: Vec<u8> = (0..37).collect();
        for (number, piece) in whole.chunks(3).enumerate() {
            if number % 2 == 0 { writer.push(piece).await.unwrap() } else { writer.write(piece).unwrap() }
        }
        assert_eq!(writer.len(), whole.len());
        let bytes = writer.finish().unwrap();
        assert!(bytes.in_memory().is_none());
        assert_eq!(bytes.to_bytes().unwrap(), whole);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
