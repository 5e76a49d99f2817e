//! Property test: the status rules of the model and of the SQL agree for any sequence of events.

use mailapi_events::EventType;
use mailapi_model::{
    DeliveryEvent, EmailAddress, Evidence, FeedCursor, Outcome, QueueId, RecipientStatus, Reply, Scope, SentRecipient,
    overall,
};
use mailapi_store::{SentRecord, Store, StoredEvent};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::delivery_log::{cursor, event};
use crate::engines::{Engine, at, email, message_id, new_sent};

const RECIPIENTS: [&str; 3] = ["one@example.net", "two@example.net", "three@example.net"];
const REFUSED: &str = "refused@example.net";

/// The events of one message.
#[derive(Debug, Clone)]
struct Story {
    events: Vec<(usize, Outcome, Evidence, Scope)>,
    /// Number of events before the end of the submission is stored; never, if greater than the number of
    /// events.
    submitted_after: usize,
    refusal: Option<Outcome>,
    /// Number of events per append.
    batch: usize,
}

fn stories() -> impl Strategy<Value = Story> {
    let evidence = prop_oneof![3 => Just(Evidence::MailServer), 1 => Just(Evidence::ReturnedMail)];
    let outcome = prop::sample::select(Outcome::ALL.to_vec());
    let scope = prop_oneof![2 => Just(Scope::Recipient), 1 => Just(Scope::Member)];
    let events = prop::collection::vec((0..RECIPIENTS.len(), outcome, evidence, scope), 0..10);
    let refusal = prop::option::of(prop::sample::select(vec![Outcome::Bounced, Outcome::Failed]));
    (events, 0_usize..12, refusal, 1_usize..4).prop_map(|(events, submitted_after, refusal, batch)| Story {
        events,
        submitted_after,
        refusal,
        batch,
    })
}

impl Story {
    fn was_submitted(&self) -> bool {
        self.submitted_after <= self.events.len()
    }

    /// Returns the statuses according to the model.
    fn by_the_model(&self) -> Vec<RecipientStatus> {
        let mut states = vec![RecipientStatus::Pending; RECIPIENTS.len() + usize::from(self.refusal.is_some())];
        for step in 0..=self.events.len() {
            if step == self.submitted_after {
                for state in states.iter_mut().filter(|state| **state == RecipientStatus::Pending) {
                    *state = RecipientStatus::Submitted;
                }
                if let Some(refusal) = self.refusal {
                    let state = &mut states[RECIPIENTS.len()];
                    *state = state.after(refusal, Evidence::MailServer, Scope::Recipient);
                }
            }
            if let Some((who, outcome, evidence, scope)) = self.events.get(step) {
                states[*who] = states[*who].after(*outcome, *evidence, *scope);
            }
        }
        states
    }
}

/// Plays stories on one store, each with its own message.
struct Player {
    store: Store,
    last_message: u64,
    place: u64,
}

impl Player {
    fn next_cursor(&mut self) -> (FeedCursor, FeedCursor) {
        self.place += 1;
        let from = if self.place == 1 { String::new() } else { (self.place - 1).to_string() };
        (cursor(&from), cursor(&self.place.to_string()))
    }

    async fn begin(&mut self, story: &Story) -> u64 {
        self.last_message += 1;
        let mut recipients = RECIPIENTS.to_vec();
        recipients.extend(story.refusal.map(|_| REFUSED));
        self.store.sent().begin(&new_sent(self.last_message, &recipients)).await.unwrap();
        self.last_message
    }

    async fn submit(&self, number: u64, story: &Story) {
        let reply = |outcome| {
            let code = if outcome == Outcome::Failed { 450 } else { 550 };
            Reply { code, enhanced: None, text: "no".to_owned() }
        };
        let refused: Vec<(EmailAddress, Reply)> =
            story.refusal.map(|outcome| (email(REFUSED), reply(outcome))).into_iter().collect();
        self.store.sent().submitted(message_id(number), &QueueId("Q".to_owned()), at(1), &refused).await.unwrap();
    }

    async fn append(&mut self, number: u64, story: &Story, range: std::ops::Range<usize>) {
        let events: Vec<DeliveryEvent> = range
            .map(|step| {
                let (who, outcome, evidence, scope) = story.events[step];
                let seconds = 10 + i64::try_from(step).unwrap();
                let final_recipient = (scope == Scope::Member).then(|| email("member@example.net"));
                DeliveryEvent { evidence, final_recipient, ..event(number, RECIPIENTS[who], outcome, seconds) }
            })
            .collect();
        for batch in events.chunks(story.batch) {
            let (from, to) = self.next_cursor();
            self.store.delivery_log().append("feed", batch, &from, &to).await.unwrap();
        }
    }

