//! Limits on wrong passwords, kept in memory: a restart clears them.
//!
//! The API locks a mailbox for all clients ([`Failures`]). At IMAP and submission, strangers could lock out a
//! mail program that way, so only the failing client is rejected for that mailbox. Everywhere, a client with many
//! failures over all mailboxes is rejected too ([`Delay`]). At IMAP and submission, a wrong password that a client repeats
//! for a mailbox counts once: a mail program with an old password must not lock out the other programs of its network.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mailapi_model::{ClientNetwork, EmailAddress, LoginProtocol, SecretText, TokenId, Visitor};

use super::lockouts::Unlock;
use crate::Settings;

/// The first delay after too many failures; each further failure doubles it, up to [`Settings::login_lockout`].
const FIRST_DELAY: Duration = Duration::from_secs(30);

/// Factor on the failures allowed for a mailbox before a client is delayed, since many people may share a client.
const MAILBOXES_OF_A_CLIENT: u32 = 10;

/// Maximum number of wrong passwords of a mailbox and client that are recognised.
const MAX_RECOGNISED: usize = 16;

/// What wrong passwords are counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// A mailbox, as [`lock_key`] writes it.
    Mailbox(String),
    /// The proofs of an API token.
    Token(TokenId),
}

/// The key, the origin and the password of a login attempt.
pub(super) struct Attempt {
    key: Key,
    from: Visitor,
    guess: Guess,
}

/// A keyed hash of a password, to recognise one that is repeated. The key and the hash never leave this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guess(u64);

impl Attempt {
    /// An attempt to prove who holds this token.
    pub(super) fn of_token(token: TokenId, from: Visitor) -> Self {
        Self { key: Key::Token(token), from, guess: Guess(0) }
    }

    pub(super) fn is_at_api(&self) -> bool {
        self.from.protocol == LoginProtocol::Http
    }

    fn pair(&self) -> (Key, ClientNetwork) {
        (self.key.clone(), self.from.network())
    }
}

/// The key of the failure counts: equal for every spelling of an address, and short for invalid addresses.
fn lock_key(user: &str) -> String {
    const LONGEST: usize = 254;
    match user.parse::<EmailAddress>() {
        Ok(address) => address.as_str().to_owned(),
        Err(_) => user.chars().take(LONGEST).collect::<String>().to_lowercase(),
    }
}

/// The reason and remaining time for which attempts are rejected without a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Barred {
    /// The mailbox is barred.
    Mailbox(Duration),
    /// The client is barred, except for mailboxes that it has logged in to before.
    Client(Duration),
}

/// Logins that are barred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LockedOut {
    /// The mailbox; `None` if all are barred to the client, or for a token.
    pub(super) mailbox: Option<EmailAddress>,
    /// The API token, for which only dangerous changes are barred.
    pub(super) token: Option<TokenId>,
    /// The client; `None` if the mailbox is barred to all clients of the API, or for a token.
    pub(super) client: Option<ClientNetwork>,
    pub(super) remaining: Duration,
}

impl LockedOut {
    /// What is barred for a key; `None` if its text is not an address.
    fn of(key: &Key, client: Option<ClientNetwork>, remaining: Duration) -> Option<Self> {
        let (mailbox, token) = match key {
            Key::Mailbox(text) => (Some(text.parse().ok()?), None),
            Key::Token(token) => (None, Some(*token)),
        };
        Some(Self { mailbox, token, client, remaining })
    }
}

/// Failed logins. Times come from [`mailapi_model::Clock::steady`].
#[derive(Default)]
pub(crate) struct FailedLogins {
    tables: Mutex<Tables>,
    key_of_guesses: RandomState,
}

#[derive(Default)]
struct Tables {
    /// Failures at the API, by mailbox or token.
    at_api: HashMap<Key, Failures>,
    /// Failures at the other listeners, by mailbox and client.
    elsewhere: HashMap<(Key, ClientNetwork), GuessDelay>,
    /// Failures at all listeners, by client.
    clients: HashMap<ClientNetwork, Delay>,
    /// Clients that have logged in to a mailbox. Webmail is one client for all its users: strangers who guess
    /// passwords there must not lock them out.
    entered: HashMap<(Key, ClientNetwork), Entered>,
}

