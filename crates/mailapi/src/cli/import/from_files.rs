//! Imports from mbox files and Maildirs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use mailapi_archive::maildir::{Maildir, MaildirFile, MaildirFolder};
use mailapi_archive::mbox::MboxReader;
use mailapi_archive::{ArchiveError, ArchivedMessage, folder_of};
use mailapi_backend_embedded::message_store::{ImportMessage, SourceUids};
use mailapi_model::FolderName;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::folder::Filled;
use super::report::Report;
use super::{Chosen, Target};
use crate::failure::{Failure, Outcome};

/// Messages that are read before they are stored; each takes at most a megabyte of memory.
const AHEAD: usize = 16;
/// Files whose keys are looked up together.
const STEP: usize = 200;
/// End of the names of mbox files in a directory.
const MBOX: &str = ".mbox";

pub(super) async fn mbox(target: &Target<'_>, path: &Path, folder: FolderName, report: &mut Report) -> Outcome {
    if !path.is_dir() {
        return mbox_file(target, path, folder, report).await;
    }
    let failed = |error| Failure::new(format!("{}: {error}", path.display()));
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    let mut files: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(MBOX) else { continue };
        match folder_of(name) {
            Some(folder) => mbox_file(target, &file, folder, report).await?,
            None => report.lost_folder(&file.display().to_string(), &"no folder can have this name")?,
        }
    }
    Ok(())
}

async fn mbox_file(target: &Target<'_>, path: &Path, folder: FolderName, report: &mut Report) -> Outcome {
    let place = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::new(format!("{place}: {error}")))?;
    let mut reader = MboxReader::new(BufReader::new(file), &place, target.reading())?;
    let mut filled = Filled::open(target, folder, None, None).await?;
    let (sender, mut receiver) = mpsc::channel(AHEAD);
    // Ends with the file, or when nothing takes its messages any more.
    let reading = spawn_blocking(move || reader.all(|read| sender.blocking_send(read).is_ok()));
    while let Some(read) = receiver.recv().await {
        add(&mut filled, read?, report).await?;
    }
    reading.await?;
    filled.end(report).await
}

async fn add(filled: &mut Filled<'_>, message: ArchivedMessage, report: &mut Report) -> Outcome {
    let ArchivedMessage { place, key, uid, flags, internal_date, content } = message;
    let Some(content) = content else {
        return report.failed(&place, &"the message exceeds the maximum size");
    };
    filled.add(place, ImportMessage { key: key.0, uid, flags, internal_date, content }, report).await
}

pub(super) async fn maildir(target: &Target<'_>, path: &Path, chosen: &Chosen, report: &mut Report) -> Outcome {
    let root = path.to_owned();
    let Maildir { folders, unnamed } = spawn_blocking(move || Maildir::open(&root)).await??;
    chosen.check(folders.iter().map(|folder| &folder.name))?;
    for name in unnamed {
        report.lost_folder(&name, &"no folder can have this name, or another one has it")?;
    }
    for folder in folders.into_iter().filter(|folder| chosen.includes(&folder.name)) {
        maildir_folder(target, folder, report).await?;
    }
    Ok(())
}

async fn maildir_folder(target: &Target<'_>, folder: MaildirFolder, report: &mut Report) -> Outcome {
    let name = folder.name.clone();
    let files = spawn_blocking(move || folder.files()).await??;
    let highest = files.files.iter().filter_map(|file| file.uid).max().unwrap_or_default();
    let after_all = highest.saturating_add(1);
    let source = files
        .uid_validity
        .map(|uid_validity| SourceUids { uid_validity, uid_next: files.uid_next.unwrap_or(after_all).max(after_all) });
    let mut filled = Filled::open(target, name, source, Some(files.files.len() as u64)).await?;
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
    match spawn_blocking(move || file.read(&settings)).await? {
        Ok(message) => add(filled, message, report).await,
        // One message is lost: another program moved or removed it, or it cannot be read.
        Err(error @ ArchiveError::File { .. }) => report.failed(&place, &error),
        Err(error) => Err(error.into()),
    }
}
