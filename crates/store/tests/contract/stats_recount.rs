//! Property test: after any sequence of steps and roll-ups, the counts equal a recount.

use std::collections::{BTreeMap, BTreeSet};

use mailapi_model::{
    DeliveryEvent, DomainName, EmailAddress, Evidence, Outcome, QueueId, RecipientStatus, Reply, Timestamp,
};
use mailapi_store::{Failure, Hours, NewSent, RollUpSize, SentCounts, SentScope, Span, Store, StoreError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::delivery_log::{cursor, event};
use crate::engines::{Engine, at, domain, email, new_sent};

const SENDERS: [&str; 3] = ["ann@example.org", "bob@example.org", "eve@example.net"];
const RECIPIENTS: [&str; 4] = ["one@a.example", "two@a.example", "\"x@a.example\"@b.example", "ann@example.org"];

/// The next step. A message is named by its index among the existing ones.
#[derive(Debug, Clone)]
enum Step {
    Begin { sender: usize, hour: i64, recipients: Vec<usize> },
    Submit { message: usize, refused: Vec<usize> },
    Fail { message: usize, with_reply: bool, refused: Vec<usize> },
    Report { message: usize, recipient: usize, outcome: Outcome, evidence: Evidence },
    RollUp(RollUpSize),
    RollUpTwice(RollUpSize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = || (1_usize..12, 1_usize..6).prop_map(|(changes, groups)| RollUpSize { changes, groups });
    let some = || prop::collection::vec(0..RECIPIENTS.len(), 0..3);
    let evidence = prop_oneof![2 => Just(Evidence::MailServer), 1 => Just(Evidence::ReturnedMail)];
    let outcome = prop::sample::select(vec![Outcome::Sent, Outcome::Deferred, Outcome::Bounced, Outcome::Expired]);
    let begin = (0..SENDERS.len(), 0_i64..80, prop::collection::vec(0..RECIPIENTS.len(), 1..5));
    let report = (0_usize..50, 0..RECIPIENTS.len(), outcome, evidence);
    let step = prop_oneof![
        3 => begin.prop_map(|(sender, hour, recipients)| Step::Begin { sender, hour, recipients }),
        3 => (0_usize..50, some()).prop_map(|(message, refused)| Step::Submit { message, refused }),
        1 => (0_usize..50, any::<bool>(), some())
            .prop_map(|(message, with_reply, refused)| Step::Fail { message, with_reply, refused }),
        6 => report
            .prop_map(|(message, recipient, outcome, evidence)| Step::Report { message, recipient, outcome, evidence }),
        2 => size().prop_map(Step::RollUp),
        1 => size().prop_map(Step::RollUpTwice),
    ];
    prop::collection::vec(step, 0..60)
}

/// A store, and the state that the test expects.
struct Model {
    store: Store,
    messages: Vec<NewSent>,
    /// Recipients rejected at submission, by message.
    refused: BTreeSet<(usize, EmailAddress)>,
    place: u64,
}

fn reply() -> Reply {
    Reply { code: 550, enhanced: None, text: "no".to_owned() }
}

impl Model {
    async fn take(&mut self, step: &Step) {
        let stats = self.store.stats();
        match step {
            Step::Begin { sender, hour, recipients } => self.begin(*sender, *hour, recipients).await,
            Step::RollUp(size) => drop(stats.roll_up_once(*size).await.unwrap()),
            Step::RollUpTwice(size) => {
                let (one, two) = tokio::join!(stats.roll_up_once(*size), stats.roll_up_once(*size));
                assert!(one.is_ok() && two.is_ok());
            }
            _ if self.messages.is_empty() => {}
            Step::Submit { message, refused } => self.submit(message % self.messages.len(), refused).await,
            Step::Fail { message, with_reply, refused } => {
                self.fail(message % self.messages.len(), *with_reply, refused).await;
            }
            Step::Report { message, recipient, outcome, evidence } => {
                let number = u64::try_from(message % self.messages.len()).unwrap();
                let event = event(number, RECIPIENTS[*recipient], *outcome, 10);
                self.report(DeliveryEvent { evidence: *evidence, ..event }).await;
            }
        }
    }

    async fn begin(&mut self, sender: usize, hour: i64, recipients: &[usize]) {
        let recipients: Vec<&str> = recipients.iter().map(|place| RECIPIENTS[*place]).collect();
        let number = u64::try_from(self.messages.len()).unwrap();
        let created_at = at(hour * 3600);
        let message = NewSent { from: email(SENDERS[sender]), created_at, ..new_sent(number, &recipients) };
        self.store.sent().begin(&message).await.unwrap();
        self.messages.push(message);
    }

    async fn states(&self, message: usize) -> Vec<(EmailAddress, RecipientStatus)> {
        let record = self.store.sent().get(self.messages[message].message_id).await.unwrap().unwrap();
        record.recipients.into_iter().map(|recipient| (recipient.email, recipient.status)).collect()
    }

    async fn submit(&mut self, message: usize, refused: &[usize]) {
        let before = self.states(message).await;
        let refused: Vec<_> = refused.iter().map(|place| (email(RECIPIENTS[*place]), reply())).collect();
        let id = self.messages[message].message_id;
        self.store.sent().submitted(id, &QueueId("Q".to_owned()), at(1), &refused).await.unwrap();
        self.note_refused(message, before, |state, address| {
            state.is_open() && refused.iter().any(|(refused, _)| refused == address)
        });
    }

    async fn fail(&mut self, message: usize, with_reply: bool, refused: &[usize]) {
        let before = self.states(message).await;
        let refused: Vec<_> = refused.iter().map(|place| (email(RECIPIENTS[*place]), reply())).collect();
        let reply = with_reply.then(reply);
        let failure = Failure { reason: "no", reply: reply.as_ref(), refused: &refused };
        let id = self.messages[message].message_id;
        match self.store.sent().failed(id, at(2), failure).await {
            Ok(()) => self.note_refused(message, before, |state, address| {
                let by_name = state.is_open() && refused.iter().any(|(refused, _)| refused == address);
                by_name || (with_reply && state == RecipientStatus::Pending)
            }),
            Err(error) => assert!(matches!(error, StoreError::Guard { .. }), "a submitted message cannot fail"),
        }
    }

    fn note_refused(
        &mut self,
        message: usize,
        before: Vec<(EmailAddress, RecipientStatus)>,
        is_refused: impl Fn(RecipientStatus, &EmailAddress) -> bool,
    ) {
        let refused = before.into_iter().filter(|(address, state)| is_refused(*state, address));
        self.refused.extend(refused.map(|(address, _)| (message, address)));
    }

    async fn report(&mut self, event: DeliveryEvent) {
        let from = if self.place == 0 { String::new() } else { self.place.to_string() };
        self.place += 1;
        let to = cursor(&self.place.to_string());
        self.store.delivery_log().append("feed", &[event], &cursor(&from), &to).await.unwrap();
    }

    /// Counts every recipient of `scope` one by one, by the message's time and the recipient's domain.
    async fn recount(&self, scope: &SentScope) -> Vec<(Timestamp, DomainName, SentCounts)> {
        let mut counted = Vec::new();
        for (place, message) in self.messages.iter().enumerate() {
            let is_in = match scope {
                SentScope::All => true,
                SentScope::Domain(domain) => message.from.domain() == *domain,
                SentScope::Address(address) => message.from == *address,
            };
            let states = if is_in { self.states(place).await } else { Vec::new() };
            for (address, state) in states {
                let refused = self.refused.contains(&(place, address.clone()));
                counted.push((message.created_at, address.domain(), as_counted(state, refused)));
            }
        }
        counted
    }

    async fn check(&self, scope: SentScope, hours: Hours) {
        let (stats, scopes) = (self.store.stats(), [scope.clone()]);
        let is_in = |at: Timestamp| hours.each(Span::Hour).any(|hour| hour == Span::Hour.begin_of(at));
        let counted: Vec<_> =
            self.recount(&scope).await.into_iter().filter(|(at, _, counts)| is_in(*at) && *counts != NONE).collect();
        for span in [Span::Hour, Span::Day] {
            let recounted = group(counted.iter().map(|(at, _, counts)| (span.begin_of(*at), *counts)));
            assert_eq!(stats.sent_by_time(&scopes, hours, span).await.unwrap(), recounted);
        }
        let recounted = group(counted.iter().map(|(_, domain, counts)| (domain.clone(), *counts)));
        let by_domain = stats.sent_to_domains(&scopes, hours, 100).await.unwrap();
        assert!(by_domain.is_sorted_by(|a, b| a.1.sent >= b.1.sent));
        assert_eq!(by_domain.into_iter().collect::<BTreeMap<_, _>>(), recounted);
        if let SentScope::Domain(name) = scope {
            let of_domain = stats.sent_by_domain(std::slice::from_ref(&name), hours).await.unwrap();
            assert_eq!(of_domain, group(counted.iter().map(|(_, _, counts)| (name.clone(), *counts))));
        }
    }
}

const NONE: SentCounts = SentCounts { sent: 0, delivered: 0, bounced: 0, deferred: 0, rejected: 0 };

fn as_counted(state: RecipientStatus, refused: bool) -> SentCounts {
    let is = |wanted| u64::from(!refused && state == wanted);
    let (delivered, bounced) = (is(RecipientStatus::Sent), is(RecipientStatus::Bounced));
    let deferred = is(RecipientStatus::Deferred);
    let sent = is(RecipientStatus::Submitted) + deferred + delivered + bounced;
    SentCounts { sent, delivered, bounced, deferred, rejected: u64::from(refused) }
}

fn group<K: Ord>(counts: impl Iterator<Item = (K, SentCounts)>) -> BTreeMap<K, SentCounts> {
    let mut groups = BTreeMap::new();
    for (key, counts) in counts {
        groups.entry(key).or_insert(NONE).add(counts);
    }
    groups
}

async fn play(store: Store, steps: &[Step], period: Hours) {
    let mut model = Model { store, messages: Vec::new(), refused: BTreeSet::new(), place: 0 };
    for step in steps {
        model.take(step).await;
    }
    while model.store.stats().roll_up_once(RollUpSize { changes: 9, groups: 9 }).await.unwrap().more {}
    let mut scopes =
        vec![SentScope::All, SentScope::Domain(domain("example.org")), SentScope::Domain(domain("x.example"))];
    scopes.extend(SENDERS.iter().map(|sender| SentScope::Address(email(sender))));
    for scope in scopes {
        model.check(scope.clone(), period).await;
        model.check(scope, Hours::around(at(-86_400), at(10 * 86_400))).await;
    }
}

#[test]
fn the_counts_are_those_of_a_recount() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Creating a database costs more on PostgreSQL.
    for (cases, is_sqlite) in [(64, true), (16, false)] {
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        let periods = (-2_i64..80, 0_i64..80)
            .prop_map(|(start, length)| Hours::around(at(start * 3600), at((start + length) * 3600)));
        let outcome = runner.run(&(steps(), periods), |(steps, period)| {
            runtime.block_on(async {
                let engine = if is_sqlite { Engine::sqlite().await } else { Engine::postgres().await };
                play(engine.store.clone(), &steps, period).await;
                engine.store.close().await;
            });
            Ok(())
        });
        outcome.unwrap();
    }
}