impl FailedLogins {
    /// An attempt to log in to a mailbox.
    pub(super) fn attempt(&self, user: &str, password: &SecretText, from: Visitor) -> Attempt {
        let guess = Guess(self.key_of_guesses.hash_one(password.expose()));
        Attempt { key: Key::Mailbox(lock_key(user)), from, guess }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The remaining time for which the attempt must be rejected without a check, if any.
    pub(super) fn barred(&self, attempt: &Attempt, now: Duration) -> Option<Barred> {
        self.tables().barred(attempt, now)
    }

    /// Returns what is barred, the longest remaining time first. Texts other than addresses are omitted: users may type
    /// their password into the wrong field.
    pub(super) fn locked_out(&self, now: Duration) -> Vec<LockedOut> {
        let mut all = self.tables().locked_out(now);
        all.sort_by_key(|out| Reverse(out.remaining));
        all
    }

    /// Forgets the failures of a mailbox, those of a client, and those of a token. Returns the number of lock-outs that
    /// ended.
    pub(super) fn forget(&self, Unlock { mailbox, client, token }: &Unlock, now: Duration) -> usize {
        let mut tables = self.tables();
        let before = tables.locked_out(now).len();
        let mailbox = mailbox.as_ref().map(|mailbox| Key::Mailbox(mailbox.as_str().to_owned()));
        for key in mailbox.into_iter().chain(token.map(Key::Token)) {
            tables.at_api.remove(&key);
            tables.elsewhere.retain(|(of, _), _| *of != key);
        }
        if let Some(client) = *client {
            tables.clients.remove(&client);
            tables.elsewhere.retain(|(_, from), _| *from != client);
        }
        before - tables.locked_out(now).len()
    }

    /// Counts a failure, or clears the mailbox's failures on success. Does neither if the attempt was barred
    /// meanwhile.
    pub(super) fn judge(&self, attempt: &Attempt, matches: bool, now: Duration, settings: &Settings) -> Option<Barred> {
        let mut tables = self.tables();
        // Judge under one lock: parallel guesses must not all pass before the first failure counts.
        let barred = tables.barred(attempt, now);
        match (barred, matches) {
            (Some(_), _) => {}
            (None, true) => tables.forgive(attempt, now, settings),
            (None, false) => tables.note(attempt, now, settings),
        }
        barred
    }
}

impl Tables {
    fn locked_out(&self, now: Duration) -> Vec<LockedOut> {
        let left = |until: Option<Duration>| until?.checked_sub(now).filter(|left| !left.is_zero());
        let at_api =
            self.at_api.iter().filter_map(|(key, failures)| LockedOut::of(key, None, left(failures.locked_until)?));
        let elsewhere = self
            .elsewhere
            .iter()
            .filter_map(|((key, client), of)| LockedOut::of(key, Some(*client), left(of.delay.barred_until)?));
        let clients = self.clients.iter().filter_map(|(client, delay)| {
            Some(LockedOut { mailbox: None, token: None, client: Some(*client), remaining: left(delay.barred_until)? })
        });
        at_api.chain(elsewhere).chain(clients).collect()
    }

    fn barred(&self, attempt: &Attempt, now: Duration) -> Option<Barred> {
        let pair = attempt.pair();
        let until = match attempt.from.protocol {
            LoginProtocol::Http => self.at_api.get(&attempt.key).and_then(|failures| failures.locked_until),
            LoginProtocol::Submission | LoginProtocol::Imap => {
                self.elsewhere.get(&pair).and_then(|guesses| guesses.delay.barred_until)
            }
        };
        let left =
            |until: Option<Duration>| until.and_then(|until| until.checked_sub(now)).filter(|left| !left.is_zero());
        if let Some(left) = left(until) {
            return Some(Barred::Mailbox(left));
        }
        let client = self.clients.get(&pair.1).and_then(|delay| delay.barred_until);
        left(client).filter(|_| !self.entered.contains_key(&pair)).map(Barred::Client)
    }

