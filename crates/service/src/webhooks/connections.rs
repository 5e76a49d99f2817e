//! The connections of this process to receivers, shared by all webhooks.
//!
//! Receivers that fail have connections of their own, so they take nothing from those that work. Each user has a share,
//! and admins have one together. The first connection of a round waits for its turn; further ones are opened only while
//! more than half is free, so that first connections of others find room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mailapi_backend::{FairPermit, FairPermits, Shared};
use mailapi_model::{EmailAddress, WebhookAuthor, WebhookId};
use mailapi_store::Webhook;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections to receivers that work. Each costs about 50 KiB with TLS.
const WORKING: usize = 192;
/// Maximum number of connections to receivers whose last attempt failed. One that hangs holds one for 15 seconds.
const FAILING: usize = 64;
/// Maximum number of connections for tests and challenges, which answer requests and so do not wait for the others.
const REQUESTED: usize = 48;
/// The part of the connections that one user may have: 16 of those that work, which are two webhooks at full speed.
const USERS_PART: usize = 12;
/// The part that all admins together may have.
const ADMINS_PART: usize = 2;

/// Whose connection it is; admins share one owner.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) user: Option<EmailAddress>,
    pub(super) webhook: WebhookId,
}

impl Share {
    /// The share of an existing webhook.
    pub(super) fn of(webhook: &Webhook) -> Self {
        Self { user: webhook.author.user().cloned(), webhook: webhook.id }
    }

    /// The share of a webhook that is being registered.
    pub(super) fn of_new(author: &WebhookAuthor) -> Self {
        Self { user: author.user().cloned(), webhook: WebhookId(0) }
    }
}

impl Shared for Share {
    type Group = Option<EmailAddress>;
    type Member = WebhookId;

    fn group(&self) -> Option<EmailAddress> {
        self.user.clone()
    }

    fn member(&self) -> WebhookId {
        self.webhook
    }
}

/// The right to have a connection; released on drop.
pub(super) struct ConnectionPermit {
    of_process: Option<FairPermit<Share>>,
    _of_owner: OwnedSemaphorePermit,
}

impl ConnectionPermit {
    /// Gives the connection to others, and keeps the owner's share.
    pub(super) fn disconnect(&mut self) {
        self.of_process = None;
    }
}

/// All connections.
pub(super) struct Connections {
    working: Pool,
    failing: Pool,
    requested: Pool,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self { working: Pool::new(WORKING), failing: Pool::new(FAILING), requested: Pool::new(REQUESTED) }
    }

    pub(super) const fn requested(&self) -> &Pool {
        &self.requested
    }

    pub(super) const fn pool(&self, is_failing: bool) -> &Pool {
        if is_failing { &self.failing } else { &self.working }
    }
}

/// A number of connections.
pub(super) struct Pool {
    most: usize,
    of_process: FairPermits<Share>,
    /// The shares of owners with connections.
    of_owners: Mutex<HashMap<Option<EmailAddress>, Weak<Semaphore>>>,
}

impl Pool {
    fn new(most: usize) -> Self {
        Self { most, of_process: FairPermits::new(most), of_owners: Mutex::default() }
    }

    /// Waits for the first connection of a round.
    pub(super) async fn first(&self, share: &Share) -> Option<ConnectionPermit> {
        // The share of the owner first: while a webhook waits for it, it holds nothing that others need.
        let of_owner = self.owner(share).acquire_owned().await.ok()?;
        let of_process = Some(self.of_process.take(share.clone()).await);
        Some(ConnectionPermit { of_process, _of_owner: of_owner })
    }

    /// Returns a further connection of a round if there is ample room.
    pub(super) fn further(&self, share: &Share) -> Option<ConnectionPermit> {
        let owner = self.owner(share);
        if owner.available_permits() <= self.part(share) / 2 {
            return None;
        }
        let of_owner = owner.try_acquire_owned().ok()?;
        let of_process = Some(self.of_process.take_beyond(self.most / 2)?);
        Some(ConnectionPermit { of_process, _of_owner: of_owner })
    }

    fn part(&self, share: &Share) -> usize {
        self.most / if share.user.is_some() { USERS_PART } else { ADMINS_PART }
    }

