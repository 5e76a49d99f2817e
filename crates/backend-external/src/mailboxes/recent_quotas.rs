//! A cache of quotas for lists of users: each one costs the server a STATUS of all folders.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mailapi_backend::MailboxError;
use mailapi_model::{EmailAddress, Quota};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long a cached quota is shown. Lists serve to find mailboxes that fill up, which takes longer.
const SHOWN_FOR: Duration = Duration::from_secs(60);

/// A cached quota up to this age is not refreshed, however often a list is loaded.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// The maximum number of cached quotas; some MiB at most.
const MOST_REMEMBERED: usize = 10_000;

/// Concurrent background refreshes: most connections are reserved for requests.
const ASKED_AT_A_TIME: usize = 2;

/// The maximum number of waiting background refreshes: several of the longest pages.
const MOST_WAITING: usize = 1_000;

type Answer = Result<Quota, MailboxError>;

/// Quotas for lists.
pub(super) struct RecentQuotas {
    answers: Cache<EmailAddress, Recent>,
    state: Mutex<State>,
    permits: Semaphore,
}

#[derive(Clone, Copy)]
struct Recent {
    quota: Quota,
    asked_at: Instant,
}

#[derive(Default)]
struct State {
    /// Counts changes of mailboxes: results of earlier requests are not cached.
    changes: u64,
    /// Mailboxes that are being refreshed, or wait for it.
    refreshed: HashSet<EmailAddress>,
}

/// The start of a request.
struct Begun {
    at: Instant,
    changes: u64,
}

/// A background refresh of one mailbox. At most one task has it.
struct RefreshPermit {
    quotas: Arc<RecentQuotas>,
    mailbox: EmailAddress,
}

impl RecentQuotas {
    pub(super) fn new() -> Self {
        let answers = Cache::new(MOST_REMEMBERED);
        Self { answers, state: Mutex::default(), permits: Semaphore::new(ASKED_AT_A_TIME) }
    }

    /// Returns the cached quota.
    pub(super) fn shown(&self, mailbox: &EmailAddress) -> Option<Quota> {
        self.recent(mailbox).map(|recent| recent.quota)
    }

    /// Requests the quota for a list, and caches it.
    pub(super) async fn ask(&self, mailbox: &EmailAddress, asking: impl Future<Output = Answer>) -> Answer {
        let begun = self.begin();
        let answer = asking.await;
        self.remember(mailbox, &begun, &answer);
        answer
    }

    /// Requests the quota of a single mailbox. The result replaces the cached one; after a failure the next list
    /// requests it again.
    pub(super) async fn ask_anew(&self, mailbox: &EmailAddress, asking: impl Future<Output = Answer>) -> Answer {
        let cached = self.recent(mailbox);
        self.answers.remove(mailbox);
        match cached {
            Some(_) => self.ask(mailbox, asking).await,
            // No list shows this mailbox, so do not cache it.
            None => asking.await,
        }
    }

    /// Refreshes a cached quota in the background, unless it is recent. After a failure the next list requests it
    /// again.
    pub(super) fn refresh(
        self: &Arc<Self>,
        mailbox: &EmailAddress,
        asking: impl Future<Output = Answer> + Send + 'static,
    ) {
        let Some(permit) = self.permit(mailbox) else { return };
        tokio::spawn(async move {
            let RefreshPermit { quotas, mailbox } = &permit;
            let Ok(_permit) = quotas.permits.acquire().await else { return };
            // The mailbox may have been removed meanwhile.
            if quotas.recent(mailbox).is_none() {
                return;
            }
            let begun = quotas.begin();
            let answer = timeout(SHOWN_FOR, asking).await;
            let too_late = |_| Err(MailboxError::Unavailable(format!("no answer within {SHOWN_FOR:?}")));
            quotas.remember(mailbox, &begun, &answer.unwrap_or_else(too_late));
        });
    }

    /// Drops the quota of a changed mailbox, and results of earlier requests.
    pub(super) fn forget(&self, mailbox: &EmailAddress) {
        let mut state = self.state();
        state.changes += 1;
        self.answers.remove(mailbox);
    }

    fn recent(&self, mailbox: &EmailAddress) -> Option<Recent> {
        self.answers.get(mailbox).filter(|recent| recent.asked_at.elapsed() < SHOWN_FOR)
    }

    fn begin(&self) -> Begun {
        Begun { at: Instant::now(), changes: self.state().changes }
    }

    fn remember(&self, mailbox: &EmailAddress, begun: &Begun, answer: &Answer) {
        // The lock is held until the result is cached, so that no change occurs in between.
        let state = self.state();
        let is_newer = |recent: Recent| recent.asked_at > begun.at;
        if state.changes != begun.changes || self.answers.get(mailbox).is_some_and(is_newer) {
            return;
        }
        match answer {
            Ok(quota) => self.answers.insert(mailbox.clone(), Recent { quota: *quota, asked_at: begun.at }),
            Err(_) => drop(self.answers.remove(mailbox)),
        }
    }