    fn forgive(&mut self, attempt: &Attempt, now: Duration, settings: &Settings) {
        let pair = attempt.pair();
        match attempt.from.protocol {
            LoginProtocol::Http => drop(self.at_api.remove(&attempt.key)),
            LoginProtocol::Submission | LoginProtocol::Imap => drop(self.elsewhere.remove(&pair)),
        }
        entry(&mut self.entered, pair, now, settings);
    }

    fn note(&mut self, attempt: &Attempt, now: Duration, settings: &Settings) {
        let (pair, attempts) = (attempt.pair(), settings.login_attempts.max(1));
        let client = pair.1;
        match attempt.from.protocol {
            LoginProtocol::Http => {
                let failures = entry(&mut self.at_api, attempt.key.clone(), now, settings);
                failures.note(now, attempts, settings.login_lockout);
            }
            LoginProtocol::Submission | LoginProtocol::Imap => {
                let guesses = entry(&mut self.elsewhere, pair, now, settings);
                if !guesses.note(attempt.guess, now, attempts, settings.login_lockout) {
                    return;
                }
            }
        }
        let client = entry(&mut self.clients, client, now, settings);
        client.note(now, attempts.saturating_mul(MAILBOXES_OF_A_CLIENT), settings.login_lockout);
    }
}

/// A value in one of the tables.
trait Remembered: Default {
    /// Whether the value bars logins at this moment.
    fn bars(&self, now: Duration) -> bool;

    /// Whether the value still has an effect.
    fn matters(&self, now: Duration, window: Duration) -> bool;
}

/// The value under `key`, added if missing.
fn entry<'a, K: Eq + Hash, V: Remembered>(
    table: &'a mut HashMap<K, V>,
    key: K,
    now: Duration,
    settings: &Settings,
) -> &'a mut V {
    if table.len() >= settings.login_addresses && !table.contains_key(&key) {
        make_room(table, now, settings.login_lockout);
    }
    table.entry(key).or_default()
}

/// Removes values that no longer have an effect. If that frees less than half, also removes half of those that bar
/// nothing. A flood of invented addresses can thus neither fill the memory nor cause a scan for each guess.
fn make_room<K, V: Remembered>(table: &mut HashMap<K, V>, now: Duration, window: Duration) {
    let before = table.len();
    table.retain(|_, remembered| remembered.matters(now, window));
    if table.len() * 2 > before {
        let mut keep = false;
        table.retain(|_, remembered| {
            keep = !keep;
            keep || remembered.bars(now)
        });
    }
}

/// Failures of a mailbox at the API. Enough of them within the window lock it for the length of the window.
#[derive(Default)]
struct Failures {
    /// The time of each failure, oldest first; at most the allowed number.
    at: Vec<Duration>,
    locked_until: Option<Duration>,
}

impl Failures {
    fn note(&mut self, now: Duration, attempts: u32, window: Duration) {
        self.at.retain(|at| now.saturating_sub(*at) < window);
        self.at.push(now);
        if self.at.len() >= attempts as usize {
            self.locked_until = Some(now + window);
            self.at.clear();
        }
    }
}

impl Remembered for Failures {
    fn bars(&self, now: Duration) -> bool {
        self.locked_until.is_some_and(|until| until > now)
    }

    fn matters(&self, now: Duration, window: Duration) -> bool {
        self.bars(now) || self.at.iter().any(|at| now.saturating_sub(*at) < window)
    }
}

/// Failures of a client. Enough of them within the window delay it, each further failure for longer. A pause of the
/// length of the window clears them.
#[derive(Default)]
struct Delay {
    began: Duration,
    failures: u32,
    /// Number of delays so far.
    delays: u32,
    barred_until: Option<Duration>,
}

impl Delay {
    fn note(&mut self, now: Duration, attempts: u32, window: Duration) {
        if !self.matters(now, window) {
            *self = Self { began: now, ..Self::default() };
        }
        self.failures += 1;
        if self.barred_until.is_some() || self.failures >= attempts {
            let doubled = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(self.delays));
            self.barred_until = Some(now + doubled.min(window));
            self.delays += 1;
        }
    }
}

