//! The connections of the pool: idle ones by mailbox, and the number of connection slots in use.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::Duration;

use mailapi_model::{EmailAddress, FolderName};
use tokio::time::Instant;

use super::connection::ImapConnection;
use super::pool::Shared;
use super::settings::ImapSettings;

/// A connection slot; dropping it frees the slot.
pub(super) struct ConnectionPermit {
    shared: Weak<Shared>,
    mailbox: EmailAddress,
    /// The value of [`Taken::forgotten`] when the slot was taken.
    forgotten: u64,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.vacate(&self.mailbox);
        }
    }
}

/// An idle connection.
pub(super) struct Kept {
    pub(super) connection: ImapConnection,
    pub(super) permit: ConnectionPermit,
    since: Instant,
}

/// What a request gets.
pub(super) enum Found {
    /// An idle connection.
    Kept(Box<Kept>),
    /// A free slot for a new connection.
    Room(ConnectionPermit),
    /// Neither; wait until one is returned.
    Full,
    /// Connections to close before the next try. Dropping them frees their slots, which locks `ConnectionSlots`: drop them
    /// without holding that lock.
    Closing(Vec<Kept>),
}

/// What a request needs.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) mailbox: &'a EmailAddress,
    /// Which folder should be open.
    pub(super) open: Open<'a>,
    /// Close the idle connections of this mailbox first: one of them was dead.
    pub(super) is_new: bool,
}

