//! Fills one folder.

use std::time::{Duration, Instant};

use mailapi_archive::SourceKey;
use mailapi_backend::mime::{Header, header_block};
use mailapi_backend::read_bytes;
use mailapi_backend_embedded::message_store::{
    ImportFolder, ImportMessage, ImportOutcome, MessageStoreError, SourceUids, UidLoss,
};
use mailapi_model::{Blob, FolderName, Timestamp};

use super::Target;
use super::report::Report;
use crate::failure::Outcome;

/// Messages of one transaction, which takes about 4 ms. Writes of the server wait meanwhile.
const BATCH: usize = 50;
/// Bytes after which a transaction is full.
const BATCH_BYTES: usize = 1024 * 1024;

/// A folder being filled.
pub(super) struct Filled<'a> {
    target: &'a Target<'a>,
    name: FolderName,
    folder: ImportFolder,
    source: Option<SourceUids>,
    /// Messages of the next transaction.
    waiting: Vec<(MessageOrigin, ImportMessage)>,
    bytes: usize,
    all: Option<u64>,
    left_out: LeftOut,
    /// When the server is informed again.
    next_note: Instant,
}

/// Where a message is in its source, and what of it is left out.
#[derive(Debug)]
pub(super) struct MessageOrigin {
    /// For reports.
    pub(super) place: String,
    pub(super) left_out: LeftOut,
}

/// What imported messages lost, since no mailbox here can have it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftOut {
    pub(super) flags: u64,
    pub(super) dates: u64,
}

/// How often the server is informed about the progress.
const BETWEEN_NOTES: Duration = Duration::from_secs(1);

impl<'a> Filled<'a> {
    /// Creates the folder if it is missing. `all` is the number of messages in the source, if that is known. Returns `None`
    /// after the report of a folder that cannot be created.
    pub(super) async fn open(
        target: &'a Target<'a>,
        name: FolderName,
        (source, all): (Option<SourceUids>, Option<u64>),
        report: &mut Report,
    ) -> Outcome<Option<Self>> {
        let folder = match target.store.prepare_import(target.email, &name, source).await {
            Err(error @ MessageStoreError::TooManyFolders) => {
                report.lost_folder(name.as_str(), &error)?;
                return Ok(None);
            }
            folder => folder?,
        };
        target.store.note_import(target.email, &name, 0, all).await?;
        let (next_note, left_out) = (Instant::now() + BETWEEN_NOTES, LeftOut::default());
        Ok(Some(Self { target, name, folder, source, waiting: Vec::new(), bytes: 0, all, left_out, next_note }))
    }

    /// Returns which messages an earlier run has imported.
    pub(super) async fn known(&self, keys: &[SourceKey]) -> Outcome<Vec<bool>> {
        let keys: Vec<_> = keys.iter().map(|SourceKey(key)| *key).collect();
        Ok(self.target.store.known_imports(self.folder.id, &keys).await?)
    }

    /// Imports a message, later together with others. One without a time of receipt gets that of its header.
    pub(super) async fn add(
        &mut self,
        origin: MessageOrigin,
        mut message: ImportMessage,
        report: &mut Report,
    ) -> Outcome {
        if message.internal_date.is_none() {
            message.internal_date = sent_at(&message.content).await;
        }
        self.bytes += message.content.len();
        self.waiting.push((origin, message));
        if self.waiting.len() >= BATCH || self.bytes >= BATCH_BYTES {
            self.flush(report).await?;
        }
        Ok(())
    }

    /// Imports the messages that wait.
    async fn flush(&mut self, report: &mut Report) -> Outcome {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (origins, messages): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting).into_iter().unzip();
        self.bytes = 0;
        let outcomes = self.target.store.import(self.folder, messages).await?;
        for (MessageOrigin { place, left_out }, outcome) in origins.iter().zip(outcomes) {
            match outcome {
                ImportOutcome::Imported { uid_loss, lost_keywords, .. } => {
                    self.left_out.flags += left_out.flags + lost_keywords;
                    self.left_out.dates += left_out.dates;
                    // The first one ends the numbers of the source for all that follow.
                    self.folder.uid_loss = self.folder.uid_loss.or(uid_loss);
                    report.imported();
                }
                ImportOutcome::Known => report.skipped(1),
                ImportOutcome::Refused(MessageStoreError::TooLong) => report.failed(place, &self.target.too_long())?,
                ImportOutcome::Refused(error) => report.failed(place, &error)?,
            }
        }
        self.progress(report).await
    }

    /// Shows how far the folder is, here and in the console.
    pub(super) async fn progress(&mut self, report: &mut Report) -> Outcome {
        report.progress(&self.name, self.all);
        let now = Instant::now();
        if now >= self.next_note {
            self.next_note = now + BETWEEN_NOTES;
            let Target { store, email, .. } = self.target;
            store.note_import(email, &self.name, report.done(), self.all).await?;
        }
        Ok(())
    }

    /// Imports the rest, and reports the folder.
    pub(super) async fn end(mut self, report: &mut Report) -> Outcome {
        self.flush(report).await?;
        let left_out = self.left_out.text();
        let Some(source) = self.source else { return report.folder(&self.name, &left_out) };
        let uid_loss = match self.folder.uid_loss {
            Some(uid_loss) => Some(uid_loss),
            None => self.target.store.finish_import(self.folder.id, source).await?,
        };
        let uids =
            uid_loss.map_or("; UIDs kept".to_owned(), |uid_loss| format!("; new UIDs, since {}", reason(uid_loss)));
        report.folder(&self.name, &(uids + &left_out))
    }
}

impl LeftOut {
    /// Returns the end of a folder's line.
    fn text(self) -> String {
        let count = |count: u64, name: &str| match count {
            0 => None,
            1 => Some(format!("1 {name}")),
            count => Some(format!("{count} {name}s")),
        };
        let counts = [count(self.flags, "unusable flag"), count(self.dates, "missing date")];
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        if counts.is_empty() { String::new() } else { format!("; left out: {}", counts.join(", ")) }
    }
}

/// Bytes of a message in which its Date field is sought.
const MAX_HEADER: usize = 64 * 1024;

async fn sent_at(content: &Blob) -> Option<Timestamp> {
    let bytes = read_bytes(content, 0..content.len().min(MAX_HEADER)).await.ok()?;
    Header::of(header_block(&bytes)).moments("Date").next()
}

const fn reason(uid_loss: UidLoss) -> &'static str {
    match uid_loss {
        UidLoss::Unnumbered => "the source has none",
        UidLoss::FolderInUse => "the folder was not new and empty",
        UidLoss::OtherMail => "the folder received other messages during the import",
        UidLoss::BadValidity => "the UIDVALIDITY of the source is missing, 0, or far in the future",
        UidLoss::FewLeft => "those of the source leave too few for future messages",
        UidLoss::Disordered => "the source repeats a UID, or its UIDs do not rise",
    }
}
