//! Folders with a special use for messages of an mbox file that were in such folders.

use mailapi_archive::ArchivedMessage;
use mailapi_backend_embedded::message_store::MessageStoreError;
use mailapi_model::FolderName;

use super::Target;
use super::folder::Filled;
use super::from_files::add;
use super::report::{Counts, Report};
use crate::failure::Outcome;

/// The usual names of folders with a special use (RFC 6154).
const USUAL_NAMES: [(&str, &str); 5] =
    [("\\Sent", "Sent"), ("\\Drafts", "Drafts"), ("\\Junk", "Junk"), ("\\Trash", "Trash"), ("\\Archive", "Archive")];

/// Returns the usual name of a folder with a special use.
pub(super) fn usual_name(special_use: &str) -> Option<FolderName> {
    USUAL_NAMES.iter().find(|(known, _)| *known == special_use).and_then(|(_, name)| name.parse().ok())
}

/// Creates a folder with its special use, so that mail programs find it, unless there is one.
pub(super) async fn prepare(target: &Target<'_>, name: &FolderName, special_use: &'static str) -> Outcome {
    match target.store.create_folder_for(target.email, name, Some(special_use)).await {
        Ok(_) => Ok(target.store.subscribe(target.email, name).await?),
        // The import reports it, or needs nothing.
        Err(
            MessageStoreError::FolderExists | MessageStoreError::SpecialUseTaken | MessageStoreError::TooManyFolders,
        ) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The folders of one file, each with its counts.
#[derive(Default)]
pub(super) struct SpecialFolders<'a>(Vec<(&'static str, Filled<'a>, Counts)>);

impl<'a> SpecialFolders<'a> {
    /// Imports a message into `usual`, unless it names another folder.
    pub(super) async fn add(
        &mut self,
        message: ArchivedMessage,
        usual: &mut Filled<'a>,
        target: &'a Target<'a>,
        report: &mut Report,
    ) -> Outcome {
        if let Some(special_use) = message.special_use {
            self.open(special_use, target, report).await?;
        }
        let special = self.0.iter_mut().find(|(special_use, ..)| message.special_use == Some(*special_use));
        let Some((_, filled, counts)) = special else { return add(usual, message, target, report).await };
        report.exchange(counts);
        let added = add(filled, message, target, report).await;
        report.exchange(counts);
        added
    }

    async fn open(&mut self, special_use: &'static str, target: &'a Target<'a>, report: &mut Report) -> Outcome {
        if self.0.iter().any(|(known, ..)| *known == special_use) {
            return Ok(());
        }
        let folders = target.store.list_folders(target.email).await?;
        let own = folders.into_iter().find(|folder| folder.special_use.as_deref() == Some(special_use));
        let Some(name) = own.map(|folder| folder.name).or_else(|| usual_name(special_use)) else { return Ok(()) };
        prepare(target, &name, special_use).await?;
        let opened = Filled::open(target, name, (None, None), report).await?;
        self.0.extend(opened.map(|filled| (special_use, filled, Counts::default())));
        Ok(())
    }

    /// Imports the rest, and reports the folders.
    pub(super) async fn end(self, report: &mut Report) -> Outcome {
        for (_, filled, mut counts) in self.0 {
            report.exchange(&mut counts);
            filled.end(report).await?;
        }
        Ok(())
    }
}
