//! Imports from another IMAP server.

use std::collections::HashMap;
use std::io::Read;

use mailapi_archive::SourceKey;
use mailapi_backend_embedded::message_store::{ImportMessage, SourceUids};
use mailapi_backend_external::TlsMode;
use mailapi_backend_external::imap_pool::{RemoteMailbox, RemoteSettings, RemoteUids};
use mailapi_model::FolderName;
use mailapi_tls::{Trust, client_config};

use super::folder::Filled;
use super::report::Report;
use super::{Chosen, Imap, Target};
use crate::cli::password;
use crate::failure::{Failure, Outcome};

/// UIDs whose keys and sizes are looked up together; a command line of a server has 8,192 bytes at least.
const STEP: usize = 500;
/// Messages of one FETCH, and their bytes: less waiting for a server that is far away.
const FETCHED: usize = 50;
const FETCHED_BYTES: u64 = 4 * 1024 * 1024;

/// One folder at the server.
struct Source<'a> {
    settings: &'a RemoteSettings,
    name: FolderName,
    uids: RemoteUids,
}

impl Source<'_> {
    /// Identifies a message in later runs, which may have other flags then.
    fn key(&self, uid: u32) -> SourceKey {
        let RemoteSettings { host, user, .. } = self.settings;
        let validity = self.uids.uid_validity.unwrap_or_default();
        let numbers = [validity.to_be_bytes(), uid.to_be_bytes()].concat();
        let host = host.to_ascii_lowercase();
        SourceKey::of(&[b"imap", host.as_bytes(), user.as_bytes(), self.name.as_str().as_bytes(), &numbers])
    }
}

