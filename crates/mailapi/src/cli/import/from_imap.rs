//! Imports from another IMAP server.

use std::io::Read;
use std::sync::Arc;

use mailapi_archive::SourceKey;
use mailapi_backend_embedded::message_store::SourceUids;
use mailapi_backend_external::TlsMode;
use mailapi_backend_external::imap_pool::{RemoteMailbox, RemoteSettings, RemoteUids};
use mailapi_model::SecretText;
use mailapi_tls::{Trust, client_config};
use rustls::ClientConfig;

use super::folder::Filled;
use super::remote_messages::Fetching;
use super::remote_names::{Wanted, wanted};
use super::report::Report;
use super::{Chosen, Imap, ImapServer, Target};
use crate::cli::password;
use crate::failure::{Failure, Outcome};

/// UIDs whose keys and sizes are looked up together; a command line of a server has 8,192 bytes at least.
const STEP: usize = 500;

/// One folder at the server.
pub(super) struct Source<'a> {
    settings: &'a RemoteSettings,
    folder: &'a Wanted,
    uids: RemoteUids,
}

impl Source<'_> {
    /// Identifies a message in later runs, which may have other flags then.
    pub(super) fn key(&self, uid: u32) -> SourceKey {
        let RemoteSettings { host, user, .. } = self.settings;
        let validity = self.uids.uid_validity.unwrap_or_default();
        let numbers = [validity.to_be_bytes(), uid.to_be_bytes()].concat();
        let (host, name) = (host.to_ascii_lowercase(), &self.folder.folder.source_name);
        SourceKey::of(&[b"imap", host.as_bytes(), user.as_bytes(), name.as_bytes(), &numbers])
    }

    /// Returns where a message is, for reports.
    pub(super) fn place(&self, uid: u32) -> String {
        format!("{} UID {uid}", self.folder.shown)
    }

    pub(super) fn failure(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("{}: {}: {error}", self.settings.host, self.folder.shown))
    }
}

pub(super) async fn import(target: &Target<'_>, imap: Imap, report: &mut Report) -> Outcome {
    let Imap { server, user, master_user, password_file, chosen } = imap;
    let tls = tls(&server)?;
    let name = master_user.as_ref().unwrap_or(&user);
    let password = match &password_file {
        Some(file) => password::read_file(file)?,
        None => password::read_known(&format!("Password of {name} at {}: ", server.host))?,
    };
    import_mailbox(target, (&server.settings(user, master_user, password), &tls), &chosen, report).await
}

impl ImapServer {
    /// Returns the settings for one mailbox of the server.
    pub(super) fn settings(&self, user: String, master_user: Option<String>, password: SecretText) -> RemoteSettings {
        let (host, tls) = (self.host.clone(), TlsMode::from(self.tls));
        let port = self.port.unwrap_or(if tls == TlsMode::Implicit { 993 } else { 143 });
        RemoteSettings { host, port, tls, user, master_user, password }
    }
}

/// Reads the trusted authorities.
pub(super) fn tls(server: &ImapServer) -> Outcome<Arc<ClientConfig>> {
    let trust = match &server.ca_file {
        Some(file) => {
            let failed = |error| Failure::new(format!("{}: {error}", file.display()));
            let mut bytes = Vec::new();
            file.reader().and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?;
            Trust::Authorities(bytes)
        }
        None => Trust::System,
    };
    // A server without TLS needs no authorities, which a small system may not have.
    Ok(client_config(if server.tls == super::Encryption::None { &Trust::Anybody } else { &trust })?)
}

/// Imports the mailbox of one user. A folder or message that the server refuses is reported, and the rest is imported.
pub(super) async fn import_mailbox(
    target: &Target<'_>,
    (settings, tls): (&RemoteSettings, &Arc<ClientConfig>),
    chosen: &Chosen,
    report: &mut Report,
) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", settings.host));
    let mut mailbox = RemoteMailbox::connect(settings, tls).await.map_err(|error| failed(&error))?;
    let folders = mailbox.folders().await.map_err(|error| failed(&error))?;
    for folder in &wanted(target, folders, chosen, report).await? {
        if !mailbox.is_usable() {
            mailbox.reconnect().await.map_err(|error| failed(&error))?;
        }
        match mailbox.open(&folder.folder).await {
            Ok(uids) => import_folder(target, &mut mailbox, &Source { settings, folder, uids }, report).await?,
            // Listed, but not readable with the rights of this user, or damaged.
            Err(error) => report.lost_folder(folder.shown.as_str(), &error)?,
        }
    }
    mailbox.close().await;
    Ok(())
}

async fn import_folder(
    target: &Target<'_>,
    mailbox: &mut RemoteMailbox,
    source: &Source<'_>,
    report: &mut Report,
) -> Outcome {
    let RemoteUids { uid_validity, uid_next, uids, missing } = &source.uids;
    let shown = source.folder.shown.as_str();
    let Some(uid_validity) = *uid_validity else {
        return report.lost_folder(shown, &"the server's UIDs do not last");
    };
    let numbers = Some(SourceUids { uid_validity, uid_next: *uid_next });
    let opened = Filled::open(target, source.folder.name.clone(), (numbers, Some(uids.len() as u64)), report);
    let Some(mut filled) = opened.await? else { return Ok(()) };
    if *missing > 0 {
        report.missing(shown, (*missing).into())?;
    }
    let mut fetching = Fetching { target, mailbox, source, breaks: 0 };
    for step in uids.chunks(STEP) {
        let keys: Vec<_> = step.iter().map(|uid| source.key(*uid)).collect();
        let known = filled.known(&keys).await?;
        let new: Vec<u32> = step.iter().zip(known).filter(|(_, is_known)| !is_known).map(|(uid, _)| *uid).collect();
        report.skipped((step.len() - new.len()) as u64);
        filled.progress(report).await?;
        if !new.is_empty() {
            fetching.import(&new, &mut filled, report).await?;
        }
    }
    filled.end(report).await
}
