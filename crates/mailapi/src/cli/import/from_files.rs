//! Imports from mbox files, and from directories of mail.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use mailapi_archive::mbox::MboxReader;
use mailapi_archive::tree::{MailFile, MailTree, MessageReader, TreeContent, TreeNote, UnreadMessage};
use mailapi_archive::{ArchiveError, ArchivedMessage};
use mailapi_backend_embedded::message_store::ImportMessage;
use mailapi_files::{FileError, FileRefusal, OpenDirectory, open_named_file};
use mailapi_model::FolderName;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::Target;
use super::folder::{Filled, LeftOut, MessageOrigin};
use super::from_maildir::maildir_folder;
use super::report::Report;
use super::special_folders::SpecialFolders;
use crate::failure::{Failure, Outcome};

/// Messages that are read before they are stored; each takes at most a megabyte of memory.
const AHEAD: usize = 16;

pub(super) async fn mbox(target: &Target<'_>, path: &Path, folder: FolderName, report: &mut Report) -> Outcome {
    let failed = |error: FileError| Failure::new(error.to_string());
    let directory = match target.place.call(opening(path)).await?.map_err(failed)? {
        Source::File(file) => return mbox_file(target, reader(target, file, path)?, folder, report).await,
        Source::Directory(directory) => Arc::new(directory),
    };
    // The right to list a directory is checked again, whatever its handle is.
    let MailTree { sources, left, lost, refused } = target.place.call(move || MailTree::of(directory)).await??;
    let has_nothing = sources.is_empty() && lost.is_empty() && refused.is_empty();
    for TreeNote { path, reason } in left {
        report.left(&path.display().to_string(), &reason)?;
    }
    for TreeNote { path, reason } in lost {
        report.lost_folder(&path.display().to_string(), &reason)?;
    }
    for error in refused {
        report.refused(&error)?;
    }
    if has_nothing {
        return Err(Failure::new(format!("{}: {NO_MAIL}", path.display())));
    }
    for source in sources {
        let folder = source.folder.unwrap_or_else(|| folder.clone());
        match source.content {
            TreeContent::Mbox(file) => tree_mbox(target, file, folder, report).await?,
            TreeContent::Messages(messages) => message_files(target, messages, folder, report).await?,
            TreeContent::Maildir(folder) => maildir_folder(target, folder, report).await?,
        }
    }
    Ok(())
}

const NO_MAIL: &str = "has no mail that can be read: neither mbox files nor files with one message each; a Maildir is \
     imported by `mailapi import USER maildir DIRECTORY`";

async fn tree_mbox(target: &Target<'_>, file: MailFile, folder: FolderName, report: &mut Report) -> Outcome {
    let path = file.path();
    let opened = target.place.call(move || file.open()).await?;
    match opened.and_then(|file| reader(target, file, &path)) {
        Ok(reader) => mbox_file(target, reader, folder, report).await,
        // Another user may control the directory.
        Err(error @ (ArchiveError::Form { .. } | ArchiveError::Entry(_))) => report.refused(&error),
        Err(error) => Err(error.into()),
    }
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
    let Some(mut filled) = Filled::open(target, folder, (None, None), report).await? else { return Ok(()) };
    let mut special = SpecialFolders::default();
    let (sender, mut receiver) = mpsc::channel(AHEAD);
    // Ends with the file, or when nothing takes its messages any more.
    let reading = spawn_blocking(move || reader.all(|read| sender.blocking_send(read).is_ok()));
    while let Some(read) = receiver.recv().await {
        match read {
            Ok(message) => special.add(message, &mut filled, target, report).await?,
            // The rest of this file is lost, and other files are read.
            Err(error) if error.is_of_content() => report.refused(&error)?,
            Err(error) => return Err(error.into()),
        }
    }
    reading.await?;
    filled.end(report).await?;
    special.end(report).await
}

async fn message_files(
    target: &Target<'_>,
    mut messages: MessageReader,
    folder: FolderName,
    report: &mut Report,
) -> Outcome {
    let all = Some(messages.left() as u64);
    let Some(mut filled) = Filled::open(target, folder, (None, all), report).await? else { return Ok(()) };
    loop {
        let settings = target.reading();
        let reading = move || {
            let read = messages.read_next(&settings);
            (messages, read)
        };
        let (rest, read) = target.place.call(reading).await?;
        messages = rest;
        match read {
            None => return filled.end(report).await,
            Some(Ok(message)) => add(&mut filled, message, target, report).await?,
            Some(Err(UnreadMessage { place, error: ArchiveError::Buffer(error) })) => {
                return Err(Failure::new(format!("{place}: {error}")));
            }
            Some(Err(UnreadMessage { place, error })) => report.failed(&place, &error)?,
        }
    }
}

/// Imports a message into a folder.
pub(super) async fn add(
    filled: &mut Filled<'_>,
    message: ArchivedMessage,
    target: &Target<'_>,
    report: &mut Report,
) -> Outcome {
    let ArchivedMessage { place, key, uid, flags, lost_flags, internal_date, content, .. } = message;
    let Some(content) = content else { return report.failed(&place, &target.too_long()) };
    let origin = MessageOrigin { place, left_out: LeftOut { flags: lost_flags, dates: 0 } };
    filled.add(origin, ImportMessage { key: key.0, uid, flags, internal_date, content }, report).await
}