pub(super) async fn import(target: &Target<'_>, imap: Imap, report: &mut Report) -> Outcome {
    let trust = match &imap.ca_file {
        Some(file) => {
            let failed = |error| Failure::new(format!("{}: {error}", file.display()));
            let mut bytes = Vec::new();
            file.reader().and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?;
            Trust::Authorities(bytes)
        }
        None => Trust::System,
    };
    // A server without TLS needs no authorities, which a small system may not have.
    let tls = client_config(if imap.tls == super::Encryption::None { &Trust::Anybody } else { &trust })?;
    let (settings, chosen) = settings(imap)?;
    let failed = |error| Failure::new(format!("{}: {error}", settings.host));
    let mut mailbox = RemoteMailbox::connect(&settings, &tls).await.map_err(failed)?;
    let folders = folders(&mut mailbox, &chosen, report).await?;
    for name in folders {
        match mailbox.open(&name).await {
            Ok(uids) => {
                import_folder(target, &mut mailbox, &Source { settings: &settings, name, uids }, report).await?
            }
            // Listed, but not readable with the rights of this user.
            Err(mailapi_backend::MailboxError::NoSuchFolder) => {
                report.lost_folder(name.as_str(), &"the server refuses to open the folder")?;
            }
            Err(mailapi_backend::MailboxError::TooLarge) => {
                report.lost_folder(name.as_str(), &"the folder has more than 10,000,000 messages")?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    mailbox.close().await;
    Ok(())
}

fn settings(imap: Imap) -> Outcome<(RemoteSettings, Chosen)> {
    let tls = TlsMode::from(imap.tls);
    let port = imap.port.unwrap_or(if tls == TlsMode::Implicit { 993 } else { 143 });
    let name = imap.master_user.as_ref().unwrap_or(&imap.user);
    let password = match &imap.password_file {
        Some(file) => password::read_file(file)?,
        None => password::read_known(&format!("Password of {name} at {}: ", imap.host))?,
    };
    let Imap { host, user, master_user, chosen, .. } = imap;
    Ok((RemoteSettings { host, port, tls, user, master_user, password }, chosen))
}

async fn folders(mailbox: &mut RemoteMailbox, chosen: &Chosen, report: &mut Report) -> Outcome<Vec<FolderName>> {
    let mut folders = Vec::new();
    for folder in mailbox.folders().await? {
        match folder.name {
            Ok(name) => folders.push(name),
            Err(name) => report.lost_folder(&name, &"no folder can have this name")?,
        }
    }
    folders.sort_by_key(|name| (*name != FolderName::inbox(), name.clone()));
    chosen.check(folders.iter())?;
    folders.retain(|name| chosen.includes(name));
    Ok(folders)
}

async fn import_folder(
    target: &Target<'_>,
    mailbox: &mut RemoteMailbox,
    source: &Source<'_>,
    report: &mut Report,
) -> Outcome {
    let RemoteUids { uid_validity, uid_next, uids } = &source.uids;
    let Some(uid_validity) = *uid_validity else {
        return report.lost_folder(source.name.as_str(), &"the server's UIDs do not last");
    };
    let numbers = Some(SourceUids { uid_validity, uid_next: *uid_next });
    let mut filled = Filled::open(target, source.name.clone(), numbers, Some(uids.len() as u64)).await?;
    for step in uids.chunks(STEP) {
        let keys: Vec<_> = step.iter().map(|uid| source.key(*uid)).collect();
        let known = filled.known(&keys).await?;
        let new: Vec<u32> = step.iter().zip(known).filter(|(_, is_known)| !is_known).map(|(uid, _)| *uid).collect();
        report.skipped((step.len() - new.len()) as u64);
        filled.progress(report).await?;
        if new.is_empty() {
            continue;
        }
        let sizes: HashMap<u32, u64> = mailbox.sizes(&new).await?.into_iter().collect();
        for group in groups(&new, &sizes, target.store.max_message_bytes() as u64) {
            fetch(target, mailbox, source, &group, &mut filled, report).await?;
        }
    }
    filled.end(report).await
}

/// Divides UIDs into those of one FETCH each. A message beyond the limit is alone.
fn groups(uids: &[u32], sizes: &HashMap<u32, u64>, max_message: u64) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut bytes = u64::MAX;
    for uid in uids {
        let size = sizes.get(uid).copied().unwrap_or_default().min(max_message);
        bytes = bytes.saturating_add(size);
        match groups.last_mut() {
            Some(group) if bytes <= FETCHED_BYTES && group.len() < FETCHED => group.push(*uid),
            _ => {
                groups.push(vec![*uid]);
                bytes = size;
            }
        }
    }
    groups
}

async fn fetch(
    target: &Target<'_>,
    mailbox: &mut RemoteMailbox,
    source: &Source<'_>,
    uids: &[u32],
    filled: &mut Filled<'_>,
    report: &mut Report,
) -> Outcome {
    let fetched = mailbox.fetch(uids, target.store.buffer(), target.store.max_message_bytes()).await?;
    let mut fetched: HashMap<u32, _> = fetched.into_iter().map(|message| (message.uid, message)).collect();
    for uid in uids {
        let place = format!("{} UID {uid}", source.name);
        match fetched.remove(uid) {
            None => report.failed(&place, &"the server did not return the message, which may be removed")?,
            Some(message) => match message.content {
                None => report.failed(&place, &"the message exceeds the maximum size")?,
                Some(content) => {
                    let key = source.key(*uid).0;
                    let (flags, internal_date) = (message.flags, message.internal_date);
                    let message = ImportMessage { key, uid: Some(*uid), flags, internal_date, content };
                    filled.add(place, message, report).await?;
                }
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_fetched_together_up_to_a_size() {
        let sizes = HashMap::from([(1, 10), (2, FETCHED_BYTES), (3, 5), (4, FETCHED_BYTES - 5), (5, 1)]);
        assert_eq!(groups(&[1, 2, 3, 4, 5], &sizes, u64::MAX), [vec![1], vec![2], vec![3, 4], vec![5]]);
        let many: Vec<u32> = (1..=120).collect();
        let lengths: Vec<_> = groups(&many, &HashMap::new(), 10).iter().map(Vec::len).collect();
        assert_eq!(lengths, [50, 50, 20]);
    }
}
