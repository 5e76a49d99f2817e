//! `mailapi export`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use mailapi_archive::maildir::{MaildirWriter, write_subscriptions};
use mailapi_archive::mbox::MboxWriter;
use mailapi_archive::{ArchiveError, ExportedMessage, directory_names, level_name};
use mailapi_backend_embedded::message_store::{Folder, MailboxExport};
use mailapi_files::{FileError, OpenDirectory};
use mailapi_model::{EmailAddress, FolderName};

use super::import::Chosen;
use super::{about, audit_mail, caller, print};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::rights_thread::RightsThread;
use crate::wiring::{self, Create, MailServer};

#[derive(Debug, Args)]
pub(super) struct Export {
    /// The address of the user whose mailbox is exported
    email: EmailAddress,
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// Write a Maildir++ with the lists of UIDs and keywords that Dovecot reads
    Maildir(Destination),
    /// Write one mbox file for each folder
    Mbox(Destination),
}

#[derive(Debug, Args)]
struct Destination {
    /// A directory that is empty or does not exist
    directory: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
}

/// Mail is for its owner alone.
const DIRECTORY_MODE: u32 = 0o700;

/// Messages whose rows are read together.
const STEP: usize = 200;

pub(super) async fn run(export: Export, config: &Config, place: RightsThread) -> Outcome {
    let Export { email, format } = export;
    if config.is_external() {
        return Err(Failure::new(doveadm_instead(&email, &format)));
    }
    wiring::with_assembly(config, Create::Nothing, async |assembly| {
        assembly.service.get_user(&caller(), &email).await.map_err(|error| about(&email, error))?;
        let MailServer::Embedded(embedded) = &assembly.mail else { return Ok(()) };
        let (Format::Maildir(Destination { directory, chosen }) | Format::Mbox(Destination { directory, chosen })) =
            &format;
        let path = directory.clone();
        let directory = Arc::new(place.call(move || prepare(&path)).await??);
        let mut export = embedded.message_store().begin_export(&email).await?;
        let folders = export.folders()?;
        chosen.check(folders.iter().map(|folder| &folder.name))?;
        let mut all = 0;
        let names: Vec<FolderName> = folders.iter().map(|folder| folder.name.clone()).collect();
        let directory_names = directory_names(&names);
        let mut subscribed = Vec::new();
        let subscriptions = export.subscriptions()?;
        for (folder, name) in folders.iter().zip(&directory_names).filter(|(folder, _)| chosen.includes(&folder.name)) {
            all += export_folder(&mut export, (folder, name), (&format, &directory), &place).await?;
            if subscriptions.contains(&folder.name) {
                subscribed.push(name.clone());
            }
        }
        if matches!(format, Format::Maildir(_)) {
            place.call(move || write_subscriptions(&directory, &subscribed)).await??;
        }
        audit_mail(&email, all, "mail exported");
        print(&format!("{}: {all} messages exported\n", email.shown()))
    })
    .await
}

/// Names the command that does the same in front of Dovecot.
fn doveadm_instead(email: &EmailAddress, format: &Format) -> String {
    let (kind, Destination { directory, .. }) = match format {
        Format::Maildir(destination) => ("maildir", destination),
        Format::Mbox(destination) => ("mbox", destination),
    };
    format!(
        "the mailboxes are Dovecot's, which exports them itself: doveadm backup -u {email} {kind}:{}",
        directory.display()
    )
}

/// Opens the directory, which is empty, or creates it. Its owner may be another user.
fn prepare(path: &Path) -> Outcome<OpenDirectory> {
    let failed = |error: FileError| Failure::new(error.to_string());
    let directory = OpenDirectory::open_or_create(path, DIRECTORY_MODE).map_err(failed)?;
    let mut is_empty = true;
    let looked = directory.visit_entries(|_| {
        is_empty = false;
        ControlFlow::Break(())
    });
    looked.map_err(failed)?;
    if is_empty { Ok(directory) } else { Err(Failure::new(format!("{}: the directory is not empty", path.display()))) }
}

/// Writes one folder.
enum Writer {
    Maildir(Box<MaildirWriter>),
    Mbox(MboxWriter),
}

impl Writer {
    /// Returns the operation that creates the files of a folder.
    fn creating(
        format: &Format,
        directory: &Arc<OpenDirectory>,
        (folder, directory_name): (&Folder, &str),
    ) -> impl FnOnce() -> Result<Self, ArchiveError> + use<> {
        let is_maildir = matches!(format, Format::Maildir(_));
        let (directory, name, directory_name) = (Arc::clone(directory), folder.name.clone(), directory_name.to_owned());
        let (uid_validity, uid_next) = (folder.uid_validity, folder.uid_next);
        move || {
            Ok(if is_maildir {
                Self::Maildir(Box::new(MaildirWriter::create(
                    &directory,
                    (&name, &directory_name),
                    uid_validity,
                    uid_next,
                )?))
            } else {
                Self::Mbox(MboxWriter::create(&directory, &format!("{}.mbox", level_name(&name)))?)
            })
        }
    }

    /// Returns the number of flags that the format cannot hold.
    fn add(&mut self, message: &ExportedMessage) -> Result<usize, ArchiveError> {
        match self {
            Self::Maildir(writer) => writer.add(message),
            Self::Mbox(writer) => writer.add(message).map(|()| 0),
        }
    }

    fn finish(self) -> Result<(), ArchiveError> {
        match self {
            Self::Maildir(writer) => writer.finish(),
            Self::Mbox(writer) => writer.finish(),
        }
    }
}

/// Exports a folder. Returns the number of its messages. Only `place` can write the directory.
async fn export_folder(
    export: &mut MailboxExport,
    (folder, directory_name): (&Folder, &str),
    (format, directory): (&Format, &Arc<OpenDirectory>),
    place: &RightsThread,
) -> Outcome<u64> {
    let mut writer = place.call(Writer::creating(format, directory, (folder, directory_name))).await??;
    let (mut messages, mut lost_keywords, mut after) = (0, 0, 0);
    loop {
        let entries = export.entries_above(folder.id, after, STEP)?;
        let Some(last) = entries.last() else { break };
        after = last.state.uid;
        for entry in &entries {
            let content = export.message_of(entry)?;
            let (uid, flags) = (entry.state.uid, entry.state.flags.clone());
            let message = ExportedMessage { uid, flags, internal_date: entry.internal_date, content };
            let added = place.call(move || {
                let added = writer.add(&message);
                (writer, added)
            });
            let added = added.await?;
            writer = added.0;
            lost_keywords += added.1?;
            messages += 1;
        }
    }
    place.call(move || writer.finish()).await??;
    let lost = if lost_keywords == 0 {
        String::new()
    } else {
        format!("; {lost_keywords} keywords lost, since a Maildir has at most 26 in a folder")
    };
    print(&format!("{}: {messages} messages{lost}\n", folder.name))?;
    Ok(messages)
}
