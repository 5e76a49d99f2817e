//! External user databases on either engine, and local copies of their mailboxes on either engine.

use std::time::Duration;

use mailapi_model::{NewAccount, Secret};
use mailapi_store::{AccountFilter, Directory, DirectoryMailbox, DirectoryPlace, DirectorySettings, Store, StoreError};
use mailapi_testkit::{ForeignSchema, ForeignUsers};

use crate::engines::{at, domain, email, new_account, on_every_engine, page};

fn open(users: &ForeignUsers, schema: &ForeignSchema, page: usize) -> Directory {
    let settings = DirectorySettings { page, ..DirectorySettings::default() };
    users.directory(schema.password, schema.mailboxes, settings)
}

async fn everything(directory: &Directory) -> (Vec<String>, usize) {
    let (mut addresses, mut odd_rows, mut next) = (Vec::new(), 0, Some(DirectoryPlace::default()));
    while let Some(place) = next {
        let page = directory.mailboxes(&place).await.unwrap();
        addresses.extend(page.mailboxes.into_iter().map(|mailbox| mailbox.email.to_string()));
        odd_rows += page.odd_rows;
        next = page.next;
    }
    addresses.sort();
    (addresses, odd_rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_query_and_a_changing_query_fail() {
    let schema = ForeignSchema::VIRTUAL_USERS;
    for users in ForeignUsers::on_each_engine(&schema).await {
        let directory = users.directory(
            "SELECT secret FROM nobody WHERE email = $1",
            "SELECT email FROM virtual_users",
            Default::default(),
        );
        assert!(matches!(directory.password(&email("ann@example.org")).await, Err(StoreError::Unexpected(_))));
        assert!(matches!(directory.mailboxes(&DirectoryPlace::default()).await, Err(StoreError::Unexpected(_))));
        let changing = "WITH gone AS (SELECT $1) SELECT password FROM virtual_users, gone";
        assert_eq!(
            users.directory(changing, schema.mailboxes, Default::default()).password(&email("a@b.org")).await,
            Ok(None)
        );
    }
    // Only PostgreSQL can hide a change in a query.
    let users = ForeignUsers::on_postgres(&schema).await;
    users.sql("INSERT INTO virtual_users VALUES (1, 'ann@example.org', 'x')").await;
    let hidden =
        "WITH gone AS (DELETE FROM virtual_users WHERE email = $1 RETURNING password) SELECT password FROM gone";
    let directory = users.directory(hidden, schema.mailboxes, Default::default());
    assert!(directory.password(&email("ann@example.org")).await.is_err());
    assert_eq!(everything(&directory).await.0, ["ann@example.org"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_query_is_cancelled_and_no_file_is_created() {
    let schema = ForeignSchema::VIRTUAL_USERS;
    let settings = DirectorySettings { statement_timeout: Duration::from_secs(1), ..Default::default() };
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   SELECT CAST(MAX(i) AS TEXT) FROM n WHERE $1 <> ''";
    for users in ForeignUsers::on_each_engine(&schema).await {
        let directory = users.directory(endless, schema.mailboxes, settings.clone());
        let error = directory.password(&email("ann@example.org")).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(directory.ping().await.unwrap_err().is_unavailable(), "no login works");
        let other = directory.mailbox(&email("ann@example.org")).await;
        assert!(other.is_ok(), "the next one gets its connection: {other:?}");
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("users.db");
    let queries = mailapi_store::DirectoryQueries::new(schema.password, schema.mailboxes).unwrap();
    assert!(Directory::on_sqlite(&file, queries, settings).ping().await.unwrap_err().is_unavailable());
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_and_mailboxes_of_postfixadmin_are_read() {
    let schema = ForeignSchema::POSTFIXADMIN;
    for users in ForeignUsers::on_each_engine(&schema).await {
        users
            .sql(
                "INSERT INTO mailbox (username, password, name, quota, active) VALUES \
                 ('ann@example.org', '{SSHA512}x', 'Ann', 1024, TRUE), ('bob@example.org', '$6$y', 'Bob', 0, FALSE), \
                 ('@example.org', '', '', 0, TRUE), ('eve@example.net', '$6$z', 'Eve', 0, TRUE)",
            )
            .await;
        let directory = open(&users, &schema, 2);
        let password = async |of: &str| {
            let found = directory.password(&email(of)).await.unwrap();
            found.map(|hash| hash.expose().clone())
        };
        assert_eq!(password("ann@example.org").await.as_deref(), Some("{SSHA512}x"));
        assert_eq!(password("bob@example.org").await, None, "an inactive user has no password");
        assert_eq!(password("eve@example.net").await.as_deref(), Some("{CRYPT}$6$z"));
        assert_eq!(password("o'neil@example.net").await, None);
        let ann = directory.mailbox(&email("ann@example.org")).await.unwrap().unwrap();
        assert_eq!((ann.name.as_str(), ann.active, ann.quota_bytes), ("Ann", true, Some(1024)));
        assert!(!directory.mailbox(&email("bob@example.org")).await.unwrap().unwrap().active);
        assert_eq!(directory.mailbox(&email("nobody@example.org")).await, Ok(None));
        let all = ["ann@example.org", "bob@example.org", "eve@example.net"].map(str::to_owned).to_vec();
        for size in [1, 2, 100] {
            assert_eq!(everything(&open(&users, &schema, size)).await, (all.clone(), 1), "pages of {size}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_table_and_columns_of_kindred_types_do_as_well() {
    let schema = ForeignSchema::VIRTUAL_USERS;
    for users in ForeignUsers::on_each_engine(&schema).await {
        users.sql("INSERT INTO virtual_users VALUES (1, 'ann@example.org', '$6$x')").await;
        let directory = open(&users, &schema, 10);
        let ann = directory.mailbox(&email("ann@example.org")).await.unwrap().unwrap();
        assert_eq!((ann.name.as_str(), ann.active, ann.quota_bytes), ("", true, None));
    }
    let users = ForeignUsers::on_postgres(&schema).await;
    users.sql("CREATE TABLE people (email CHAR(20), password NAME, active INTEGER, quota NUMERIC)").await;
    users.sql("INSERT INTO people VALUES ('ann@example.org', '$6$x', 1, 2048)").await;
    let directory = users.directory(
        "SELECT password FROM people WHERE email = $1",
        "SELECT TRIM(email) AS email, '' AS name, active, quota AS quota_bytes FROM people",
        DirectorySettings::default(),
    );
    assert!(directory.password(&email("ann@example.org")).await.unwrap().is_some());
    let ann = directory.mailbox(&email("ann@example.org")).await.unwrap().unwrap();
    assert_eq!((ann.active, ann.quota_bytes), (true, Some(2048)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_one_replaces_is_not_read_any_longer() {
    let schema = ForeignSchema::VIRTUAL_USERS;
    let place = tempfile::tempdir().unwrap();
    let (file, next) = (place.path().join("users.db"), place.path().join("next.db"));
    let make = |path: &std::path::Path, address: &str| {
        let users = rusqlite::Connection::open(path).unwrap();
        let row = format!("INSERT INTO virtual_users VALUES (1, '{address}', 'x')");
        users.execute_batch(&format!("{}; {row}", schema.tables)).unwrap();
    };
    make(&file, "ann@example.org");
    let queries = mailapi_store::DirectoryQueries::new(schema.password, schema.mailboxes).unwrap();
    let directory = Directory::on_sqlite(&file, queries, DirectorySettings::default());
    assert_eq!(everything(&directory).await.0, ["ann@example.org"]);
    make(&next, "eve@example.org");
    std::fs::rename(&next, &file).unwrap();
    assert_eq!(everything(&directory).await.0, ["eve@example.org"]);
    std::fs::remove_file(&file).unwrap();
    assert!(directory.ping().await.is_err(), "a removed file cannot be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_spellings_of_one_address_are_one_mailbox() {
    let schema = ForeignSchema::VIRTUAL_USERS;
    for users in ForeignUsers::on_each_engine(&schema).await {
        let insert = "INSERT INTO virtual_users VALUES (1, 'Ann@example.org', 'x'), (2, 'ann@example.org', 'y')";
        users.sql(insert).await;
        assert_eq!(everything(&open(&users, &schema, 10)).await, (vec!["ann@example.org".to_owned()], 1));
    }
}

fn mailbox(address: &str, name: &str, active: bool, quota_bytes: Option<u64>) -> DirectoryMailbox {
    DirectoryMailbox { email: email(address), name: name.to_owned(), active, quota_bytes }
}

async fn listed(store: &Store) -> Vec<(String, bool)> {
    let list = store.accounts().list(&AccountFilter::default(), page(50, 0)).await.unwrap();
    let mut all: Vec<_> = list.items.into_iter().map(|account| (account.email.to_string(), account.active)).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_follow_their_mailboxes_and_skip_own_accounts() {
    on_every_engine(async |store| {
        let own = new_account("own@example.org", 0);
        store.domains().insert(&crate::engines::new_domain("example.org", 0), None).await.unwrap();
        store.accounts().insert(&own).await.unwrap();
        let mailboxes = [
            mailbox("own@example.org", "Taken", false, None),
            mailbox("ann@example.org", "Ann", true, Some(1024)),
            mailbox("eve@example.net", "Eve", false, None),
        ];
        let copies = store.copies();
        assert_eq!(copies.keep(&mailboxes, at(1)).await, Ok(2));
        assert_eq!(copies.keep(&mailboxes, at(2)).await, Ok(0), "nothing has changed");
        let expected = [("ann@example.org", true), ("eve@example.net", false), ("own@example.org", true)];
        assert_eq!(listed(store).await, expected.map(|(address, active)| (address.to_owned(), active)));
        assert_eq!(copies.is_copy(&email("own@example.org")).await, Ok(Some(false)));
        assert_eq!(copies.is_copy(&email("ann@example.org")).await, Ok(Some(true)));
        assert_eq!(copies.is_copy(&email("nobody@example.org")).await, Ok(None));
        // Their domains may send, but no DKIM key signs for them yet.
        let net = store.domains().get(&domain("example.net")).await.unwrap().unwrap();
        assert_eq!((net.active, net.dkim_selector), (true, None));
        assert_eq!(
            (copies.any_in(&domain("example.net")).await, copies.any_in(&domain("example.com")).await),
            (Ok(true), Ok(false))
        );

        assert_eq!(copies.keep(&[mailbox("ann@example.org", "Anna", true, None)], at(3)).await, Ok(1));
        let ann = store.accounts().get(&email("ann@example.org")).await.unwrap().unwrap();
        assert_eq!((ann.name.as_str(), ann.quota_bytes, ann.updated_at), ("Anna", None, at(3)));
        let first = copies.after(None, 1).await.unwrap();
        assert_eq!((first[0].email.as_str(), first[0].active, first[0].gone_since), ("ann@example.org", true, None));
        for time in [at(4), at(5)] {
            for gone in ["ann@example.org", "eve@example.net", "own@example.org"] {
                copies.note_gone(&email(gone), time).await.unwrap();
            }
        }
        let rest = copies.after(Some(&email("a@example.org")), 10).await.unwrap();
        let rest: Vec<_> = rest.iter().map(|copy| (copy.active, copy.gone_since)).collect();
        assert_eq!(
            rest,
            [(false, Some(at(4))); 2],
            "the first time counts, also for mailboxes that were disabled before"
        );
        // A mailbox that exists again is no longer missing, even if nothing else changed.
        assert_eq!(copies.keep(&[mailbox("eve@example.net", "Eve", false, None)], at(6)).await, Ok(1));
        let eve = copies.after(Some(&email("b@example.org")), 1).await.unwrap();
        assert_eq!((eve[0].active, eve[0].gone_since), (false, None));
        assert!(store.accounts().get(&email("own@example.org")).await.unwrap().unwrap().active);
        // No password matches the stored placeholder.
        let kept = store.accounts().credentials(&email("ann@example.org")).await.unwrap().unwrap();
        assert_eq!(kept.password_hash.expose(), "{CRYPT}!");
        let NewAccount { password_hash, .. } = own;
        assert_ne!(password_hash, Secret::new("{CRYPT}!".to_owned()));
        // With its own password hash, it is no longer a copy.
        store.accounts().set_password_hash(&email("ann@example.org"), &password_hash, at(7)).await.unwrap();
        assert_eq!(copies.is_copy(&email("ann@example.org")).await, Ok(Some(false)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_secret_is_made_once() {
    on_every_engine(async |store| {
        let first = store.secrets().get_or_keep("key", Secret::new(vec![1, 0, 255])).await.unwrap();
        let second = store.secrets().get_or_keep("key", Secret::new(vec![2])).await.unwrap();
        assert_eq!((first.expose(), second.expose()), (&vec![1, 0, 255], &vec![1, 0, 255]));
        assert_eq!(store.secrets().get_or_keep("other", Secret::new(vec![3])).await.unwrap().expose(), &vec![3]);
    })
    .await;
}