impl Remembered for Delay {
    fn bars(&self, now: Duration) -> bool {
        self.barred_until.is_some_and(|until| until > now)
    }

    fn matters(&self, now: Duration, window: Duration) -> bool {
        now.saturating_sub(self.barred_until.unwrap_or(self.began)) < window
    }
}

/// Failures of a client at one mailbox. Each wrong password counts once.
#[derive(Default)]
struct GuessDelay {
    delay: Delay,
    guesses: Vec<Guess>,
}

impl GuessDelay {
    /// Counts a wrong password; returns false if it is one of those before.
    fn note(&mut self, guess: Guess, now: Duration, attempts: u32, window: Duration) -> bool {
        if !self.delay.matters(now, window) {
            self.guesses.clear();
        }
        if self.guesses.contains(&guess) {
            return false;
        }
        if self.guesses.len() < MAX_RECOGNISED {
            self.guesses.push(guess);
        }
        self.delay.note(now, attempts, window);
        true
    }
}

impl Remembered for GuessDelay {
    fn bars(&self, now: Duration) -> bool {
        self.delay.bars(now)
    }

    fn matters(&self, now: Duration, window: Duration) -> bool {
        self.delay.matters(now, window)
    }
}

/// A login of a mailbox from a client.
#[derive(Default)]
struct Entered;

impl Remembered for Entered {
    fn bars(&self, _now: Duration) -> bool {
        false
    }

    fn matters(&self, _now: Duration, _window: Duration) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(protocol: LoginProtocol, mailbox: &str, guess: u64) -> Attempt {
        let from = Visitor { protocol, address: [192, 0, 2, 1].into() };
        Attempt { key: Key::Mailbox(lock_key(mailbox)), from, guess: Guess(guess) }
    }

    fn at_api(mailbox: &str) -> Attempt {
        at(LoginProtocol::Http, mailbox, 0)
    }

    #[test]
    fn a_password_is_recognised_only_in_this_process() {
        let (failures, others) = (FailedLogins::default(), FailedLogins::default());
        let guess = |failures: &FailedLogins, password: &str| {
            let from = Visitor { protocol: LoginProtocol::Imap, address: [192, 0, 2, 1].into() };
            failures.attempt("ann@example.org", &SecretText::new(password.to_owned()), from).guess
        };
        assert_eq!(guess(&failures, "wrong horse"), guess(&failures, "wrong horse"));
        assert_ne!(guess(&failures, "wrong horse"), guess(&failures, "wrong house"));
        assert_ne!(guess(&failures, "wrong horse"), guess(&others, "wrong horse"));
    }

    #[test]
    fn a_mail_program_with_an_old_password_locks_no_one_out() {
        let (failures, settings) = (FailedLogins::default(), Settings::default());
        let imap = |guess| at(LoginProtocol::Imap, "ann@example.org", guess);
        for second in 0..200 {
            let now = Duration::from_secs(second);
            assert_eq!(failures.judge(&imap(1), false, now, &settings), None, "the old password, again");
            assert_eq!(failures.barred(&imap(1), now), None);
        }
        // Four other ones are guesses.
        for guess in 2..6 {
            assert_eq!(failures.judge(&imap(guess), false, MINUTE, &settings), None);
        }
        assert!(failures.barred(&imap(9), MINUTE).is_some());
    }

    #[test]
    fn few_of_many_passwords_are_recognised() {
        let (mut guesses, attempts) = (GuessDelay::default(), 5);
        for guess in 0..1000 {
            assert!(guesses.note(Guess(guess), MINUTE, attempts, 15 * MINUTE));
        }
        assert_eq!((guesses.guesses.len(), guesses.delay.failures), (MAX_RECOGNISED, 1000));
    }

    #[test]
    fn every_spelling_of_an_address_is_locked_with_the_others() {
        for spelling in ["ANN@xn--bcher-kva.example", "\"ann\"@Bücher.example", "\"a\\nn\"@bücher.example"] {
            assert_eq!(lock_key(spelling), "ann@xn--bcher-kva.example", "{spelling}");
        }
        assert_eq!(lock_key("No Address"), "no address");
        assert!(lock_key(&"x".repeat(1_000_000)).len() < 1000);
    }

