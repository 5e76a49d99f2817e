//! Search by the server, plus a local search of HTML bodies.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use mailapi_backend::mime::{DescribedBody, SearchableText, matches, snippet};
use mailapi_backend::{FolderScope, MailboxError, SearchHit, SearchQuery};
use mailapi_imap::client::{Command, FetchAttribute, Section, UidSet, Untagged};
use mailapi_model::{FolderName, Listed};

use super::texts::{self, start_of, start_of_message};
use super::{MOST_MESSAGES, page_of};
use crate::imap_pool::{ImapConnection, ImapError, Job};
use crate::mailboxes::folders;
use crate::mailboxes::load::demand_gone;
use crate::mailboxes::parts::Parts;
use crate::mailboxes::settings::MailboxSettings;
use crate::search_index::Entry;

/// Finds the messages that contain a text.
pub(super) struct Search<'a> {
    pub(super) query: &'a SearchQuery,
    pub(super) settings: &'a MailboxSettings,
}

impl Job for Search<'_> {
    type Output = Listed<SearchHit>;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Listed<SearchHit>, ImapError> {
        match &self.query.scope {
            FolderScope::One(folder) => self.in_one(connection, folder).await,
            FolderScope::All => self.in_all(connection).await,
        }
    }
}

impl Search<'_> {
    async fn in_one(
        &self,
        connection: &mut ImapConnection,
        folder: &FolderName,
    ) -> Result<Listed<SearchHit>, ImapError> {
        let found = self.find(connection, folder).await?;
        let page = page_of(found.newest_first(), self.query.page);
        Ok(Listed { total: found.len(), items: self.hits(connection, folder, &page).await? })
    }

    /// Searches all folders. The most recently arrived message comes first, whatever its folder.
    async fn in_all(&self, connection: &mut ImapConnection) -> Result<Listed<SearchHit>, ImapError> {
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for folder in folders::all(connection).await? {
            let uids = match self.find(connection, &folder.name).await {
                Err(ImapError::Mailbox(MailboxError::NoSuchFolder)) => {
                    refused.push(folder.name);
                    continue;
                }
                uids => uids?,
            };
            // The server's UID set may name any range; the folder's count bounds it.
            let exists = connection.folder().map_or(0, |folder| folder.exists);
            if uids.len().min(exists.into()) > MOST_MESSAGES {
                return Err(ImapError::unavailable(format!("the server finds more than {MOST_MESSAGES} messages")));
            }
            let uids: Vec<u32> = uids.newest_first().take(exists as usize).collect();
            let arrivals = self.arrivals(connection, &uids).await?;
            let name = Arc::new(folder.name);
            found.extend(arrivals.into_iter().map(|(arrived, uid)| (Reverse(arrived), name.clone(), Reverse(uid))));
        }
        folders::demand_removed(connection, &refused).await?;
        found.sort_unstable();
        let total = found.len() as u64;
        let page = page_of(found.into_iter().map(|(_, folder, Reverse(uid))| (folder, uid)), self.query.page);
        Ok(Listed { total, items: self.hits_of_folders(connection, &page).await? })
    }

    /// Returns the hits of a page, opening each folder once.
    async fn hits_of_folders(
        &self,
        connection: &mut ImapConnection,
        page: &[(Arc<FolderName>, u32)],
    ) -> Result<Vec<SearchHit>, ImapError> {
        let mut by_folder: BTreeMap<&FolderName, Vec<u32>> = BTreeMap::new();
        for (folder, uid) in page {
            by_folder.entry(folder).or_default().push(*uid);
        }
        let mut hits = Vec::with_capacity(page.len());
        for (folder, uids) in by_folder {
            connection.open(folder).await?;
            hits.extend(self.hits(connection, folder, &uids).await?);
        }
        let place = |hit: &SearchHit| page.iter().position(|(folder, uid)| **folder == hit.folder && *uid == hit.uid);
        hits.sort_by_cached_key(place);
        Ok(hits)
    }

    /// Opens the folder and searches it.
    async fn find(&self, connection: &mut ImapConnection, folder: &FolderName) -> Result<UidSet, ImapError> {
        let open = connection.open(folder).await?;
        let mut found = UidSet::default();
        if open.exists == 0 {
            return Ok(found);
        }
        let command = Command::uid_search(self.query.text.as_str(), &connection.capabilities());
        found.extend(&connection.search(command).await?);
        let more = self.find_in_html(connection, open.exists, &found).await?;
        found.extend(&more);
        Ok(found)
    }

    /// Searches the HTML bodies of the newest messages that the server did not find.
    async fn find_in_html(
        &self,
        connection: &mut ImapConnection,
        exists: u32,
        found: &UidSet,
    ) -> Result<UidSet, ImapError> {
        let (mut matching, mut looked_at) = (Vec::new(), HashSet::new());
        for (path, bodies) in self.html_bodies(connection, exists, found).await? {
            let uids: Vec<u32> = bodies.keys().copied().collect();
            let section = FetchAttribute::SectionSlice(Section::part(&path), 0, self.settings.html_search_bytes);
            for uids in uids.chunks(self.settings.uids_per_command.max(1)) {
                let fetched = connection.run(Command::uid_fetch(uids, std::slice::from_ref(&section)), |untagged| {
                    let Untagged::Fetch(message) = untagged else { return };
                    let body = message.uid.and_then(|uid| bodies.get(&uid));
                    let Some((body, bytes)) = body.zip(message.slice(&path, 0)) else { return };
                    looked_at.extend(message.uid);
                    if matches(&SearchableText::of_html(&body.decode(bytes)).joined(), &self.query.text) {
                        matching.extend(message.uid);
                    }
                });
                fetched.await?;
                demand_gone(connection, &left_out(uids, &looked_at)).await?;
            }
        }
        Ok(matching.into_iter().collect())
    }

    /// Returns the HTML bodies of the newest messages that the server did not find. They are grouped by part numbers:
    /// the bodies of a group are fetched with one command.
    async fn html_bodies(
        &self,
        connection: &mut ImapConnection,
        exists: u32,
        found: &UidSet,
    ) -> Result<BTreeMap<Vec<u32>, BTreeMap<u32, DescribedBody>>, ImapError> {
        let mut bodies: BTreeMap<Vec<u32>, BTreeMap<u32, DescribedBody>> = BTreeMap::new();
        let first = exists.saturating_sub(self.settings.html_search_messages) + 1;
        if first > exists {
            return Ok(bodies);
        }
        let (mut described, mut long) = (HashSet::new(), HashSet::new());
        let fetched = connection.run(Command::fetch(first, exists, &[FetchAttribute::BodyStructure]), |untagged| {
            if let Untagged::TooLong(number) = untagged {
                long.insert(number);
            }
            let Untagged::Fetch(message) = untagged else { return };
            let (Some(uid), Some(structure)) = (message.uid, message.body_structure) else { return };
            described.insert(uid);
            if found.contains(uid) {
                return;
            }
            let parts = Parts::of(structure);
            for html in parts.chosen.bodies.iter().filter(|body| body.role.is_html) {
                bodies.entry(parts.path(html.part).to_vec()).or_default().insert(uid, html.clone());
            }
        });
        fetched.await?;
        // Messages whose structure is too long are not searched for HTML.
        if (described.len() + long.len()) as u64 != u64::from(exists - first) + 1 {
            return Err(ImapError::unavailable("the server omitted structures of messages"));
        }
        Ok(bodies)
    }

    /// Returns when messages of the open folder arrived.
    async fn arrivals(&self, connection: &mut ImapConnection, uids: &[u32]) -> Result<Vec<(i64, u32)>, ImapError> {
        let mut arrivals = HashMap::with_capacity(uids.len());
        for uids in uids.chunks(self.settings.uids_per_command.max(1)) {
            let fetched = connection.run(Command::uid_fetch(uids, &[FetchAttribute::Arrived]), |untagged| {
                if let Untagged::Fetch(message) = untagged {
                    arrivals.extend(message.uid.zip(message.arrived));
                }
            });
            fetched.await?;
        }
        let silent = uids.iter().copied().filter(|uid| !arrivals.contains_key(uid));
        demand_gone(connection, &silent.collect::<Vec<_>>()).await?;
        Ok(uids.iter().filter_map(|uid| Some((*arrivals.get(uid)?, *uid))).collect())
    }

    /// Returns the hits of a page of the open folder, in the order of `uids`. Messages removed meanwhile are omitted.
    async fn hits(
        &self,
        connection: &mut ImapConnection,
        folder: &FolderName,
        uids: &[u32],
    ) -> Result<Vec<SearchHit>, ImapError> {
        if uids.is_empty() {
            return Ok(Vec::new());
        }
        let (mut hits, mut longer) = (Vec::with_capacity(uids.len()), Vec::new());
        let attributes = [FetchAttribute::Arrived, start_of_message(self.settings)];
        let fetched = connection.run(Command::uid_fetch(uids, &attributes), |untagged| {
            let Untagged::Fetch(message) = untagged else { return };
            let (Some(uid), Some(raw)) = (message.uid, start_of(&message)) else { return };
            let entry = texts::of_whole(uid, raw, &message);
            // The start of a longer message is enough if it contains the match.
            let is_whole = raw.len() < self.settings.whole_message_bytes as usize;
            if is_whole || matches(&entry.text, &self.query.text) {
                hits.push(self.hit(folder, entry));
            } else {
                longer.push(uid);
            }
        });
        fetched.await?;
        let received: HashSet<u32> = hits.iter().map(|hit: &SearchHit| hit.uid).chain(longer.iter().copied()).collect();
        demand_gone(connection, &left_out(uids, &received)).await?;
        for uid in longer {
            // The match is after the start of the message.
            let entry = texts::of_longer(connection, uid, self.settings).await?;
            hits.extend(entry.map(|entry| self.hit(folder, entry)));
        }
        hits.sort_unstable_by_key(|hit| uids.iter().position(|&uid| uid == hit.uid));
        hits.dedup_by_key(|hit| hit.uid);
        Ok(hits)
    }

    fn hit(&self, folder: &FolderName, entry: Entry) -> SearchHit {
        let Entry { uid, from, subject, date, text, .. } = entry;
        SearchHit { uid, folder: folder.clone(), from, subject, date, snippet: snippet(&text, &self.query.text) }
    }
}

/// Returns the requested messages that are missing from the response.
fn left_out(asked: &[u32], received: &HashSet<u32>) -> Vec<u32> {
    asked.iter().copied().filter(|uid| !received.contains(uid)).collect()
}
