//! Fixtures of the stories.

use std::fmt::Debug;
use std::future::Future;
use std::str::FromStr;
use std::task::Poll;

use mailapi_model::{
    DeliveryEvent, EmailAddress, Entropy, Evidence, FeedCursor, MessageId, NewAccount, NewDomain, NewToken, Outcome,
    QueueId, RecipientKind, Secret, Timestamp, TokenKind, TokenValue,
};
use mailapi_store::{NewSent, Store};
use mailapi_testkit::{PostgresDatabase, PostgresServer};

pub(crate) async fn database() -> PostgresDatabase {
    PostgresServer::shared().database().await
}

pub(crate) async fn node(database: &PostgresDatabase) -> Store {
    Store::on_postgres(database.open().await)
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(1_763_633_730 + seconds)
}

pub(crate) fn parse<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn new_domain(name: &str) -> NewDomain {
    NewDomain { name: parse(name), active: true, description: None, creator_email: None, created_at: at(0) }
}

pub(crate) async fn add_account(store: &Store, email: &str) {
    let email: EmailAddress = parse(email);
    store.domains().insert(&new_domain(email.domain_str()), None).await.unwrap();
    let account = NewAccount {
        email,
        name: String::new(),
        password_hash: Secret::new("{SHA512-CRYPT}$6$salt$hash".to_owned()),
        quota_bytes: None,
        created_at: at(0),
    };
    store.accounts().insert(&account).await.unwrap();
}

pub(crate) fn admin_token(number: u8) -> NewToken {
    let value = TokenValue::from_caller(&format!("mapi_{number}"));
    NewToken {
        hash: value.hash(),
        prefix: value.prefix(),
        kind: TokenKind::Admin,
        email: None,
        name: format!("admin {number}"),
        is_session: false,
        created_at: at(0),
        expires_at: None,
    }
}

struct Numbered(u64);
impl Entropy for Numbered {
    fn fill(&self, buffer: &mut [u8]) {
        for (byte, digit) in buffer.iter_mut().zip(self.0.to_be_bytes().iter().cycle()) {
            *byte = *digit;
        }
    }
}

pub(crate) fn message_id(number: u64) -> MessageId {
    MessageId::random(Timestamp::from_millis(0), &Numbered(number))
}

pub(crate) const BOB: &str = "bob@example.net";

pub(crate) fn new_sent(number: u64) -> NewSent {
    NewSent {
        message_id: message_id(number),
        token_id: None,
        mailbox: None,
        from: parse("ann@example.org"),
        to: vec![parse(BOB)],
        subject: String::new(),
        recipients: vec![(parse(BOB), RecipientKind::To)],
        recipient_count: 1,
        created_at: at(0),
        idempotency: None,
        node: None,
        size: None,
    }
}

pub(crate) fn event(number: u64, outcome: Outcome) -> DeliveryEvent {
    DeliveryEvent {
        at: at(1),
        message_id: Some(message_id(number)),
        queue_id: QueueId(format!("Q{number}")),
        sender: None,
        recipient: parse(BOB),
        final_recipient: None,
        outcome,
        evidence: Evidence::MailServer,
        dsn: None,
        response: String::new(),
        relay: None,
        delay: std::time::Duration::ZERO,
        next_attempt_at: None,
    }
}

pub(crate) fn cursor(text: &str) -> FeedCursor {
    FeedCursor(text.to_owned())
}

/// Starts the work without waiting for its end; returns whether it was left unfinished. A fast server may
/// finish first.
pub(crate) async fn begin_and_leave<T>(work: impl Future<Output = T>) -> bool {
    let mut work = Box::pin(work);
    std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_pending())).await
}
