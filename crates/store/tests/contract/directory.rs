//! External user databases on either engine, and local copies of their mailboxes on either engine.

use std::time::Duration;

use mailapi_model::{NewAccount, Secret};
use mailapi_store::{
    AccountFilter, Directory, DirectoryMailbox, DirectoryPage, DirectoryPlace, DirectoryQuota, DirectorySettings,
    RowFault, RowFaultKind, Store, StoreError,
};
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
        odd_rows += page.faults.len();
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
        assert_eq!((ann.name.as_deref(), ann.active, ann.quota), (Some("Ann"), true, DirectoryQuota::Bytes(1024)));
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
        assert_eq!((ann.name.as_deref(), ann.active, ann.quota), (Some(""), true, DirectoryQuota::Unlimited));
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
    assert_eq!((ann.active, ann.quota), (true, DirectoryQuota::Bytes(2048)));
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

/// The two queries that `docs/operating.md` prints for a product.
fn printed_queries(product: &str) -> (&'static str, &'static str) {
    let page = include_str!("../../../../docs/operating.md");
    let (_, block) = page.split_once(&format!("For **{product}**")).expect("a block for the product");
    let value = |name: &str| {
        let (_, rest) = block.split_once(&format!("{name} = ")).expect("a query");
        match rest.strip_prefix("\"\"\"") {
            Some(long) => long.split_once("\"\"\"").expect("its end").0,
            None => rest[1..].split_once('"').expect("its end").0,
        }
    };
    (value("password_query"), value("mailbox_query"))
}

