//! External user databases, which are read-only. Each of their mailboxes has a copy in the account database, which
//! tokens, permissions and sent mail refer to. Syncs keep the copies equal.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;

use mailapi_model::{Credentials, EmailAddress, Violations};
use mailapi_store::{Directory, DirectoryMailbox, DirectoryPlace};

use crate::auth::unknown_scheme;
use crate::{Service, Unavailable};

/// The result of a sync with the whole user database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectorySynced {
    /// Number of mailboxes in the user database.
    pub mailboxes: usize,
    /// Number of new or changed mailboxes.
    pub changed: usize,
    /// Number of mailboxes that are missing since this sync: their owners lose all access.
    pub gone: usize,
    /// Number of mailboxes missing for long enough, now deleted with their tokens and permissions.
    pub forgotten: usize,
}

/// The results of the operator's two queries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryProbe {
    /// The first mailbox, if there is any.
    pub first: Option<EmailAddress>,
    /// Unknown schemes of password hashes, with which no login works, sorted by name.
    pub unknown_schemes: Vec<UnknownScheme>,
}

/// A scheme of password hashes that cannot be verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownScheme {
    /// The name in braces, such as `{PLAIN}`.
    pub name: String,
    /// Number of mailboxes with a hash of it.
    pub mailboxes: usize,
    /// One of these mailboxes.
    pub example: EmailAddress,
}

/// Credentials, and the mailbox if they are from an external user database.
pub(crate) struct Found {
    pub(crate) credentials: Credentials,
    pub(crate) mailbox: Option<DirectoryMailbox>,
}

/// The error for a change that must be made in the external user database.
pub(crate) fn kept_elsewhere() -> Violations {
    Violations::of("email", "is in the external user database; change it there")
}

impl Service {
    /// Makes the copies equal to the mailboxes of the external user database; does nothing without one.
    ///
    /// # Errors
    /// [`Unavailable`] if either database is. Changes made so far stay, and the next sync makes the others.
    pub async fn sync_directory_once(&self) -> Result<DirectorySynced, Unavailable> {
        let Some(directory) = self.0.store.directory() else { return Ok(DirectorySynced::default()) };
        let synced = self.sync_directory(directory).await;
        self.0.directory_failed.store(synced.is_err(), Ordering::Relaxed);
        synced
    }

    async fn sync_directory(&self, directory: &Directory) -> Result<DirectorySynced, Unavailable> {
        let (mut synced, mut seen, mut odd_rows) = (DirectorySynced::default(), HashSet::new(), 0);
        let mut next = Some(DirectoryPlace::default());
        while let Some(place) = next {
            let page = directory.mailboxes(&place).await?;
            let listed = page.mailboxes.len();
            // Another spelling of an address counts once: two rows must not overwrite one copy in turn.
            let new: Vec<_> = page.mailboxes.into_iter().filter(|mailbox| !seen.contains(&mailbox.email)).collect();
            odd_rows += page.odd_rows + listed - new.len();
            synced.changed += self.0.store.copies().keep(&new, self.0.clock.now()).await?;
            seen.extend(new.into_iter().map(|mailbox| mailbox.email));
            next = page.next;
        }
        synced.mailboxes = seen.len();
        if seen.is_empty() {
            // A table that is being filled is more likely than an installation without mailboxes.
            tracing::warn!("the user database lists no mailboxes; no user is removed");
        } else {
            self.look_for_gone(directory, &seen, &mut synced).await?;
        }
        if synced.changed + synced.gone + synced.forgotten > 0 {
            self.changed();
            let DirectorySynced { mailboxes, changed, gone, forgotten } = synced;
            tracing::info!(mailboxes, changed, gone, forgotten, odd_rows, "user database synced");
        }
        Ok(synced)
    }

