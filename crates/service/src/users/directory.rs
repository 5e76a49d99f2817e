//! External user databases, which are read-only. Each of their mailboxes has a copy in the account database, which
//! tokens, permissions and sent mail refer to. Syncs keep the copies equal.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use mailapi_model::{Credentials, EmailAddress, Violations};
use mailapi_store::{Copied, Directory, DirectoryMailbox, DirectoryPlace, RowFault, RowFaultKind, StoreError};

use crate::{Service, Unavailable};

/// The result of a sync with the whole user database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectorySynced {
    /// Number of mailboxes in the user database whose state was read.
    pub mailboxes: usize,
    /// Number of new or changed mailboxes.
    pub changed: usize,
    /// Number of mailboxes that are missing since this sync: their owners lose all access.
    pub gone: usize,
    /// Number of mailboxes whose state cannot be read since this sync, while that of others can: their owners lose
    /// all access, as if the mailboxes were missing.
    pub unreadable: usize,
    /// Number of mailboxes missing for long enough, now deleted with their tokens and permissions.
    pub forgotten: usize,
}

/// What the last sync with the user database found.
#[derive(Default)]
pub(crate) struct DirectoryState {
    /// Whether it failed.
    failed: AtomicBool,
    /// The faults of rows that are logged already.
    logged: Mutex<BTreeSet<String>>,
}

/// A list of all mailboxes that is being compared with the copies.
#[derive(Default)]
struct ListComparison {
    synced: DirectorySynced,
    seen: HashSet<EmailAddress>,
    /// Whether any of them may log in.
    is_any_active: bool,
    faults: Vec<RowFault>,
}

/// Look-ups that must fail before the query itself, and not some rows, counts as broken.
const FAILED_LOOKUPS: usize = 20;