    /// Plays the story in its own order.
    async fn play(&mut self, story: &Story) -> SentRecord {
        let number = self.begin(story).await;
        let early = story.submitted_after.min(story.events.len());
        self.append(number, story, 0..early).await;
        if story.was_submitted() {
            self.submit(number, story).await;
        }
        self.append(number, story, early..story.events.len()).await;
        self.store.sent().get(message_id(number)).await.unwrap().unwrap()
    }

    /// Returns the statuses and the attempts that follow from the log of events alone, in the order of the recipients.
    async fn by_events(&self, record: &SentRecord) -> Vec<(RecipientStatus, u32)> {
        self.store.events().number_new().await.unwrap();
        let events = self.store.events().of_message(record.message.message_id, 100).await.unwrap();
        let is_accepted = |event: &&StoredEvent| event.event_type == EventType::MessageAccepted;
        let was_submitted = record.message.submitted_at.is_some();
        // A report proves that the mail server has the message, even before the end of its submission is stored.
        assert_eq!(events.iter().filter(is_accepted).count(), usize::from(was_submitted || !events.is_empty()));
        assert!(events.first().is_none_or(|first| is_accepted(&first)), "the first event is the submission");
        let initial = if was_submitted { RecipientStatus::Submitted } else { RecipientStatus::Pending };
        let of = |recipient: &SentRecipient| {
            let own = events.iter().filter(|event| recipient_of(event).as_deref() == Some(recipient.email.as_str()));
            let types: Vec<_> = own.map(|event| event.event_type).collect();
            let count = |wanted| types.iter().filter(|event_type| **event_type == wanted).count();
            assert!(count(EventType::MessageDelivered) <= 1 && count(EventType::MessageBounced) <= 1, "{types:?}");
            let status = match types.last() {
                None => initial,
                Some(EventType::MessageDelivered) => RecipientStatus::Sent,
                Some(EventType::MessageDeferred) => RecipientStatus::Deferred,
                Some(EventType::MessageBounced) => RecipientStatus::Bounced,
                Some(EventType::MessageFailed) => RecipientStatus::Failed,
                Some(other) => panic!("{other}"),
            };
            (status, u32::try_from(count(EventType::MessageDeferred)).unwrap())
        };
        record.recipients.iter().map(of).collect()
    }

    /// Plays the story as if the end of the submission had been stored before all events.
    async fn play_submission_first(&mut self, story: &Story) -> SentRecord {
        let number = self.begin(story).await;
        self.submit(number, story).await;
        self.append(number, story, 0..story.events.len()).await;
        self.store.sent().get(message_id(number)).await.unwrap().unwrap()
    }
}

/// Returns the recipient that the event is about.
fn recipient_of(event: &StoredEvent) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(&event.body).unwrap();
    body["data"]["recipient"]["email"].as_str().map(str::to_owned)
}

#[test]
fn the_store_and_the_model_agree_on_every_story() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let engines = runtime.block_on(async { [(256, Engine::sqlite().await), (64, Engine::postgres().await)] });
    for (cases, engine) in engines {
        let player = std::cell::RefCell::new(Player { store: engine.store.clone(), last_message: 0, place: 0 });
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&stories(), |story| {
            let mut player = player.borrow_mut();
            let record = runtime.block_on(player.play(&story));
            let states: Vec<_> = record.recipients.iter().map(|recipient| recipient.status).collect();
            prop_assert_eq!(&states, &story.by_the_model());
            prop_assert_eq!(record.message.status, overall(&states));
            let stored: Vec<_> = record.recipients.iter().map(|one| (one.status, one.attempts)).collect();
            prop_assert_eq!(runtime.block_on(player.by_events(&record)), stored);
            if story.was_submitted() {
                let first = runtime.block_on(player.play_submission_first(&story));
                prop_assert_eq!(&record.recipients, &first.recipients);
                prop_assert_eq!(record.message.status, first.message.status);
                prop_assert_eq!(record.message.submitted_at, first.message.submitted_at);
            }
            Ok(())
        });
        outcome.unwrap();
        runtime.block_on(engine.store.close());
    }
}