    #[test]
    fn five_failures_lock_for_fifteen_minutes_and_four_do_not() {
        let (failures, settings) = (FailedLogins::default(), Settings::default());
        let (ann, bob) = (at_api("ann@example.org"), at_api("bob@example.org"));
        for n in 0..4 {
            failures.judge(&ann, false, n * MINUTE, &settings);
        }
        assert_eq!(failures.barred(&ann, 4 * MINUTE), None);
        assert_eq!(failures.judge(&ann, false, 4 * MINUTE, &settings), None);
        let late = failures.judge(&ann, true, 4 * MINUTE, &settings);
        assert_eq!(
            late,
            Some(Barred::Mailbox(15 * MINUTE)),
            "the right password too, when it is judged after the lock"
        );
        assert_eq!(failures.barred(&ann, 5 * MINUTE), Some(Barred::Mailbox(14 * MINUTE)));
        assert_eq!(failures.barred(&bob, 5 * MINUTE), None);
        assert_eq!(failures.barred(&ann, 19 * MINUTE), None);
    }

    #[test]
    fn a_list_shows_what_is_barred_and_forgets_it_on_demand() {
        let (failures, settings) = (FailedLogins::default(), Settings::default());
        let imap = |mailbox: &str, guess| at(LoginProtocol::Imap, mailbox, guess);
        for guess in 0..5 {
            for attempt in [at_api("ann@example.org"), at_api("secret typed here"), imap("bob@example.org", guess)] {
                failures.judge(&attempt, false, MINUTE, &settings);
            }
        }
        let shown = || {
            let name = |out: LockedOut| (out.mailbox.map(|m| m.to_string()), out.client.map(|c| c.to_string()));
            failures.locked_out(2 * MINUTE).into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(shown(), [(Some("ann@example.org".to_owned()), None)], "the delay of 30 s is over");
        assert_eq!(failures.locked_out(MINUTE).len(), 2);
        let of = |mailbox: &str| Unlock { mailbox: mailbox.parse().ok(), ..Unlock::default() };
        assert_eq!(failures.forget(&of("carl@example.org"), MINUTE), 0);
        let of_client = Unlock { client: "192.0.2.1".parse().ok(), ..Unlock::default() };
        assert_eq!(failures.forget(&of_client, MINUTE), 1, "of the mail program");
        assert_eq!(failures.barred(&imap("bob@example.org", 9), MINUTE), None);
        assert_eq!(failures.forget(&of("ann@example.org"), MINUTE), 1);
        assert_eq!(failures.judge(&at_api("ann@example.org"), true, MINUTE, &settings), None);
        assert!(shown().is_empty());
    }

    #[test]
    fn failures_that_lie_far_apart_do_not_add_up() {
        let (failures, settings) = (FailedLogins::default(), Settings::default());
        for n in 0..20 {
            let now = 4 * n * MINUTE;
            for attempt in [at_api("ann@example.org"), at(LoginProtocol::Imap, "ann@example.org", n.into())] {
                failures.judge(&attempt, false, now, &settings);
                assert_eq!(failures.barred(&attempt, now), None);
            }
        }
    }

    #[test]
    fn a_flood_of_made_up_names_does_not_fill_the_memory() {
        let settings = Settings { login_addresses: 100, ..Settings::default() };
        let failures = FailedLogins::default();
        for n in 0..1000_u16 {
            let [high, low] = n.to_be_bytes();
            for protocol in [LoginProtocol::Http, LoginProtocol::Imap] {
                let from = Visitor { protocol, address: [10, 0, high, low].into() };
                let attempt = Attempt { from, ..at(protocol, &format!("user{n}"), 0) };
                failures.judge(&attempt, n % 2 == 0, Duration::ZERO, &settings);
            }
        }
        let tables = failures.tables();
        let sizes = [tables.at_api.len(), tables.elsewhere.len(), tables.clients.len(), tables.entered.len()];
        assert!(sizes.iter().all(|size| (1..=100).contains(size)), "{sizes:?}");
    }
}