/// Maximum number of rows with faults that one sync logs.
const LOGGED_ROWS: usize = 50;

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
        let mut comparison = ListComparison::default();
        let outcome = self.compare(directory, &mut comparison).await;
        let failed = outcome.is_err();
        self.0.directory_state.failed.store(failed, Ordering::Relaxed);
        self.report_sync(&comparison);
        outcome.map(|()| comparison.synced)
    }

    /// Returns whether the last sync failed.
    pub(crate) fn is_directory_sync_failed(&self) -> bool {
        self.0.directory_state.failed.load(Ordering::Relaxed)
    }

    async fn compare(&self, directory: &Directory, comparison: &mut ListComparison) -> Result<(), Unavailable> {
        if let Err(error) = self.compare_list(directory, comparison).await {
            if is_query_failure(&error) {
                // A user who is disabled there must lose access, whatever fails for other users.
                self.compare_each_with_access(directory, &mut comparison.synced).await?;
            }
            return Err(error);
        }
        let unread = comparison.faults.iter().find_map(|fault| match &fault.kind {
            RowFaultKind::State(error) => Some(error),
            _ => None,
        });
        match unread {
            // The query is broken, not some rows: an engine may not even compute the state of a disabled user.
            Some(error) if !comparison.is_any_active => Err(Unavailable::UserDatabase(error.clone())),
            _ if !comparison.seen.is_empty() => self.look_for_gone(directory, comparison).await,
            _ => {
                // A table that is being filled is more likely than an installation without mailboxes.
                tracing::warn!("the user database lists no mailboxes; no user is removed");
                Ok(())
            }
        }
    }

    async fn compare_list(&self, directory: &Directory, comparison: &mut ListComparison) -> Result<(), Unavailable> {
        let mut next = Some(DirectoryPlace::default());
        while let Some(place) = next {
            let page = directory.mailboxes(&place).await.map_err(Unavailable::UserDatabase)?;
            // Another spelling of an address counts once: two rows must not overwrite one copy in turn.
            let seen = &mut comparison.seen;
            let new: Vec<_> = page.mailboxes.into_iter().filter(|mailbox| !seen.contains(&mailbox.email)).collect();
            comparison.is_any_active |= new.iter().any(|mailbox| mailbox.active);
            comparison.synced.changed += self.0.store.copies().keep(&new, self.0.clock.now()).await?;
            seen.extend(new.into_iter().map(|mailbox| mailbox.email));
            comparison.synced.mailboxes = seen.len();
            comparison.faults.extend(page.faults);
            next = page.next;
        }
        Ok(())
    }

    async fn look_for_gone(&self, directory: &Directory, comparison: &mut ListComparison) -> Result<(), Unavailable> {
        let (copies, settings) = (self.0.store.copies(), directory.settings());
        let ListComparison { synced, seen, .. } = comparison;
        let mut after = None;
        loop {
            let piece = copies.after(after.as_ref(), settings.page).await?;
            let Some(last) = piece.last() else { return Ok(()) };
            after = Some(last.email.clone());
            for copy in piece.into_iter().filter(|copy| !seen.contains(&copy.email)) {
                let now = self.0.clock.now();
                // The mailbox may have been created while the list was read, or the list could not show its state.
                match directory.mailbox(&copy.email).await {
                    Ok(Some(mailbox)) => synced.changed += copies.keep(&[mailbox], now).await?,
                    Err(error) if error.is_unavailable() => return Err(Unavailable::UserDatabase(error)),
                    Err(error) => self.note_unreadable(&copy, &error, synced).await?,
                    Ok(None) => match copy.gone_since {
                        None => {
                            copies.note_gone(&copy.email, now).await?;
                            synced.gone += 1;
                        }
                        Some(since) if now.since(since) >= settings.forget_after => {
                            self.0.store.accounts().delete(&copy.email, now).await?;
                            synced.forgotten += 1;
                        }
                        Some(_) => {}
                    },
                }
            }
        }
    }

    /// Suspends a user whose state cannot be read while that of others can, and who might be disabled there. A row
    /// that is readable again restores the tokens.
    async fn note_unreadable(
        &self,
        copy: &Copied,
        error: &StoreError,
        synced: &mut DirectorySynced,
    ) -> Result<(), Unavailable> {
        if copy.gone_since.is_none() {
            let email = &copy.email;
            tracing::warn!(%email, %error, "the user database cannot say whether this user may log in; suspended");
            self.0.store.copies().note_gone(email, self.0.clock.now()).await?;
            synced.unreadable += 1;
        }
        Ok(())
    }

    /// Looks up each user who has a session or a token, because the list of all mailboxes cannot be read.
    async fn compare_each_with_access(
        &self,
        directory: &Directory,
        synced: &mut DirectorySynced,
    ) -> Result<(), Unavailable> {
        let copies = self.0.store.copies();
        let (mut after, mut found, mut missing, mut unreadable) = (None, 0, Vec::new(), Vec::new());
        loop {
            let piece = copies.with_access(after.as_ref(), self.0.clock.now(), directory.settings().page).await?;
            let Some(last) = piece.last() else { break };
            after = Some(last.email.clone());
            for copy in piece {
                match directory.mailbox(&copy.email).await {
                    Ok(Some(mailbox)) => {
                        found += usize::from(mailbox.active);
                        synced.changed += copies.keep(&[mailbox], self.0.clock.now()).await?;
                    }
                    Ok(None) => missing.push(copy),
                    Err(error) if error.is_unavailable() => return Err(Unavailable::UserDatabase(error)),
                    Err(error) => unreadable.push((copy, error)),
                }
                if found == 0 && unreadable.len() >= FAILED_LOOKUPS {
                    return Ok(());
                }
            }
        }
        if found == 0 {
            // The query is broken, or the table is being filled: as during an outage, all keep their access.
            return Ok(());
        }
        for copy in missing {
            copies.note_gone(&copy.email, self.0.clock.now()).await?;
            synced.gone += 1;
        }
        for (copy, error) in unreadable {
            self.note_unreadable(&copy, &error, synced).await?;
        }
        Ok(())
    }

    /// Logs the result of a sync, and each row that cannot be read once.
    fn report_sync(&self, comparison: &ListComparison) {
        let ListComparison { synced, faults, .. } = comparison;
        let DirectorySynced { mailboxes, changed, gone, unreadable, forgotten } = *synced;
        if changed + gone + unreadable + forgotten > 0 {
            self.changed();
            let odd_rows = faults.len();
            tracing::info!(mailboxes, changed, gone, unreadable, forgotten, odd_rows, "user database synced");
        }
        // Rows without an address, such as catch-alls, and further spellings are common: the doctor names them.
        let is_bad = |fault: &&RowFault| !matches!(fault.kind, RowFaultKind::NoAddress | RowFaultKind::OtherSpelling);
        let bad: Vec<_> = faults.iter().filter(is_bad).take(LOGGED_ROWS).collect();
        let mut logged = self.0.directory_state.logged.lock().unwrap_or_else(PoisonError::into_inner);
        for RowFault { row, kind } in bad.iter().filter(|fault| !logged.contains(&fault.row)) {
            tracing::warn!(?row, fault = %kind, "a row of the user database cannot be read");
        }
        *logged = bad.into_iter().map(|fault| fault.row.clone()).collect();
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
        let asked = tokio::try_join!(directory.mailbox(email), directory.password(email));
        let (mailbox, hash) = asked.map_err(Unavailable::UserDatabase)?;
        Ok(mailbox.zip(hash).map(|(mailbox, password_hash)| {
            let DirectoryMailbox { email, name, active, .. } = mailbox.clone();
            let name = name.unwrap_or_default();
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

/// Returns whether the user database answers, but the operator's query fails.
fn is_query_failure(error: &Unavailable) -> bool {
    matches!(error, Unavailable::UserDatabase(error) if !error.is_unavailable())
}
