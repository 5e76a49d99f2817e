use mailapi_store::postgres::Postgres;
use mailapi_store::sqlite::Migration;
use mailapi_store::{Store, StoreError};
use mailapi_testkit::PostgresServer;

use crate::support::{at, database, new_domain};

const ONE: Migration = Migration { version: 1, sql: "CREATE TABLE ones (id BIGINT)" };

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_program_is_refused_and_left_alone() {
    const NEWER: &[Migration] = &[ONE, Migration { version: 2, sql: "CREATE TABLE newer (id BIGINT)" }];
    let database = PostgresServer::shared().empty_database();
    let engine = database.open().await;
    assert_eq!(engine.migrate("test", NEWER, at(0)).await, Ok(2));
    let refused = engine.migrate("test", &NEWER[..1], at(0)).await.unwrap_err();
    assert_eq!(refused, StoreError::NewerSchema { component: "test".to_owned(), found: 2, known: 1 });
    assert_eq!(engine.migrate("another", &[], at(0)).await, Ok(0), "components are independent of each other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_is_applied_whole_or_not_at_all() {
    const BROKEN: &[Migration] = &[ONE, Migration { version: 2, sql: "CREATE TABLE half (id BIGINT); nonsense" }];
    const MENDED: &[Migration] = &[ONE, Migration { version: 2, sql: "CREATE TABLE half (id BIGINT)" }];
    let database = PostgresServer::shared().empty_database();
    let engine = database.open().await;
    let why = engine.migrate("test", BROKEN, at(0)).await.unwrap_err();
    assert!(why.to_string().contains("syntax error"), "{why}");
    assert_eq!(engine.migrate("test", MENDED, at(0)).await, Ok(1));
    assert_eq!(engine.migrate("test", MENDED, at(0)).await, Ok(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_together_migrate_once() {
    let database = PostgresServer::shared().empty_database();
    let mut nodes: Vec<Postgres> = Vec::new();
    for _ in 0..4 {
        nodes.push(database.open().await);
    }
    let starts =
        nodes.into_iter().map(|node| tokio::spawn(async move { Store::on_postgres(node).migrate(at(0)).await }));
    let mut applied = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        applied.push(start.await.unwrap().unwrap());
    }
    applied.sort_unstable();
    assert_eq!(applied[..3], [0, 0, 0]);
    assert!(applied[3] > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_goes_on_when_another_has_changed_the_tables_under_it() {
    let database = database().await;
    let store = Store::on_postgres(database.open().await);
    let domain = new_domain("example.org");
    store.domains().insert(&domain, None).await.unwrap();
    let before = store.domains().get(&domain.name).await.unwrap();

    database.sql("ALTER TABLE domains ALTER COLUMN description TYPE VARCHAR(500)");

    assert_eq!(store.domains().get(&domain.name).await, Ok(before), "the prepared statement no longer matched");
}
