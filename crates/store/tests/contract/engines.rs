//! The engines, and the fixtures of the stories.

use std::fmt::Debug;
use std::path::Path;
use std::str::FromStr;

use mailapi_model::{
    DkimAlgorithm, DkimKey, DomainName, EmailAddress, Entropy, MessageId, NewAccount, NewDomain, Page, Secret,
    Timestamp,
};
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_store::{Idempotency, NewSent, Store};
use mailapi_testkit::{PostgresDatabase, PostgresServer};
use rusqlite::types::ValueRef;
use tempfile::TempDir;

const SQLITE_FILE: &str = "mailapi.db";

/// Runs a story on a fresh store of each engine.
pub(crate) async fn on_every_engine(story: impl AsyncFn(&Store)) {
    for engine in [Engine::sqlite().await, Engine::postgres().await] {
        story(&engine.store).await;
        engine.store.close().await;
    }
}

/// A fresh store.
pub(crate) struct Engine {
    pub(crate) store: Store,
    home: Home,
}

/// The location of its data, which is deleted with it.
enum Home {
    Folder(TempDir),
    Server(PostgresDatabase),
}

impl Engine {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(&folder.path().join(SQLITE_FILE), SqliteSettings::default()).unwrap();
        let store = Store::on_sqlite(engine);
        store.migrate(at(0)).await.unwrap();
        Self { store, home: Home::Folder(folder) }
    }

    pub(crate) async fn postgres() -> Self {
        let database = PostgresServer::shared().database().await;
        let store = Store::on_postgres(database.open().await);
        assert_eq!(store.migrate(at(0)).await, Ok(0), "the database is a copy of a migrated one");
        Self { store, home: Home::Server(database) }
    }

    /// Queries the database directly, as a mail server does. Returns one line for each row, with columns
    /// separated by `|`.
    pub(crate) fn sql(&self, sql: &str) -> String {
        match &self.home {
            Home::Folder(folder) => sqlite_rows(&folder.path().join(SQLITE_FILE), sql),
            Home::Server(database) => database.sql(sql),
        }
    }
}

fn sqlite_rows(file: &Path, sql: &str) -> String {
    let connection = rusqlite::Connection::open(file).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let width = statement.column_count();
    let rows = statement.query_map([], |row| {
        let columns = (0..width).map(|column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => String::new(),
                ValueRef::Integer(value) => value.to_string(),
                other => other.as_str()?.to_owned(),
            })
        });
        Ok(columns.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
    });
    rows.unwrap().collect::<rusqlite::Result<Vec<_>>>().unwrap().join("\n")
}

/// Returns the time this many seconds after the start of the story.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(1_763_633_730 + seconds)
}

pub(crate) fn parse<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn email(text: &str) -> EmailAddress {
    parse(text)
}

pub(crate) fn domain(text: &str) -> DomainName {
    parse(text)
}

pub(crate) fn page(limit: u32, offset: u64) -> Page {
    Page::new(limit, offset)
}

/// Fills buffers with the digits of a number, so that each number gives another id.
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

pub(crate) fn new_domain(name: &str, created: i64) -> NewDomain {
    NewDomain { name: domain(name), active: true, description: None, creator_email: None, created_at: at(created) }
}

pub(crate) fn dkim_key(selector: &str) -> DkimKey {
    DkimKey {
        selector: selector.to_owned(),
        algorithm: DkimAlgorithm::Rsa2048,
        private_key: Secret::new(b"private".to_vec()),
        public_key: "MIIB".to_owned(),
        created_at: at(0),
    }
}

pub(crate) fn new_account(address: &str, created: i64) -> NewAccount {
    NewAccount {
        email: email(address),
        name: format!("Name of {}", email(address).local()),
        password_hash: Secret::new("{SHA512-CRYPT}$6$salt$hash".to_owned()),
        quota_bytes: None,
        created_at: at(created),
    }
}

pub(crate) async fn add_account(store: &Store, address: &str, created: i64) {
    let domain = email(address).domain();
    if store.domains().get(&domain).await.unwrap().is_none() {
        store.domains().insert(&new_domain(domain.as_str(), created), None).await.unwrap();
    }
    store.accounts().insert(&new_account(address, created)).await.unwrap();
}

/// Returns a message from ann@example.org to these recipients, with an id made from the number.
pub(crate) fn new_sent(number: u64, recipients: &[&str]) -> NewSent {
    let to: Vec<EmailAddress> = recipients.iter().map(|address| email(address)).collect();
    NewSent {
        message_id: message_id(number),
        token_id: None,
        mailbox: Some(email("ann@example.org")),
        from: email("ann@example.org"),
        recipients: to.iter().map(|address| (address.clone(), mailapi_model::RecipientKind::To)).collect(),
        recipient_count: to.len(),
        to,
        subject: format!("Message {number}"),
        created_at: at(i64::try_from(number).unwrap()),
        idempotency: None,
        node: None,
        size: None,
    }
}

pub(crate) fn named_request(key: &str, body: &str) -> Idempotency {
    Idempotency {
        token_id: mailapi_model::TokenId(1),
        key: key.to_owned(),
        body_hash: body.as_bytes().to_vec(),
        expires_at: at(86_400),
    }
}
