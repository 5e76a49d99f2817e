//! Imports from mbox files and Maildirs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use mailapi_archive::maildir::{Maildir, MaildirFile, MaildirFolder};
use mailapi_archive::mbox::MboxReader;
use mailapi_archive::{ArchiveError, ArchivedMessage, folder_of};
use mailapi_backend_embedded::message_store::{ImportMessage, SourceUids};
use mailapi_files::{FileError, FileRefusal, OpenDirectory, open_named_file};
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
    let failed = |error: FileError| Failure::new(error.to_string());
    let directory = match target.place.call(opening(path)).await?.map_err(failed)? {
        Source::File(file) => return mbox_file(target, reader(target, file, path)?, folder, report).await,
        Source::Directory(directory) => Arc::new(directory),
    };
    let listed = Arc::clone(&directory);
    // The right to list a directory is checked again, whatever its handle is.
    let entries = target.place.call(move || listed.entries()).await?.map_err(failed)?;
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    for name in names {
        let shown = name.to_string_lossy();
        let Some(level_name) = shown.strip_suffix(MBOX) else { continue };
        let path = directory.path().join(&name);
        let Some(folder) = folder_of(level_name) else {
            report.lost_folder(&path.display().to_string(), &"no folder can have this name")?;
            continue;
        };
        let opening = Arc::clone(&directory);
        let opened = target.place.call(move || opening.open_file(&name)).await?.map_err(ArchiveError::from);
        match opened.and_then(|file| reader(target, file, &path)) {
            Ok(reader) => mbox_file(target, reader, folder, report).await?,
            // Another user may control the directory.
            Err(error) if error.is_of_content() => report.refused(&error)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What a path names.
enum Source {
    File(File),
    Directory(OpenDirectory),
}

/// Returns the operation that opens a path.
fn opening(path: &Path) -> impl FnOnce() -> Result<Source, FileError> + use<> {
    let path = path.to_owned();
    move || match open_named_file(&path) {
        Ok(file) => Ok(Source::File(file)),
        // A slash at the end, `.` and `..` name directories as well.
        Err(error) => match OpenDirectory::open(&path) {
            Ok(directory) => Ok(Source::Directory(directory)),
            Err(_) if error.refusal() != Some(FileRefusal::Directory) => Err(error),
            Err(error) => Err(error),
        },
    }
}

type FileReader = MboxReader<BufReader<File>>;

fn reader(target: &Target<'_>, file: File, path: &Path) -> Result<FileReader, ArchiveError> {
    MboxReader::new(BufReader::new(file), &path.display().to_string(), target.reading())
}

async fn mbox_file(target: &Target<'_>, mut reader: FileReader, folder: FolderName, report: &mut Report) -> Outcome {
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
    let ArchivedMessage { place, key, uid, flags, internal_date, content, .. } = message;
    let Some(content) = content else {
        return report.failed(&place, &"the message exceeds the maximum size");
    };
    filled.add(place, ImportMessage { key: key.0, uid, flags, internal_date, content }, report).await
}

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

async fn maildir_folder(target: &Target<'_>, folder: MaildirFolder, report: &mut Report) -> Outcome {
    let (name, place) = (folder.name.clone(), folder.place());
    let files = match target.place.call(move || folder.files()).await? {
        Err(error) if error.is_of_content() => return report.lost_folder(&place, &error),
        files => files?,
    };
    for error in &files.refused {
        report.refused(error)?;
    }
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
    match target.place.call(move || file.read(&settings)).await? {
        Ok(message) => add(filled, message, report).await,
        // One message is lost: another program moved or removed it, or it cannot be read.
        Err(error @ (ArchiveError::File { .. } | ArchiveError::Entry(_))) => report.failed(&place, &error),
        Err(error) => Err(error.into()),
    }
}