    async fn look_for_gone(
        &self,
        directory: &Directory,
        seen: &HashSet<EmailAddress>,
        synced: &mut DirectorySynced,
    ) -> Result<(), Unavailable> {
        let (copies, settings) = (self.0.store.copies(), directory.settings());
        let mut after = None;
        loop {
            let piece = copies.after(after.as_ref(), settings.page).await?;
            let Some(last) = piece.last() else { return Ok(()) };
            after = Some(last.email.clone());
            for copy in piece.into_iter().filter(|copy| !seen.contains(&copy.email)) {
                let now = self.0.clock.now();
                // The mailbox may have been created while the list was read.
                if directory.mailbox(&copy.email).await?.is_some() {
                    continue;
                }
                match copy.gone_since {
                    None => {
                        copies.note_gone(&copy.email, now).await?;
                        synced.gone += 1;
                    }
                    Some(since) if now.since(since) >= settings.forget_after => {
                        self.0.store.accounts().delete(&copy.email, now).await?;
                        synced.forgotten += 1;
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Runs the operator's queries for every mailbox; `None` without an external user database.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason if a query fails.
    pub async fn probe_directory(&self) -> Result<Option<DirectoryProbe>, Unavailable> {
        let Some(directory) = self.0.store.directory() else { return Ok(None) };
        let (mut first, mut schemes) = (None, BTreeMap::new());
        let mut next = Some(DirectoryPlace::default());
        while let Some(place) = next {
            let page = directory.mailboxes(&place).await?;
            for DirectoryMailbox { email, .. } in page.mailboxes {
                first.get_or_insert_with(|| email.clone());
                if let Some(name) = self.unknown_scheme_of(directory, &email).await? {
                    let scheme = UnknownScheme { name: name.clone(), mailboxes: 0, example: email };
                    schemes.entry(name).or_insert(scheme).mailboxes += 1;
                }
            }
            next = page.next;
        }
        Ok(Some(DirectoryProbe { first, unknown_schemes: schemes.into_values().collect() }))
    }

    /// The unknown scheme that prevents logins to a mailbox, if any. A local account uses its own password
    /// instead.
    async fn unknown_scheme_of(
        &self,
        directory: &Directory,
        email: &EmailAddress,
    ) -> Result<Option<String>, Unavailable> {
        let hash = directory.password(email).await?;
        let Some(name) = hash.as_ref().and_then(unknown_scheme) else { return Ok(None) };
        let is_own = self.0.store.copies().is_copy(email).await? == Some(false);
        Ok((!is_own).then_some(name))
    }

    /// The credentials for a login at this address. A local account takes precedence over the external user
    /// database.
    pub(crate) async fn stored_credentials(&self, email: &EmailAddress) -> Result<Option<Found>, Unavailable> {
        let ours = |credentials| Found { credentials, mailbox: None };
        let Some(directory) = self.0.store.directory() else {
            return Ok(self.0.store.accounts().credentials(email).await?.map(ours));
        };
        if self.0.store.copies().is_copy(email).await? == Some(false) {
            return Ok(self.0.store.accounts().credentials(email).await?.map(ours));
        }
        let (mailbox, hash) = tokio::try_join!(directory.mailbox(email), directory.password(email))?;
        Ok(mailbox.zip(hash).map(|(mailbox, password_hash)| {
            let DirectoryMailbox { email, name, active, .. } = mailbox.clone();
            let credentials = Credentials { email, name, password_hash, active, sessions_ended: 0 };
            Found { credentials, mailbox: Some(mailbox) }
        }))
    }

    /// Stores a copy of a mailbox at its login, even if the last sync was long ago.
    pub(crate) async fn note_mailbox(&self, mailbox: DirectoryMailbox) -> Result<(), Unavailable> {
        if self.0.store.copies().keep(&[mailbox], self.0.clock.now()).await? > 0 {
            self.changed();
        }
        Ok(())
    }

    /// Rejects changes to an account of the external user database. Without such a database, former copies are
    /// local accounts.
    pub(crate) async fn demand_own(&self, email: &EmailAddress) -> Result<(), super::UserError> {
        if self.0.store.directory().is_none() {
            return Ok(());
        }
        match self.0.store.copies().is_copy(email).await? {
            Some(true) => Err(kept_elsewhere().into()),
            Some(false) | None => Ok(()),
        }
    }
}
