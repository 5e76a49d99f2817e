//! Imports from Maildirs.

use std::path::Path;

use mailapi_archive::ArchiveError;
use mailapi_archive::maildir::{Maildir, MaildirFile, MaildirFolder};
use mailapi_backend_embedded::message_store::SourceUids;

use super::folder::Filled;
use super::from_files::add;
use super::report::Report;
use super::{Chosen, Target};
use crate::failure::Outcome;

/// Files whose keys are looked up together.
const STEP: usize = 200;

/// What a full list of keywords may lack.
const FURTHER_KEYWORDS: &str = "if there are more than the 26 in the list, only Dovecot's index has them; \
     an import by IMAP reads them";

pub(super) async fn maildir(target: &Target<'_>, path: &Path, chosen: &Chosen, report: &mut Report) -> Outcome {
    let root = path.to_owned();
    let Maildir { folders, unnamed, refused } = target.place.call(move || Maildir::open(&root)).await??;
    chosen.check(folders.iter().map(|folder| &folder.name))?;
    for name in unnamed {
        report.lost_folder(&name, &"no folder can have this name, or another one has it")?;
    }
    for error in refused {
        report.refused(&error)?;
    }
    for folder in folders.into_iter().filter(|folder| chosen.includes(&folder.name)) {
        maildir_folder(target, folder, report).await?;
    }
    Ok(())
}

pub(super) async fn maildir_folder(target: &Target<'_>, folder: MaildirFolder, report: &mut Report) -> Outcome {
    let (name, place) = (folder.name.clone(), folder.place());
    let files = match target.place.call(move || folder.files()).await? {
        Err(error) if error.is_of_content() => return report.lost_folder(&place, &error),
        files => files?,
    };
    for error in &files.refused {
        report.refused(error)?;
    }
    if files.may_lack_keywords {
        report.left(&format!("{place}: keywords"), &FURTHER_KEYWORDS)?;
    }
    let highest = files.files.iter().filter_map(|file| file.uid).max().unwrap_or_default();
    let after_all = highest.saturating_add(1);
    let source = files
        .uid_validity
        .map(|uid_validity| SourceUids { uid_validity, uid_next: files.uid_next.unwrap_or(after_all).max(after_all) });
    let opened = Filled::open(target, name, (source, Some(files.files.len() as u64)), report).await?;
    let Some(mut filled) = opened else { return Ok(()) };
    // Messages without a UID would get UIDs that the source may give to others.
    let mut unlisted = source.map_or(1, |source| source.uid_next);
    for step in files.files.chunks(STEP) {
        let keys: Vec<_> = step.iter().map(|file| file.key).collect();
        let known = filled.known(&keys).await?;
        for (file, is_known) in step.iter().zip(known) {
            if is_known {
                report.skipped(1);
                continue;
            }
            let mut file = file.clone();
            if file.uid.is_none() && source.is_some() {
                file.uid = Some(unlisted);
                unlisted = unlisted.saturating_add(1);
            }
            read_file(&mut filled, file, target, report).await?;
        }
        filled.progress(report).await?;
    }
    filled.end(report).await
}

async fn read_file(filled: &mut Filled<'_>, file: MaildirFile, target: &Target<'_>, report: &mut Report) -> Outcome {
    let (settings, place) = (target.reading(), file.place());
    match target.place.call(move || file.read(&settings)).await? {
        Ok(message) => add(filled, message, target, report).await,
        // One message is lost: another program moved or removed it, or it cannot be read.
        Err(error @ (ArchiveError::File { .. } | ArchiveError::Entry(_))) => report.failed(&place, &error),
        Err(ArchiveError::Form { reason, .. }) => report.failed(&place, &reason),
        Err(error) => Err(error.into()),
    }
}
