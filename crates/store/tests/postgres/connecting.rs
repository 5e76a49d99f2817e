use mailapi_model::SecretText;
use mailapi_store::postgres::{Postgres, PostgresSettings, PostgresUrl};
use mailapi_store::{Begun, Store, StoreError};
use mailapi_testkit::{PostgresDatabase, PostgresServer, SeededEntropy};

use crate::support::{database, message_id, new_sent, parse};

async fn open(url: &str) -> Result<Postgres, StoreError> {
    let url: PostgresUrl = url.parse().unwrap();
    Postgres::open(url, PostgresSettings::default(), &SeededEntropy::default()).await
}

const RIGHT: &str = "pass%2Fword%3A%20100%25";

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_names_the_reason_and_no_password() {
    let database = database().await;
    let wrong = open(&database.url_with("localhost", "wrong-secret", "")).await.unwrap_err();
    assert!(wrong.is_unavailable());
    assert!(wrong.to_string().contains("password authentication failed"), "{wrong}");
    assert!(!format!("{wrong} {wrong:?}").contains("wrong-secret"));

    let missing = database.url_with("localhost", RIGHT, "").replace("/case_", "/no_such_");
    let missing = open(&missing).await.unwrap_err();
    assert!(missing.is_unavailable() && missing.to_string().contains("does not exist"), "{missing}");

    // Port 9 (discard) has no listener.
    let unreachable = open("postgres://mailapi:wrong-secret@127.0.0.1:9/mailapi").await.unwrap_err();
    assert!(unreachable.is_unavailable() && !unreachable.to_string().contains("wrong-secret"), "{unreachable}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_may_come_from_elsewhere() {
    let database = database().await;
    let url: PostgresUrl = database.url_with("localhost", "", "").parse().unwrap();
    let url = url.with_password(&SecretText::new(database.password().to_owned()));
    assert!(Postgres::open(url, PostgresSettings::default(), &SeededEntropy::default()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_must_match_its_name_and_a_known_authority() {
    let database = database().await;
    let certificate = database.server().certificate();
    let roots = format!("?sslmode=verify-full&sslrootcert={}", certificate.display());
    let verified = |host: &str, query: &str| database.url_with(host, RIGHT, query);

    let other_name = open(&verified("127.0.0.1", &roots)).await.unwrap_err();
    assert!(other_name.is_unavailable() && other_name.to_string().contains("certificate"), "{other_name}");
    let unknown = open(&verified("localhost", "?sslmode=verify-full")).await.unwrap_err();
    assert!(unknown.is_unavailable(), "{unknown}");
    let no_file = open(&verified("localhost", "?sslmode=verify-full&sslrootcert=/no/such/file")).await.unwrap_err();
    assert!(no_file.to_string().contains("/no/such/file"), "{no_file}");

    open(&verified("localhost", &roots)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mode_decides_whether_there_is_tls() {
    let encrypted = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE datname = current_database() AND application_name = 'mailapi'";
    for (query, expected) in [("?sslmode=disable", "f"), ("", "t"), ("?sslmode=require", "t")] {
        let database = database().await;
        let _node = open(&database.url_with("127.0.0.1", RIGHT, query)).await.unwrap();
        assert_eq!(database.sql(encrypted), expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let server = PostgresServer::shared();
    server.sql(
        "postgres",
        "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0",
    );
    let database = server.empty_database();
    let (address, name) = database.url().rsplit_once('/').map(|(a, n)| (a.to_owned(), n.to_owned())).unwrap();
    assert!(name.starts_with("case_"));
    let refused = open(&format!("{address}/ascii")).await.unwrap_err();
    assert!(refused.to_string().contains("UTF8"), "{refused}");
}

/// Opens a node with its own role; one of its connections listens.
async fn node_with_few_connections(database: &PostgresDatabase, role: &str, limit: usize) -> Store {
    let password = database.password();
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN CONNECTION LIMIT {limit} PASSWORD '{password}';
         GRANT ALL ON ALL TABLES IN SCHEMA public TO {role};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role};"
    ));
    Store::on_postgres(open(&database.url().replacen("mailapi:", &format!("{role}:"), 1)).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn work_waits_where_the_server_gives_few_connections() {
    const SENDS: u64 = 200;
    let database = database().await;
    let store = node_with_few_connections(&database, "few", 3).await;
    let sends: Vec<_> = (0..SENDS)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.sent().begin(&new_sent(number)).await })
        })
        .collect();
    for send in sends {
        assert_eq!(send.await.unwrap(), Ok(Begun::New));
    }
    let open = "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = 'few'";
    assert_eq!(database.sql(open), "3", "one of them listens");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_hold_names_leave_a_connection_to_work_on() {
    const OPERATIONS: u64 = 40;
    let database = database().await;
    for (role, limit) in [("three", 3), ("four", 4)] {
        let store = node_with_few_connections(&database, role, limit).await;
        let operations: Vec<_> = (0..OPERATIONS)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let _lock = store.lock_address(&parse(&format!("u{number}@example.org"))).await?;
                    let number = number + 1000 * limit as u64;
                    store.sent().begin(&new_sent(number)).await?;
                    store.sent().get(message_id(number)).await
                })
            })
            .collect();
        for operation in operations {
            assert!(operation.await.unwrap().unwrap().is_some(), "{role}");
        }
    }
}
