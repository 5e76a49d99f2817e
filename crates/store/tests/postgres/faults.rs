//! Lost connections, and a server that is down for a while.

use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{MessageStatus, QueueId};
use mailapi_store::Store;
use mailapi_store::postgres::PostgresSettings;
use mailapi_testkit::PostgresServer;

use crate::support::{add_account, at, database, message_id, new_domain, new_sent, node, parse};

/// Ends all other connections to the database, and waits until they are gone.
const END_ALL: &str = "SELECT COUNT(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";

#[tokio::test(flavor = "multi_thread")]
async fn ended_connections_are_replaced_and_reads_do_not_notice() {
    let database = database().await;
    let (store, other) = (node(&database).await, node(&database).await);
    add_account(&store, "ann@example.org").await;
    let heard = store.foreign_changes();
    for round in 0..5 {
        let before = heard.count();
        assert_ne!(database.sql(END_ALL), "0");
        assert!(store.accounts().get(&parse("ann@example.org")).await.unwrap().is_some());
        // Notifications may have been missed, so the count must grow.
        heard.after(before).await;
        store.domains().insert(&new_domain(&format!("d{round}.example")), None).await.unwrap();
    }
    let before = heard.count();
    other.ping().await.unwrap();
    other.accounts().set_active(&parse("ann@example.org"), false, at(1)).await.unwrap();
    heard.after(before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_connection_ends_is_kept_whole_or_not_at_all() {
    let database = Arc::new(database().await);
    let store = node(&database).await;
    let killer = tokio::task::spawn_blocking({
        let database = Arc::clone(&database);
        move || (0..10).for_each(|_| drop(database.sql(END_ALL)))
    });
    let mut done = Vec::new();
    let mut number = 0;
    while !killer.is_finished() || number < 50 {
        number += 1;
        let stored = store.sent().begin(&new_sent(number)).await.is_ok();
        let taken = store.sent().submitted(message_id(number), &QueueId("Q".to_owned()), at(1), &[]).await.is_ok();
        done.push((number, stored, taken));
    }
    killer.await.unwrap();
    for (number, stored, taken) in done {
        let found = store.sent().get(message_id(number)).await.unwrap();
        assert!(found.is_some() || !stored, "message {number} was stored and is lost");
        let Some(found) = found else { continue };
        assert_eq!(found.recipients.len(), 1);
        let is_taken = found.message.status == MessageStatus::Submitted;
        assert!(is_taken || !taken, "message {number} was accepted and is not stored as submitted");
        assert_eq!(is_taken, found.message.submitted_at.is_some(), "half of a change was stored");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_server_is_unavailable_and_used_again_when_back() {
    let server = Arc::new(PostgresServer::start());
    let database = server.database().await;
    let settings = PostgresSettings { listen_retry: Duration::from_millis(10), ..PostgresSettings::default() };
    let store = Store::on_postgres(database.open_with(settings).await);
    add_account(&store, "ann@example.org").await;

    server.stop();
    assert!(store.ping().await.unwrap_err().is_unavailable());
    assert!(store.accounts().get(&parse("ann@example.org")).await.unwrap_err().is_unavailable());
    let refused = store.domains().insert(&new_domain("example.net"), None).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");

    let heard = store.foreign_changes();
    let before = heard.count();
    server.start_again();
    assert!(store.accounts().get(&parse("ann@example.org")).await.unwrap().is_some());
    assert_eq!(store.domains().get(&parse("example.net")).await, Ok(None), "a refused change is not made");
    store.domains().insert(&new_domain("example.net"), None).await.unwrap();
    let before = heard.after(before).await;
    database.sql("UPDATE domains SET active = FALSE");
    assert!(heard.after(before).await > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_room_is_not_called_well() {
    let database = database().await;
    let store = node(&database).await;
    store.ping().await.unwrap();
    database.sql(
        "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'no room' USING ERRCODE = '53100';
         END $$;
         CREATE TRIGGER refusing BEFORE INSERT OR UPDATE ON secrets FOR EACH ROW EXECUTE FUNCTION refuse();",
    );
    let refused = store.ping().await.unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains("the disk is full"), "{refused}");
    database.sql("DROP TRIGGER refusing ON secrets");
    store.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_changes_says_so() {
    let database = database().await;
    let store = node(&database).await;
    add_account(&store, "ann@example.org").await;
    let name = database.sql("SELECT current_database()");
    database.sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    database.sql(END_ALL);
    assert!(store.accounts().get(&parse("ann@example.org")).await.unwrap().is_some());
    let refused = store.domains().insert(&new_domain("example.net"), None).await.unwrap_err();
    assert!(refused.to_string().contains("is read-only"), "{refused}");

    database.sql(&format!("BEGIN READ WRITE; ALTER DATABASE {name} SET default_transaction_read_only = off; COMMIT"));
    store.domains().insert(&new_domain("example.net"), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_refuses_what_follows_on_all_clones() {
    let database = database().await;
    let store = node(&database).await;
    let clone = store.clone();
    store.close().await;
    assert!(clone.ping().await.unwrap_err().is_unavailable());
    assert!(clone.domains().insert(&new_domain("late.example"), None).await.unwrap_err().is_unavailable());
    store.close().await;
}
