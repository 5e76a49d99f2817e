//! Limits the requests of each token, and of each address without a valid token.
//!
//! Each request counts in two windows, a minute and an hour, which start with their first request. Rejected requests
//! are not counted, so a client that waits until the full window ends gets the whole next one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use mailapi_model::{ClientNetwork, Timestamp, TokenId};

use crate::error::{ApiError, whole_seconds};

/// Request limits. Zero means unlimited; without any limit, responses have no `RateLimit` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Within one minute.
    pub per_minute: u64,
    /// Within one hour.
    pub per_hour: u64,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { per_minute: 100, per_hour: 1000 }
    }
}

impl RequestLimits {
    const fn windows(self) -> [LimitWindow; 2] {
        [
            LimitWindow { length: Duration::from_secs(60), limit: self.per_minute },
            LimitWindow { length: Duration::from_secs(3600), limit: self.per_hour },
        ]
    }
}

/// A time window and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitWindow {
    /// Length of the window, from its first request.
    pub(crate) length: Duration,
    /// Maximum number of requests; zero means unlimited.
    pub(crate) limit: u64,
}

impl LimitWindow {
    const fn is_full(self, used: u64) -> bool {
        self.limit > 0 && used >= self.limit
    }
}

/// Requests with the same key are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LimitKey {
    /// Requests of a token.
    Token(TokenId),
    /// Requests of an address without a token, or with an unknown one.
    Client(ClientNetwork),
}

impl LimitKey {
    /// The key for a client's address.
    pub(crate) fn of_client(address: IpAddr) -> Self {
        Self::Client(ClientNetwork::of(address))
    }
}

/// State of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowUse {
    /// Requests counted in it.
    pub(crate) used: u64,
    /// End of the window.
    pub(crate) ends_at: Timestamp,
}

/// Result of counting a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Whether it was counted; false if a window was full.
    pub(crate) counted: bool,
    /// The windows after the request, in the order of the argument.
    pub(crate) windows: [WindowUse; 2],
}

/// A started window.
#[derive(Debug, Clone, Copy)]
struct Counter {
    began: Timestamp,
    used: u64,
}

impl Counter {
    /// Whether the window has ended, or the clock was set back to before its start.
    fn is_over(self, length: Duration, now: Timestamp) -> bool {
        now < self.began || now.since(self.began) >= length
    }
}

/// Counts in the memory of this process.
pub(crate) struct RequestCounts {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

/// A shard of the keys, to reduce lock contention.
struct Shard {
    counters: HashMap<LimitKey, [Counter; 2]>,
    prune_at: usize,
}

impl RequestCounts {
    const SHARDS: usize = 16;
    /// Number of keys in a shard before expired ones are first removed.
    const FIRST_PRUNE: usize = 1024;

    /// Counts nothing yet.
    pub(crate) fn new() -> Self {
        let shard = || Mutex::new(Shard { counters: HashMap::new(), prune_at: Self::FIRST_PRUNE });
        Self { shards: std::iter::repeat_with(shard).take(Self::SHARDS).collect(), hasher: RandomState::new() }
    }

    /// Counts one request atomically in all windows, or in none if one of them is full.
    fn take(&self, key: LimitKey, windows: [LimitWindow; 2], now: Timestamp) -> Taken {
        let mut shard = self.shard(key).lock().unwrap_or_else(PoisonError::into_inner);
        shard.prune(windows, now);
        shard.take(key, windows, now)
    }

    fn shard(&self, key: LimitKey) -> &Mutex<Shard> {
        let count = self.shards.len() as u64;
        let index = usize::try_from(self.hasher.hash_one(key) % count).unwrap_or(0);
        &self.shards[index]
    }
}

impl Shard {
    fn take(&mut self, key: LimitKey, windows: [LimitWindow; 2], now: Timestamp) -> Taken {
        let fresh = Counter { began: now, used: 0 };
        let counters = self.counters.entry(key).or_insert([fresh; 2]);
        for (counter, window) in counters.iter_mut().zip(windows) {
            if counter.is_over(window.length, now) {
                *counter = fresh;
            }
        }
        let counted = !counters.iter().zip(windows).any(|(counter, window)| window.is_full(counter.used));
        let use_of =
            |n: usize| WindowUse { used: counters[n].used, ends_at: counters[n].began.plus(windows[n].length) };
        let mut windows = [use_of(0), use_of(1)];
        if counted {
            counters.iter_mut().for_each(|counter| counter.used += 1);
            windows.iter_mut().for_each(|window| window.used += 1);
        }
        Taken { counted, windows }
    }

    /// Removes expired keys each time the number of keys has doubled.
    fn prune(&mut self, windows: [LimitWindow; 2], now: Timestamp) {
        if self.counters.len() < self.prune_at {
            return;
        }
        let over = |counters: &[Counter; 2]| counters.iter().zip(windows).all(|(c, w)| c.is_over(w.length, now));
        self.counters.retain(|_, counters| !over(counters));
        self.prune_at = (self.counters.len() * 2).max(RequestCounts::FIRST_PRUNE);
    }
}

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// State of the window that is closest to its limit, for the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RateLimit {
    limit: u64,
    remaining: u64,
    reset: Duration,
}