    fn permit(self: &Arc<Self>, mailbox: &EmailAddress) -> Option<RefreshPermit> {
        let is_due = self.recent(mailbox).is_some_and(|recent| recent.asked_at.elapsed() >= FRESH_FOR);
        let mut state = self.state();
        let may_wait = is_due && state.refreshed.len() < MOST_WAITING && state.refreshed.insert(mailbox.clone());
        may_wait.then(|| RefreshPermit { quotas: self.clone(), mailbox: mailbox.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RefreshPermit {
    fn drop(&mut self) {
        self.quotas.state().refreshed.remove(&self.mailbox);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::advance;

    use super::*;

    fn address(name: &str) -> EmailAddress {
        format!("{name}@example.org").parse().unwrap()
    }

    fn held(messages: u64) -> Quota {
        Quota { messages, ..Quota::default() }
    }

    fn away() -> Answer {
        Err(MailboxError::Unavailable("no answer".to_owned()))
    }

    /// A cache with the quota of bob's mailbox: one message.
    async fn with_bob() -> (Arc<RecentQuotas>, EmailAddress) {
        let (quotas, bob) = (Arc::new(RecentQuotas::new()), address("bob"));
        quotas.ask(&bob, ready(Ok(held(1)))).await.unwrap();
        (quotas, bob)
    }

    /// Runs the background tasks as far as they can proceed now.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_shown_for_a_minute() {
        let (quotas, bob) = with_bob().await;
        advance(SHOWN_FOR - Duration::from_millis(1)).await;
        assert_eq!(quotas.shown(&bob), Some(held(1)));
        advance(Duration::from_millis(1)).await;
        assert_eq!(quotas.shown(&bob), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_refreshed_behind_a_list_once_it_is_not_fresh() {
        let (quotas, bob) = with_bob().await;
        quotas.refresh(&bob, ready(Ok(held(2))));
        settle().await;
        assert_eq!(quotas.shown(&bob), Some(held(1)), "it was fresh");
        advance(FRESH_FOR).await;
        quotas.refresh(&bob, ready(Ok(held(3))));
        assert_eq!(quotas.shown(&bob), Some(held(1)), "no caller waits for the refresh");
        settle().await;
        assert_eq!(quotas.shown(&bob), Some(held(3)));
        assert!(quotas.state().refreshed.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refresh_that_fails_lets_the_next_list_ask() {
        let (quotas, bob) = with_bob().await;
        advance(FRESH_FOR).await;
        quotas.refresh(&bob, ready(away()));
        settle().await;
        assert_eq!(quotas.shown(&bob), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refresh_that_hangs_ends_and_another_may_begin() {
        let (quotas, bob) = with_bob().await;
        advance(FRESH_FOR).await;
        quotas.refresh(&bob, pending());
        settle().await;
        advance(SHOWN_FOR).await;
        settle().await;
        assert!(quotas.state().refreshed.is_empty());
        assert_eq!(quotas.permits.available_permits(), ASKED_AT_A_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn refreshes_are_few_at_a_time_and_one_a_mailbox() {
        let (quotas, begun, gate) = (Arc::new(RecentQuotas::new()), Arc::default(), Arc::new(Semaphore::new(0)));
        let mailboxes: Vec<EmailAddress> = (0..10).map(|number| address(&format!("u{number}"))).collect();
        for mailbox in &mailboxes {
            quotas.ask(mailbox, ready(Ok(held(1)))).await.unwrap();
        }
        advance(FRESH_FOR).await;
        for mailbox in mailboxes.iter().chain(&mailboxes) {
            let (begun, gate): (Arc<AtomicUsize>, _) = (Arc::clone(&begun), gate.clone());
            quotas.refresh(mailbox, async move {
                begun.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                Ok(held(2))
            });
        }
        settle().await;
        assert_eq!(begun.load(Ordering::SeqCst), ASKED_AT_A_TIME);
        gate.add_permits(mailboxes.len());
        settle().await;
        assert_eq!(begun.load(Ordering::SeqCst), mailboxes.len());
        assert!(mailboxes.iter().all(|mailbox| quotas.shown(mailbox) == Some(held(2))));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_refreshes_wait() {
        let quotas = Arc::new(RecentQuotas::new());
        let mailboxes: Vec<EmailAddress> = (0..=MOST_WAITING).map(|number| address(&format!("u{number}"))).collect();
        for mailbox in &mailboxes {
            quotas.ask(mailbox, ready(Ok(held(1)))).await.unwrap();
        }
        advance(FRESH_FOR).await;
        for mailbox in &mailboxes {
            quotas.refresh(mailbox, pending());
        }
        assert_eq!(quotas.state().refreshed.len(), MOST_WAITING);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_before_a_change_is_not_shown_after_it() {
        let (quotas, bob) = with_bob().await;
        quotas.forget(&bob);
        assert_eq!(quotas.shown(&bob), None);
        // The request began before the change, and completes after it.
        let asked = quotas.ask(&bob, async {
            quotas.forget(&bob);
            Ok(held(1))
        });
        assert_eq!(asked.await, Ok(held(1)));
        assert_eq!(quotas.shown(&bob), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refresh_that_waits_does_not_ask_for_a_removed_mailbox() {
        let (quotas, bob) = with_bob().await;
        advance(FRESH_FOR).await;
        quotas.refresh(&bob, async { panic!("the server must not be asked") });
        quotas.forget(&bob);
        settle().await;
        assert!(quotas.state().refreshed.is_empty());
        assert_eq!(quotas.shown(&bob), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_about_one_mailbox_corrects_what_lists_show() {
        let (quotas, bob) = with_bob().await;
        assert_eq!(quotas.ask_anew(&bob, ready(Ok(held(2)))).await, Ok(held(2)));
        assert_eq!(quotas.shown(&bob), Some(held(2)));
        assert_eq!(quotas.ask_anew(&bob, ready(away())).await, away());
        assert_eq!(quotas.shown(&bob), None);
        assert_eq!(quotas.ask_anew(&bob, ready(Ok(held(3)))).await, Ok(held(3)));
        assert_eq!(quotas.shown(&bob), None, "the mailbox was not listed since");
    }
}