    fn owner(&self, share: &Share) -> Arc<Semaphore> {
        let mut owners = self.of_owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get(&share.user).and_then(Weak::upgrade) {
            return owner;
        }
        owners.retain(|_, owner| owner.strong_count() > 0);
        let owner = Arc::new(Semaphore::new(self.part(share)));
        owners.insert(share.user.clone(), Arc::downgrade(&owner));
        owner
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn of(user: &str, webhook: i64) -> Share {
        Share { user: user.parse().ok(), webhook: WebhookId(webhook) }
    }

    /// Takes all the connections that this share gets now.
    fn all(pool: &Pool, share: &Share) -> Vec<ConnectionPermit> {
        std::iter::from_fn(|| pool.first(share).now_or_never().flatten()).collect()
    }

    #[test]
    fn an_owner_has_a_share_and_others_find_room() {
        let pool = Pool::new(WORKING);
        let of_ann = all(&pool, &of("ann@example.org", 1));
        assert_eq!(of_ann.len(), 16);
        assert!(pool.first(&of("ann@example.org", 2)).now_or_never().is_none(), "her webhooks share it");
        assert_eq!(all(&pool, &of("admins", 3)).len(), 96);
        drop(of_ann);
        assert_eq!(all(&pool, &of("ann@example.org", 2)).len(), 16);
        assert_eq!(pool.of_owners.lock().unwrap().len(), 1, "an owner without connections takes no memory");
    }

    #[test]
    fn the_process_has_a_limit_and_owners_take_turns() {
        let pool = Pool::new(WORKING);
        let mut held: Vec<_> =
            (0..12).flat_map(|user| all(&pool, &of(&format!("u{user}@example.org"), user))).collect();
        assert_eq!(held.len(), WORKING);
        let (one, other) = (of("one@example.org", 100), of("other@example.org", 101));
        let mut waiting: Vec<_> = [&one, &one, &other].into_iter().map(|share| Box::pin(pool.first(share))).collect();
        assert!(waiting.iter_mut().all(|first| first.as_mut().now_or_never().is_none()));
        held.truncate(WORKING - 2);
        let served: Vec<_> = waiting.iter_mut().map(|first| first.as_mut().now_or_never()).collect();
        assert_eq!(served.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn further_connections_leave_half_for_first_ones() {
        let pool = Pool::new(WORKING);
        let further = |share: &Share| std::iter::from_fn(|| pool.further(share)).collect::<Vec<_>>();
        let of_ann = further(&of("ann@example.org", 1));
        assert_eq!(of_ann.len(), 8);
        assert!(pool.first(&of("ann@example.org", 2)).now_or_never().is_some());
        let held: Vec<_> = (0..20).flat_map(|user| further(&of(&format!("u{user}@example.org"), user))).collect();
        assert_eq!(of_ann.len() + held.len(), WORKING / 2);
        assert!(pool.first(&of("eve@example.org", 50)).now_or_never().is_some());
    }

    #[test]
    fn a_failed_check_that_waits_takes_no_connection() {
        let pool = Pool::new(REQUESTED);
        let mut held: Vec<_> =
            (0..12).flat_map(|user| all(&pool, &of(&format!("u{user}@example.org"), user))).collect();
        assert!(pool.first(&of("ann@example.org", 20)).now_or_never().is_none());
        held.iter_mut().for_each(ConnectionPermit::disconnect);
        assert!(pool.first(&of("ann@example.org", 20)).now_or_never().is_some());
        assert!(pool.first(&of("u1@example.org", 1)).now_or_never().is_none(), "the share of a user is still in use");
    }

    #[test]
    fn a_failing_receiver_takes_nothing_from_those_that_work() {
        let connections = Connections::new();
        let failing: Vec<_> =
            (0..100).flat_map(|user| all(connections.pool(true), &of(&format!("u{user}@example.org"), user))).collect();
        assert_eq!(failing.len(), FAILING);
        assert_eq!(all(connections.pool(false), &of("ann@example.org", 1)).len(), 16);
        assert_eq!(all(connections.requested(), &of("ann@example.org", 1)).len(), 4, "a test does not wait for them");
    }
}
