//! Fills one folder.

use std::time::{Duration, Instant};

use mailapi_archive::SourceKey;
use mailapi_backend_embedded::message_store::{ImportFolder, ImportMessage, ImportOutcome, SourceUids, UidLoss};
use mailapi_model::FolderName;

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
    /// Messages of the next transaction, each with its place in the source.
    waiting: Vec<(String, ImportMessage)>,
    bytes: usize,
    all: Option<u64>,
    /// When the server is informed again.
    next_note: Instant,
}

/// How often the server is informed about the progress.
const BETWEEN_NOTES: Duration = Duration::from_secs(1);

impl<'a> Filled<'a> {
    /// Creates the folder if it is missing. `all` is the number of messages in the source, if that is known.
    pub(super) async fn open(
        target: &'a Target<'a>,
        name: FolderName,
        source: Option<SourceUids>,
        all: Option<u64>,
    ) -> Outcome<Self> {
        let folder = target.store.prepare_import(target.email, &name, source).await?;
        target.store.note_import(target.email, &name, 0, all).await?;
        let next_note = Instant::now() + BETWEEN_NOTES;
        Ok(Self { target, name, folder, source, waiting: Vec::new(), bytes: 0, all, next_note })
    }

    /// Returns which messages an earlier run has imported.
    pub(super) async fn known(&self, keys: &[SourceKey]) -> Outcome<Vec<bool>> {
        let keys: Vec<_> = keys.iter().map(|SourceKey(key)| *key).collect();
        Ok(self.target.store.known_imports(self.folder.id, &keys).await?)
    }

    /// Imports a message, later together with others.
    pub(super) async fn add(&mut self, place: String, message: ImportMessage, report: &mut Report) -> Outcome {
        self.bytes += message.content.len();
        self.waiting.push((place, message));
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
        let (places, messages): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting).into_iter().unzip();
        self.bytes = 0;
        let outcomes = self.target.store.import(self.folder, messages).await?;
        for (place, outcome) in places.iter().zip(outcomes) {
            match outcome {
                ImportOutcome::Imported { uid_loss, .. } => {
                    // The first one ends the numbers of the source for all that follow.
                    self.folder.uid_loss = self.folder.uid_loss.or(uid_loss);
                    report.imported();
                }
                ImportOutcome::Known => report.skipped(1),
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
        let Some(source) = self.source else { return report.folder(&self.name, "") };
        let uid_loss = match self.folder.uid_loss {
            Some(uid_loss) => Some(uid_loss),
            None => self.target.store.finish_import(self.folder.id, source).await?,
        };
        let uids =
            uid_loss.map_or("; UIDs kept".to_owned(), |uid_loss| format!("; new UIDs, since {}", reason(uid_loss)));
        report.folder(&self.name, &uids)
    }
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
