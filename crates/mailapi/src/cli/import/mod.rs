//! `mailapi import`.

mod all_users;
mod folder;
mod from_files;
mod from_imap;
mod from_maildir;
mod remote_messages;
mod remote_names;
mod report;
mod special_folders;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use mailapi_archive::ReadSettings;
use mailapi_backend_embedded::MessageStore;
use mailapi_backend_external::TlsMode;
use mailapi_model::{EmailAddress, FolderName};

use super::input_file::InputFile;
use super::{about, caller};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::rights_thread::RightsThread;
use crate::wiring::{self, Create, MailServer};
pub(super) use all_users::{ImportAll, run as run_all};
use report::Report;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The address of the user whose mailbox receives the mail
    email: EmailAddress,
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    /// Import an mbox file, or a directory of mail
    ///
    /// A directory has mbox files, as of Thunderbird, Apple Mail, readpst or `mailapi export`, or files with one message each,
    /// as of MH.
    Mbox {
        /// The file or directory
        path: PathBuf,
        /// The folder that receives the messages of a file, and those of a directory that has no name of its own
        #[arg(long, default_value = "INBOX")]
        folder: FolderName,
    },
    /// Import a Maildir with its folders
    Maildir {
        /// The directory that contains cur and new
        path: PathBuf,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Import a mailbox of another IMAP server
    ///
    /// The password is asked for on a terminal, otherwise it is the first line of the standard input.
    Imap(Imap),
}

#[derive(Debug, Args)]
struct Imap {
    #[command(flatten)]
    server: ImapServer,
    /// The user's name at that server
    #[arg(long)]
    user: String,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<InputFile>,
    /// A user that may read other users' mailboxes; the password is then this user's
    #[arg(long, value_name = "USER")]
    master_user: Option<String>,
    #[command(flatten)]
    chosen: Chosen,
}

/// An IMAP server to import from.
#[derive(Debug, Args)]
struct ImapServer {
    /// Host name or address of the server
    host: String,
    /// The port [default: 993, or 143 without implicit TLS]
    #[arg(long)]
    port: Option<u16>,
    /// How the connection is encrypted
    #[arg(long, value_enum, default_value_t = Encryption::Implicit)]
    tls: Encryption,
    /// A PEM file with the authorities to trust, instead of those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<InputFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encryption {
    /// From the first byte
    Implicit,
    /// After the command STARTTLS
    Starttls,
    /// Never: anyone on the network path can read the password
    None,
}

impl From<Encryption> for TlsMode {
    fn from(encryption: Encryption) -> Self {
        match encryption {
            Encryption::Implicit => Self::Implicit,
            Encryption::Starttls => Self::StartTls,
            Encryption::None => Self::None,
        }
    }
}

/// The folders to import or export.
#[derive(Debug, Args)]
pub(super) struct Chosen {
    /// Only this folder; may be repeated
    #[arg(long = "folder", value_name = "FOLDER")]
    only: Vec<FolderName>,
    /// Not this folder; may be repeated
    #[arg(long, value_name = "FOLDER")]
    exclude: Vec<FolderName>,
    /// A mailbox may lack a folder that is named.
    #[arg(skip)]
    may_be_missing: bool,
}

impl Chosen {
    /// Returns whether the folder is named.
    fn names(&self, folder: &FolderName) -> bool {
        self.only.contains(folder)
    }

    pub(super) fn includes(&self, folder: &FolderName) -> bool {
        (self.only.is_empty() || self.only.contains(folder)) && !self.exclude.contains(folder)
    }

    /// Returns the choice for several mailboxes, of which some have other folders.
    fn for_several(self) -> Self {
        Self { may_be_missing: true, ..self }
    }

    /// Refuses names that no folder has, which may be mistyped.
    pub(super) fn check<'a>(&self, present: impl Iterator<Item = &'a FolderName> + Clone) -> Outcome {
        if self.may_be_missing {
            return Ok(());
        }
        match self.only.iter().chain(&self.exclude).find(|name| !present.clone().any(|folder| folder == *name)) {
            Some(name) => Err(Failure::new(format!("there is no folder {name}"))),
            None => Ok(()),
        }
    }
}

/// What every import needs.
struct Target<'a> {
    store: &'a MessageStore,
    email: &'a EmailAddress,
    /// Opens the files of the source, which the owner of the data directory may not be able to open.
    place: &'a RightsThread,
}

impl Target<'_> {
    /// Returns why a message is not imported that is too long.
    fn too_long(&self) -> String {
        let limit = self.store.max_message_bytes();
        format!("the message exceeds the maximum size of {limit} bytes (limits.max_message_bytes)")
    }

    fn reading(&self) -> ReadSettings {
        ReadSettings { buffer: self.store.buffer().clone(), max_message_bytes: self.store.max_message_bytes() }
    }
}

pub(super) async fn run(import: Import, config: &Config, place: RightsThread) -> Outcome {
    let Import { email, source } = import;
    if config.is_external() {
        return Err(Failure::new(doveadm_instead(&email, &source)));
    }
    wiring::with_assembly(config, Create::Nothing, async |assembly| {
        assembly.service.get_user(&caller(), &email).await.map_err(|error| about(&email, error))?;
        let MailServer::Embedded(embedded) = &assembly.mail else { return Ok(()) };
        let target = Target { store: embedded.message_store(), email: &email, place: &place };
        let mut report = Report::new();
        let outcome = match source {
            Source::Mbox { path, folder } => from_files::mbox(&target, &path, folder, &mut report).await,
            Source::Maildir { path, chosen } => from_maildir::maildir(&target, &path, &chosen, &mut report).await,
            Source::Imap(imap) => from_imap::import(&target, imap, &mut report).await,
        };
        if outcome.is_ok() {
            embedded.message_store().end_import(&email).await?;
        }
        report.end(&email, outcome)
    })
    .await
}

/// Names the command that does the same in front of Dovecot.
fn doveadm_instead(email: &EmailAddress, source: &Source) -> String {
    let command = match source {
        Source::Mbox { path, .. } => format!("doveadm import -u {email} mbox:{} '' ALL", path.display()),
        Source::Maildir { path, .. } => format!("doveadm import -u {email} maildir:{} '' ALL", path.display()),
        Source::Imap(Imap { server: ImapServer { host, .. }, user, .. }) => format!(
            "doveadm -o imapc_host={host} -o imapc_user={user} -o imapc_ssl=imaps -o imapc_port=993 \
             backup -R -u {email} imapc: (with imapc_password in Dovecot's configuration)"
        ),
    };
    format!("the mailboxes are Dovecot's, which imports them itself: {command}")
}