/// Which folder a connection should have open.
#[derive(Clone, Copy)]
pub(super) enum Open<'a> {
    /// Any or none.
    Any,
    /// This one.
    This(&'a FolderName),
    /// Any other one, or none.
    Other(&'a FolderName),
}

impl<'a> Open<'a> {
    /// Returns the preference for work in a folder; `None` for work that needs no open folder.
    pub(super) fn like(folder: Option<&'a FolderName>) -> Self {
        folder.map_or(Self::Any, Self::This)
    }

    fn fits(self, open: Option<&FolderName>) -> bool {
        match (self, open) {
            (Self::Any, _) | (Self::Other(_), None) => true,
            (Self::This(wanted), Some(open)) => wanted == open,
            (Self::Other(unwanted), Some(open)) => unwanted != open,
            (Self::This(_), None) => false,
        }
    }
}

/// The slots of one mailbox.
#[derive(Default)]
struct Taken {
    count: usize,
    /// How often the mailbox was reset while it had slots.
    forgotten: u64,
}

/// All connections and slots.
#[derive(Default)]
pub(super) struct ConnectionSlots {
    /// Idle connections by mailbox, in the order in which they were returned.
    kept: HashMap<EmailAddress, Vec<Kept>>,
    taken: HashMap<EmailAddress, Taken>,
    total: usize,
}

impl ConnectionSlots {
    /// Returns the number of slots in use.
    pub(super) const fn len(&self) -> usize {
        self.total
    }

    pub(super) fn find(&mut self, wanted: Wanted<'_>, settings: &ImapSettings, shared: &Weak<Shared>) -> Found {
        let mut closing = self.take_expired(settings.idle_lifetime);
        if wanted.is_new {
            closing.extend(self.kept.remove(wanted.mailbox).unwrap_or_default());
        }
        if !closing.is_empty() {
            return Found::Closing(closing);
        }
        if let Some(kept) = self.take_with_folder(wanted) {
            return Found::Kept(Box::new(kept));
        }
        let taken = self.taken.get(wanted.mailbox).map_or(0, |taken| taken.count);
        let mailbox_has_room = taken < settings.max_connections_per_mailbox;
        let has_room = mailbox_has_room && self.total < settings.max_connections;
        // Below `warm_connections` a new connection is better: it leaves the other folder open.
        if !(has_room && taken < settings.warm_connections)
            && let Some(kept) = self.take_oldest_of(wanted.mailbox)
        {
            return Found::Kept(Box::new(kept));
        }
        if has_room {
            return Found::Room(self.take_permit(wanted.mailbox, shared));
        }
        // Close another mailbox's connection only if this mailbox may have one more. Otherwise the removed connection
        // would be dropped here, and its slot locks `ConnectionSlots` again: a deadlock.
        let makes_room = if mailbox_has_room { self.take_oldest() } else { None };
        makes_room.map_or(Found::Full, |kept| Found::Closing(vec![kept]))
    }

    fn take_permit(&mut self, mailbox: &EmailAddress, shared: &Weak<Shared>) -> ConnectionPermit {
        self.total += 1;
        let taken = self.taken.entry(mailbox.clone()).or_default();
        taken.count += 1;
        ConnectionPermit { shared: shared.clone(), mailbox: mailbox.clone(), forgotten: taken.forgotten }
    }

    pub(super) fn vacate(&mut self, mailbox: &EmailAddress) {
        self.total = self.total.saturating_sub(1);
        if let Some(taken) = self.taken.get_mut(mailbox) {
            taken.count = taken.count.saturating_sub(1);
            // No slots: no connection carries the old reset count any more.
            if taken.count == 0 {
                self.taken.remove(mailbox);
            }
        }
    }

    /// Whether the mailbox was not reset since the slot was taken. Otherwise the session is outdated: Dovecot, for
    /// example, reads the quota at login.
    pub(super) fn is_current(&self, permit: &ConnectionPermit) -> bool {
        self.taken.get(&permit.mailbox).is_some_and(|taken| taken.forgotten == permit.forgotten)
    }

    /// Keeps the connection if it is current. Otherwise returns it: the caller must close it without holding the
    /// lock.
    pub(super) fn keep(
        &mut self,
        connection: ImapConnection,
        permit: ConnectionPermit,
    ) -> Option<(ImapConnection, ConnectionPermit)> {
        if !self.is_current(&permit) {
            return Some((connection, permit));
        }
        let kept = self.kept.entry(permit.mailbox.clone()).or_default();
        kept.push(Kept { connection, permit, since: Instant::now() });
        None
    }

    /// Removes the connections that were idle for at least `lifetime`.
    pub(super) fn take_expired(&mut self, lifetime: Duration) -> Vec<Kept> {
        let now = Instant::now();
        let mut expired = Vec::new();
        for kept in self.kept.values_mut() {
            expired.extend(kept.extract_if(.., |kept| now.duration_since(kept.since) >= lifetime));
        }
        self.kept.retain(|_, kept| !kept.is_empty());
        expired
    }

    /// Removes the idle connections of the mailbox. Those in use are closed when they are returned.
    pub(super) fn forget(&mut self, mailbox: &EmailAddress) -> Vec<Kept> {
        if let Some(taken) = self.taken.get_mut(mailbox) {
            taken.forgotten += 1;
        }
        self.kept.remove(mailbox).unwrap_or_default()
    }

    fn take_with_folder(&mut self, wanted: Wanted<'_>) -> Option<Kept> {
        let kept = self.kept.get(wanted.mailbox)?;
        let fits = |kept: &Kept| wanted.open.fits(kept.connection.folder().map(|open| &open.name));
        // The most recently returned one: the server is least likely to have closed it.
        let at = kept.iter().rposition(fits)?;
        self.take_at(wanted.mailbox, at)
    }

    fn take_oldest_of(&mut self, mailbox: &EmailAddress) -> Option<Kept> {
        self.take_at(mailbox, 0)
    }

    fn take_oldest(&mut self) -> Option<Kept> {
        let first = |(mailbox, kept): (&EmailAddress, &Vec<Kept>)| Some((kept.first()?.since, mailbox.clone()));
        let (_, mailbox) = self.kept.iter().filter_map(first).min_by_key(|&(since, _)| since)?;
        self.take_oldest_of(&mailbox)
    }

    fn take_at(&mut self, mailbox: &EmailAddress, at: usize) -> Option<Kept> {
        let kept = self.kept.get_mut(mailbox)?;
        let taken = (at < kept.len()).then(|| kept.remove(at));
        if kept.is_empty() {
            self.kept.remove(mailbox);
        }
        taken
    }
}