impl RateLimit {
    /// The window with the fewest requests left; of equals, the one that ends later. `None` without limits.
    fn tightest(windows: [LimitWindow; 2], taken: &Taken, now: Timestamp) -> Option<Self> {
        let limited = windows.iter().zip(&taken.windows).filter(|(window, _)| window.limit > 0);
        let states = limited.map(|(window, usage)| Self {
            limit: window.limit,
            remaining: window.limit.saturating_sub(usage.used),
            reset: usage.ends_at.since(now),
        });
        states.min_by_key(|state| (state.remaining, std::cmp::Reverse(state.reset)))
    }

    fn write_to(self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(whole_seconds(self.reset)));
    }
}

/// Passes the state of the limit from the extractor to the response, even if the request fails.
#[derive(Debug, Default)]
pub(crate) struct RateLimitNote(OnceLock<RateLimit>);

/// Counts the request.
///
/// # Errors
/// 429 if a window is full; `note` is set in either case.
pub(crate) fn take(
    counts: &RequestCounts,
    limits: RequestLimits,
    key: LimitKey,
    now: Timestamp,
    note: Option<&RateLimitNote>,
) -> Result<(), ApiError> {
    let windows = limits.windows();
    let taken = counts.take(key, windows, now);
    let state = RateLimit::tightest(windows, &taken, now);
    if let (Some(note), Some(state)) = (note, state) {
        // A request is counted once; a second state could only come from a second extractor and would be the same.
        let _ = note.0.set(state);
    }
    let wait = state.map_or(Duration::ZERO, |state| state.reset);
    if taken.counted { Ok(()) } else { Err(ApiError::rate_limited(wait)) }
}

impl RateLimitNote {
    /// Adds the state of the limit to the response of a counted request.
    pub(crate) fn write_to(&self, headers: &mut HeaderMap) {
        if let Some(state) = self.0.get() {
            state.write_to(headers);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const NOON: Timestamp = Timestamp::from_seconds(1_795_600_800);
    const ANN: LimitKey = LimitKey::Token(TokenId(1));

    fn limits(per_minute: u64, per_hour: u64) -> [LimitWindow; 2] {
        RequestLimits { per_minute, per_hour }.windows()
    }

    #[test]
    fn a_full_window_rejects_until_it_ends() {
        let store = RequestCounts::new();
        let windows = limits(2, 3);
        let at = |seconds| NOON.plus(Duration::from_secs(seconds));
        for (second, counted) in
            [(0, true), (10, true), (20, false), (59, false), (60, true), (61, false), (3600, true)]
        {
            assert_eq!(store.take(ANN, windows, at(second)).counted, counted, "second {second}");
        }
        let other = store.take(LimitKey::Token(TokenId(2)), windows, at(61));
        assert!(other.counted, "another token has windows of its own");
    }

    #[test]
    fn the_response_shows_the_window_that_is_full_first() {
        let store = RequestCounts::new();
        let windows = limits(100, 102);
        let mut now = NOON;
        let mut last = None;
        for _ in 0..3 {
            last = RateLimit::tightest(windows, &store.take(ANN, windows, now), now);
            now = now.plus(Duration::from_secs(30));
        }
        // The third request is the first of a new minute: 99 left there, and as many in the hour, which ends later.
        assert_eq!(last, Some(RateLimit { limit: 102, remaining: 99, reset: Duration::from_secs(3540) }));
        assert_eq!(RateLimit::tightest(limits(0, 0), &store.take(ANN, limits(0, 0), now), now), None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn exactly_the_limit_is_let_through_however_many_come_at_once() {
        let store = Arc::new(RequestCounts::new());
        let one = |_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.take(ANN, limits(100, 1000), NOON).counted })
        };
        let tasks: Vec<_> = (0..500).map(one).collect();
        let mut counted = 0;
        for task in tasks {
            counted += usize::from(task.await.unwrap());
        }
        assert_eq!(counted, 100);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_lock_anybody_out() {
        let store = RequestCounts::new();
        assert!(store.take(ANN, limits(1, 0), NOON).counted);
        assert!(store.take(ANN, limits(1, 0), NOON.minus(Duration::from_secs(86_400))).counted);
    }

    #[test]
    fn keys_whose_windows_are_over_are_forgotten() {
        let mut shard = Shard { counters: HashMap::new(), prune_at: 3 };
        for n in 0..3 {
            shard.take(LimitKey::Token(TokenId(n)), limits(1, 1), NOON);
        }
        let later = NOON.plus(Duration::from_secs(3600));
        shard.take(LimitKey::Token(TokenId(9)), limits(1, 1), later);
        shard.prune(limits(1, 1), later);
        assert_eq!(shard.counters.len(), 1);
    }

    #[test]
    fn an_ipv6_network_and_a_mapped_ipv4_address_are_one_client() {
        let key = |text: &str| LimitKey::of_client(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
    }
}
