//! Sums of changes, written as few additions to the counts.

use std::collections::BTreeMap;

use mailapi_model::Timestamp;

use super::counts::SentDelta;
use super::hours::Span;
use crate::db::Stmt;
use mailapi_model::InboundOutcome;

/// Maximum number of sender domains of a local domain that are counted in an hour or a day. A stranger can invent any
/// number of them; rankings show the first few, and the totals count all mail.
const MOST_SENDER_DOMAINS: i64 = 500;

/// The additions of a number of changes. The maps are ordered like the tables: two nodes take row locks in
/// the same order, and neighbouring rows are written together.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// By hour, sender and recipient domain.
    sent: BTreeMap<(i64, String, String), SentDelta>,
    /// By hour, recipient domain and sender domain.
    inbound: BTreeMap<(i64, String, Option<String>), InboundDelta>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct InboundDelta {
    accepted: i64,
    rejected: i64,
    spam: i64,
}

impl InboundDelta {
    const fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.spam += other.spam;
    }
}

/// The scope, the span, and its start.
type Key = (String, &'static str, i64);

impl Sums {
    /// Adds the change of one recipient's state.
    pub(super) fn change_sent(
        &mut self,
        at: Timestamp,
        sender: String,
        recipient: &str,
        before: SentDelta,
        after: SentDelta,
    ) {
        let sum = self.sent.entry((hour(at), sender, domain_of(recipient).to_owned())).or_default();
        sum.take(before);
        sum.add(after);
    }

    /// Adds one recipient of incoming mail.
    pub(super) fn add_inbound(
        &mut self,
        at: Timestamp,
        domain: String,
        sender_domain: Option<String>,
        outcome: InboundOutcome,
    ) {
        let sum = self.inbound.entry((hour(at), domain, sender_domain)).or_default();
        match outcome {
            InboundOutcome::Accepted => sum.accepted += 1,
            InboundOutcome::Rejected => sum.rejected += 1,
            InboundOutcome::Spam => {
                sum.accepted += 1;
                sum.spam += 1;
            }
        }
    }

    /// Returns the number of groups of changes.
    pub(super) fn groups(&self) -> usize {
        self.sent.len() + self.inbound.len()
    }

    /// Returns the statements that add to all counts.
    pub(super) fn into_statements(self) -> Vec<Stmt> {
        let mut statements = sent_statements(self.sent);
        statements.extend(inbound_statements(self.inbound));
        statements
    }
}

fn hour(at: Timestamp) -> i64 {
    Span::Hour.begin_of(at).as_millis()
}

/// Returns the part after the last `@`: a quoted local part may contain others.
fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

fn sent_statements(sent: BTreeMap<(i64, String, String), SentDelta>) -> Vec<Stmt> {
    let mut totals: BTreeMap<Key, SentDelta> = BTreeMap::new();
    let mut to_domains: BTreeMap<(Key, String), SentDelta> = BTreeMap::new();
    for ((hour, sender, recipient_domain), delta) in sent {
        // Opposite changes cancelled each other out, or the states do not count.
        if delta == SentDelta::default() {
            continue;
        }
        // All mail, the sender's domain, and the sender.
        for scope in ["", domain_of(&sender), sender.as_str()] {
            for key in keys(scope, hour) {
                totals.entry(key.clone()).or_default().add(delta);
                to_domains.entry((key, recipient_domain.clone())).or_default().add(delta);
            }
        }
    }
    let totals = totals.into_iter().map(|(key, delta)| add_to_totals(key, delta));
    let to_domains = to_domains.into_iter().map(|((key, domain), delta)| add_to_domain(key, domain, delta));
    totals.chain(to_domains).collect()
}

fn inbound_statements(inbound: BTreeMap<(i64, String, Option<String>), InboundDelta>) -> Vec<Stmt> {
    let mut totals: BTreeMap<Key, InboundDelta> = BTreeMap::new();
    let mut from_domains: BTreeMap<(Key, String), i64> = BTreeMap::new();
    for ((hour, domain, sender_domain), delta) in inbound {
        for key in keys(&domain, hour) {
            totals.entry(key.clone()).or_default().add(delta);
            // Sender domains are ranked by accepted mail only.
            if let Some(sender_domain) = sender_domain.clone().filter(|_| delta.accepted > 0) {
                *from_domains.entry((key, sender_domain)).or_default() += delta.accepted;
            }
        }
    }
    let totals = totals.into_iter().map(|(key, delta)| add_to_inbound(key, delta));
    let from_domains = from_domains.into_iter().map(|((key, domain), accepted)| add_from_domain(key, domain, accepted));
    totals.chain(from_domains).collect()
}

/// Returns the keys under which a change of this hour counts.
fn keys(scope: &str, hour: i64) -> impl Iterator<Item = Key> {
    let at = Timestamp::from_millis(hour);
    Span::ALL.into_iter().map(move |span| (scope.to_owned(), span.as_str(), span.begin_of(at).as_millis()))
}

fn for_key(sql: &'static str, (scope, span, start): Key) -> Stmt {
    Stmt::new(sql).bind(scope).bind(span).bind(start)
}

fn with_sent(statement: Stmt, delta: SentDelta) -> Stmt {
    let SentDelta { sent, delivered, bounced, deferred, rejected } = delta;
    statement.bind(sent).bind(delivered).bind(bounced).bind(deferred).bind(rejected)
}

fn add_to_totals(key: Key, delta: SentDelta) -> Stmt {
    let sql = "INSERT INTO sent_totals (scope, span, start_at, sent, delivered, bounced, deferred, rejected) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (scope, span, start_at) DO UPDATE SET \
               sent = sent_totals.sent + EXCLUDED.sent, delivered = sent_totals.delivered + EXCLUDED.delivered, \
               bounced = sent_totals.bounced + EXCLUDED.bounced, deferred = sent_totals.deferred + EXCLUDED.deferred, \
               rejected = sent_totals.rejected + EXCLUDED.rejected";
    with_sent(for_key(sql, key), delta)
}

fn add_to_domain(key: Key, domain: String, delta: SentDelta) -> Stmt {
    let sql = "INSERT INTO sent_to_domains (scope, span, start_at, recipient_domain, sent, delivered, bounced, \
               deferred, rejected) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
               ON CONFLICT (scope, span, start_at, recipient_domain) DO UPDATE SET \
               sent = sent_to_domains.sent + EXCLUDED.sent, \
               delivered = sent_to_domains.delivered + EXCLUDED.delivered, \
               bounced = sent_to_domains.bounced + EXCLUDED.bounced, \
               deferred = sent_to_domains.deferred + EXCLUDED.deferred, \
               rejected = sent_to_domains.rejected + EXCLUDED.rejected";
    with_sent(for_key(sql, key).bind(domain), delta)
}

fn add_to_inbound(key: Key, delta: InboundDelta) -> Stmt {
    let sql = "INSERT INTO inbound_totals (domain, span, start_at, accepted, rejected, spam) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (domain, span, start_at) DO UPDATE SET \
               accepted = inbound_totals.accepted + EXCLUDED.accepted, \
               rejected = inbound_totals.rejected + EXCLUDED.rejected, spam = inbound_totals.spam + EXCLUDED.spam";
    for_key(sql, key).bind(delta.accepted).bind(delta.rejected).bind(delta.spam)
}

fn add_from_domain(key: Key, sender_domain: String, accepted: i64) -> Stmt {
    // A trigger counts the rows of the period. `WHERE` also keeps SQLite from reading `ON` as a join's.
    let sql = "INSERT INTO inbound_from_domains (domain, span, start_at, sender_domain, accepted) \
               SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS BIGINT) \
               WHERE (SELECT sender_domains FROM inbound_totals WHERE domain = $1 AND span = $2 AND start_at = $3) < $6 \
               OR EXISTS (SELECT 1 FROM inbound_from_domains \
               WHERE domain = $1 AND span = $2 AND start_at = $3 AND sender_domain = $4) \
               ON CONFLICT (domain, span, start_at, sender_domain) DO UPDATE SET \
               accepted = inbound_from_domains.accepted + EXCLUDED.accepted";
    for_key(sql, key).bind(sender_domain).bind(accepted).bind(MOST_SENDER_DOMAINS)
}