/// A product's tables with ann, who may log in, bob, who may not, and eve, whose domain is switched off.
async fn log_ins_as_printed(product: &str, users: &ForeignUsers, quota: DirectoryQuota) {
    let (password, mailboxes) = printed_queries(product);
    let directory = users.directory(password, mailboxes, DirectorySettings::default());
    directory.ping().await.unwrap();
    let page = pages(&directory).await;
    let listed: Vec<_> = page.mailboxes.iter().map(|found| (found.email.as_str(), found.active)).collect();
    let expected = [("ann@example.org", true), ("bob@example.org", false), ("eve@example.net", false)];
    assert_eq!((listed.as_slice(), page.faults.as_slice()), (&expected[..], &[][..]), "{product}");
    assert_eq!((page.mailboxes[0].name.as_deref(), page.mailboxes[0].quota), (Some("Ann A"), quota), "{product}");
    for (address, may_log_in) in expected {
        let found = directory.password(&email(address)).await.unwrap();
        assert_eq!(found.is_some(), may_log_in, "{product}: {address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_queries_let_in_the_right_users() {
    let schema = |tables| ForeignSchema { tables, password: "", mailboxes: "" };
    let postfixadmin = schema(
        "CREATE TABLE domain (domain VARCHAR(255) PRIMARY KEY, active BOOLEAN NOT NULL);
         CREATE TABLE mailbox (username VARCHAR(255) PRIMARY KEY, password VARCHAR(255) NOT NULL, name VARCHAR(255),
             quota BIGINT NOT NULL DEFAULT 0, domain VARCHAR(255) NOT NULL, active BOOLEAN NOT NULL);
         INSERT INTO domain VALUES ('example.org', TRUE), ('example.net', FALSE);
         INSERT INTO mailbox VALUES ('ann@example.org', '$6$x', 'Ann A', 2048000000, 'example.org', TRUE),
             ('bob@example.org', '$6$x', 'Bob', 0, 'example.org', FALSE),
             ('eve@example.net', '$6$x', 'Eve', 0, 'example.net', TRUE);",
    );
    let iredmail = schema(
        "CREATE TABLE domain (domain VARCHAR(255) PRIMARY KEY, backupmx INT2 NOT NULL, active INT2 NOT NULL);
         CREATE TABLE mailbox (username VARCHAR(255) PRIMARY KEY, password VARCHAR(255) NOT NULL, name VARCHAR(255),
             quota INT8 NOT NULL, domain VARCHAR(255) NOT NULL, enableimap INT2 NOT NULL, active INT2 NOT NULL);
         INSERT INTO domain VALUES ('example.org', 0, 1), ('example.net', 1, 1);
         INSERT INTO mailbox VALUES ('ann@example.org', '{SSHA512}x', 'Ann A', 4096, 'example.org', 1, 1),
             ('bob@example.org', '{SSHA512}x', 'Bob', 0, 'example.org', 0, 1),
             ('eve@example.net', '{SSHA512}x', 'Eve', 0, 'example.net', 1, 1);",
    );
    let modoboa = schema(
        "CREATE TABLE core_user (id INTEGER PRIMARY KEY, email VARCHAR(254) NOT NULL, first_name VARCHAR(30) NOT NULL,
             last_name VARCHAR(30) NOT NULL, password VARCHAR(256) NOT NULL, is_active BOOLEAN NOT NULL);
         CREATE TABLE admin_domain (id INTEGER PRIMARY KEY, name VARCHAR(100), enabled BOOLEAN NOT NULL);
         CREATE TABLE admin_mailbox (id INTEGER PRIMARY KEY, user_id INTEGER, domain_id INTEGER, quota INTEGER NOT NULL);
         INSERT INTO core_user VALUES (1, 'admin', '', '', 'x', TRUE),
             (2, 'ann@example.org', 'Ann', 'A', '{SHA512-CRYPT}$6$x', TRUE),
             (3, 'bob@example.org', 'Bob', 'B', 'x', FALSE), (4, 'eve@example.net', 'Eve', 'E', 'x', TRUE);
         INSERT INTO admin_domain VALUES (1, 'example.org', TRUE), (2, 'example.net', FALSE);
         INSERT INTO admin_mailbox VALUES (1, 2, 1, 4096), (2, 3, 1, 0), (3, 4, 2, 0);",
    );
    for users in ForeignUsers::on_each_engine(&postfixadmin).await {
        log_ins_as_printed("postfixadmin", &users, DirectoryQuota::Bytes(2_048_000_000)).await;
    }
    let four_gigabytes = DirectoryQuota::Bytes(4096 * 1_048_576);
    log_ins_as_printed("iRedMail", &ForeignUsers::on_postgres(&iredmail).await, four_gigabytes).await;
    for users in ForeignUsers::on_each_engine(&modoboa).await {
        log_ins_as_printed("Modoboa", &users, four_gigabytes).await;
    }
}

/// Modoboa's tables, as far as the queries need them.
const MODOBOA: ForeignSchema = ForeignSchema {
    tables: "CREATE TABLE core_user (id INTEGER PRIMARY KEY, email VARCHAR(254), password TEXT, is_active INTEGER, \
             flag TEXT); CREATE TABLE admin_mailbox (user_id INTEGER, quota INTEGER)",
    password: "SELECT password FROM core_user WHERE email = $1 AND is_active = 1",
    mailboxes: "",
};

/// Queries with a column that one row makes fail, on each engine; the second names the state of the mailbox.
const FAILING: [[&str; 2]; 2] = [
    // Numbers of SQLite do not overflow.
    ["json('[' || m.quota)", "json('[' || u.flag || ']') <> '[0]'"],
    ["m.quota * 1048576", "u.flag::integer <> 0"],
];

async fn many_with_one_bad_row(users: &ForeignUsers, count: usize) {
    for number in 0..count {
        let row = format!(
            "INSERT INTO core_user VALUES ({number}, 'u{number:03}@example.org', 'x', 1, '1');
             INSERT INTO admin_mailbox VALUES ({number}, NULL);"
        );
        users.sql(&row).await;
    }
}

fn joined(active: &str, quota: &str) -> String {
    format!(
        "SELECT u.email, 'N' AS name, {active} AS active, {quota} AS quota_bytes \
         FROM core_user u JOIN admin_mailbox m ON m.user_id = u.id"
    )
}

async fn pages(directory: &Directory) -> DirectoryPage {
    let (mut all, mut next) = (DirectoryPage::default(), Some(DirectoryPlace::default()));
    while let Some(place) = next {
        let page = directory.mailboxes(&place).await.unwrap();
        all.mailboxes.extend(page.mailboxes);
        all.faults.extend(page.faults);
        next = page.next;
    }
    all.mailboxes.sort_by(|one, other| one.email.cmp(&other.email));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_computed_hides_only_its_own_columns() {
    let engines = ForeignUsers::on_each_engine(&MODOBOA).await;
    for (users, [quota, state]) in engines.iter().zip(FAILING) {
        many_with_one_bad_row(users, 20).await;
        users.sql("UPDATE admin_mailbox SET quota = 2048 WHERE user_id IN (3, 17)").await;
        users.sql("UPDATE core_user SET is_active = 0 WHERE id = 3").await;
        for size in [1, 7, 20, 100] {
            let settings = DirectorySettings { page: size, ..DirectorySettings::default() };
            let directory = users.directory(MODOBOA.password, &joined("u.is_active", quota), settings.clone());
            let all = pages(&directory).await;
            assert_eq!(all.mailboxes.len(), 20, "pages of {size}");
            let unknown: Vec<_> = all.mailboxes.iter().filter(|mailbox| mailbox.name.is_none()).collect();
            let shown: Vec<_> = unknown.iter().map(|mailbox| (mailbox.email.as_str(), mailbox.active)).collect();
            assert_eq!(shown, [("u003@example.org", false), ("u017@example.org", true)], "pages of {size}");
            let mut named: Vec<_> = all.faults.iter().map(|RowFault { row, kind }| (row.as_str(), kind)).collect();
            named.sort_by_key(|(row, _)| *row);
            assert!(
                matches!(
                    named.as_slice(),
                    [("u003@example.org", RowFaultKind::Details(one)), ("u017@example.org", RowFaultKind::Details(_))]
                    if one.to_string().contains("malformed JSON") || one.to_string().contains("integer out of range (22003)")
                ),
                "{named:?}"
            );
            let alone = directory.mailbox(&email("u017@example.org")).await.unwrap().unwrap();
            assert_eq!((alone.active, alone.name, alone.quota), (true, None, DirectoryQuota::Unknown));

            users.sql("UPDATE core_user SET flag = 'odd]secret' WHERE id = 5").await;
            let directory = users.directory(MODOBOA.password, &joined(state, "NULL"), settings);
            let all = pages(&directory).await;
            assert_eq!(all.mailboxes.len(), 19, "pages of {size}");
            let states: Vec<_> =
                all.faults.iter().filter(|fault| matches!(fault.kind, RowFaultKind::State(_))).collect();
            assert_eq!(states.len(), 1);
            assert_eq!(states[0].row, "u005@example.org");
            assert!(!states[0].kind.to_string().contains("secret"), "{}", states[0].kind);
            let alone = directory.mailbox(&email("u005@example.org")).await;
            assert!(matches!(alone, Err(StoreError::Unexpected(_))), "{alone:?}");
            assert!(directory.mailbox(&email("u006@example.org")).await.unwrap().is_some_and(|found| found.active));
            users.sql("UPDATE core_user SET flag = '1'").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_fails_for_all_rows_does_not_run_for_each() {
    let engines = ForeignUsers::on_each_engine(&MODOBOA).await;
    for (users, [quota, _]) in engines.iter().zip(FAILING) {
        many_with_one_bad_row(users, 300).await;
        users.sql("UPDATE admin_mailbox SET quota = 2048").await;
        let settings = DirectorySettings { page: 100, ..DirectorySettings::default() };
        let all = pages(&users.directory(MODOBOA.password, &joined("u.is_active", quota), settings.clone())).await;
        assert_eq!((all.mailboxes.len(), all.faults.len()), (300, 300));
        let broken = users.directory(MODOBOA.password, &joined("u.missing", "NULL"), settings);
        let failed = broken.mailboxes(&DirectoryPlace::default()).await.unwrap_err();
        assert!(failed.to_string().contains("missing"), "{failed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_bytes_is_no_password() {
    let users = ForeignUsers::on_postgres(&ForeignSchema::VIRTUAL_USERS).await;
    let mailboxes = ForeignSchema::VIRTUAL_USERS.mailboxes;
    let query = "SELECT password::bytea FROM virtual_users WHERE email = $1";
    let failed = users.directory(query, mailboxes, Default::default()).ping().await.unwrap_err();
    assert!(failed.to_string().contains("bytea"), "{failed}");
    for query in ["SELECT password FROM virtual_users WHERE email = $1", "SELECT $1", "SELECT 'x'::NAME WHERE $1 <> ''"]
    {
        users.directory(query, mailboxes, Default::default()).ping().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_compare_without_case_are_all_listed() {
    let users = ForeignUsers::on_postgres(&ForeignSchema::VIRTUAL_USERS).await;
    users.sql("CREATE EXTENSION citext; CREATE TABLE people (email CITEXT)").await;
    users.sql("INSERT INTO people VALUES ('Ann@example.org'), ('bob@example.org'), ('CARL@example.org')").await;
    for size in [1, 2, 10] {
        let settings = DirectorySettings { page: size, ..DirectorySettings::default() };
        let mailboxes = "SELECT email, '' AS name, TRUE AS active, 0 AS quota_bytes FROM people";
        let directory = users.directory("SELECT email FROM people WHERE email = $1", mailboxes, settings);
        let all = ["ann", "bob", "carl"].map(|name| format!("{name}@example.org")).to_vec();
        assert_eq!(everything(&directory).await, (all, 0), "pages of {size}");
        let page = directory.mailboxes(&DirectoryPlace::default()).await.unwrap();
        assert!(page.spellings.iter().any(|(spelled, _)| spelled.starts_with('A') || spelled.starts_with('C')));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_keep_what_is_unknown_and_those_with_access_are_found() {
    on_every_engine(async |store| {
        let copies = store.copies();
        let first =
            [mailbox("ann@example.org", "Ann", true, Some(1024)), mailbox("bob@example.org", "Bob", true, None)];
        copies.keep(&first, at(1)).await.unwrap();
        let unknown = |address: &str, active| DirectoryMailbox {
            email: email(address),
            active,
            name: None,
            quota: DirectoryQuota::Unknown,
        };
        let now = [unknown("ann@example.org", true), unknown("new@example.org", true)];
        assert_eq!(copies.keep(&now, at(2)).await, Ok(1), "nothing of ann's has changed");
        assert_eq!(copies.keep(&[unknown("ann@example.org", false)], at(3)).await, Ok(1));
        let ann = store.accounts().get(&email("ann@example.org")).await.unwrap().unwrap();
        assert_eq!((ann.name.as_str(), ann.quota_bytes, ann.active), ("Ann", Some(1024), false));
        let new = store.accounts().get(&email("new@example.org")).await.unwrap().unwrap();
        assert_eq!((new.name.as_str(), new.quota_bytes, new.active), ("", None, true));
        assert_eq!(copies.with_access(None, at(4), 10).await.unwrap(), []);
    })
    .await;
}

fn mailbox(address: &str, name: &str, active: bool, quota_bytes: Option<u64>) -> DirectoryMailbox {
    let quota = quota_bytes.map_or(DirectoryQuota::Unlimited, DirectoryQuota::Bytes);
    DirectoryMailbox { email: email(address), name: Some(name.to_owned()), active, quota }
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
