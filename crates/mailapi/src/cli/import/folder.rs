//! Fills one folder.

use mailapi_archive::SourceKey;
use mailapi_backend_embedded::message_store::{ImportFolder, ImportMessage, ImportOutcome, SourceUids};
use mailapi_model::FolderName;

use super::Target;
use super::report::Report;
use crate::failure::Outcome;

/// Messages of one transaction, which takes some milliseconds.
const BATCH: usize = 100;
/// Bytes after which a transaction is full: other writers wait for it.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

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
}

impl<'a> Filled<'a> {
    /// Creates the folder if it is missing. `all` is the number of messages in the source, if that is known.
    pub(super) async fn open(
        target: &'a Target<'a>,
        name: FolderName,
        source: Option<SourceUids>,
        all: Option<u64>,
    ) -> Outcome<Self> {
        let folder = target.store.prepare_import(target.email, &name, source).await?;
        Ok(Self { target, name, folder, source, waiting: Vec::new(), bytes: 0, all })
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
                ImportOutcome::Imported { is_kept, .. } => {
                    self.folder.keeps_uids &= is_kept;
                    report.imported();
                }
                ImportOutcome::Known => report.skipped(1),
                ImportOutcome::Refused(error) => report.failed(place, &error)?,
            }
        }
        report.progress(&self.name, self.all);
        Ok(())
    }

    /// Imports the rest, and reports the folder.
    pub(super) async fn end(mut self, report: &mut Report) -> Outcome {
        self.flush(report).await?;
        let Some(source) = self.source else { return report.folder(&self.name, "") };
        let keeps_uids = self.folder.keeps_uids && self.target.store.finish_import(self.folder.id, source).await?;
        let uids = if keeps_uids { "; UIDs kept" } else { "; new UIDs, since the folder was not new and empty" };
        report.folder(&self.name, uids)
    }
}
