//! Events of several nodes are one log.

use std::collections::HashMap;
use std::io::Write;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mailapi_events::EventCursor;
use mailapi_model::{Outcome, QueueId};
use mailapi_store::{EventFilter, EventScope, Store, StoredEvent};
use mailapi_testkit::{PostgresDatabase, PostgresServer};
use tokio::time::timeout;

use crate::support::{at, begin_and_leave, cursor, database, event, message_id, new_sent, node};

const START: EventCursor = EventCursor::after_number(0);

/// Events of each of two nodes; the full size is 50,000.
fn events_per_node() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the size of a test")]
    std::env::var("MAILAPI_TEST_EVENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(600)
}

async fn all_after(store: &Store, cursor: EventCursor) -> (Vec<StoredEvent>, EventCursor) {
    let page = store.events().after(cursor, &EventFilter::of(EventScope::All), 1000).await.unwrap();
    assert!(!page.truncated);
    (page.events, page.cursor)
}

async fn accept(store: &Store, number: u64) {
    store.sent().begin(&new_sent(number)).await.unwrap();
    store.sent().submitted(message_id(number), &QueueId("Q".to_owned()), at(1), &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_seen_when_it_has_its_number() {
    let database = database().await;
    let (here, there) = (node(&database).await, node(&database).await);
    let heard = there.foreign_events();
    accept(&here, 1).await;
    assert_eq!(there.events().newest().await, Ok(START));
    assert_eq!(here.events().number_new().await, Ok(1));
    timeout(Duration::from_secs(30), heard.after(0)).await.expect("a notification of the batch");
    assert_eq!(here.foreign_events().count(), 0, "a node's own batch is not foreign");
    assert_eq!(here.events().number_new().await, Ok(0));

    // A transaction that took a key and was rolled back.
    database.sql("SELECT nextval(pg_get_serial_sequence('new_events', 'key'))");
    accept(&here, 2).await;
    assert_eq!(there.events().number_new().await, Ok(1));
    let (events, _) = all_after(&here, START).await;
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_write_and_number_make_one_log_without_gaps() {
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    let each = events_per_node();
    let is_done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = nodes.iter().cloned().zip(0..).map(|(store, parity)| write(store, parity, each)).collect();
    let writers: Vec<_> = writers.into_iter().map(tokio::spawn).collect();
    let number = async |store: &Store| {
        while !is_done.load(Ordering::Acquire) {
            store.events().number_new().await.unwrap();
            tokio::task::yield_now().await;
        }
        store.events().number_new().await.unwrap();
    };
    let reader = async {
        let (mut log, mut place) = (Vec::new(), START);
        while (log.len() as u64) < 2 * each {
            let (events, next) = all_after(&nodes[0], place).await;
            log.extend(events.into_iter().map(|event| (event.number, event.message_id, event.event_type)));
            place = next;
        }
        is_done.store(true, Ordering::Release);
        log
    };
    let (log, (), ()) = tokio::join!(reader, number(&nodes[0]), number(&nodes[1]));
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(log.iter().zip(1..).all(|((number, ..), expected)| *number == expected), "no gap, and in order");
    assert_eq!(log.len() as u64, 2 * each);
    let mut of_messages: HashMap<_, Vec<_>> = HashMap::new();
    for (_, message_id, event_type) in log {
        of_messages.entry(message_id).or_default().push(event_type.as_str());
    }
    for types in of_messages.values() {
        assert_eq!(types[0], "message.accepted");
        assert!(types[1..].iter().all(|event_type| *event_type == "message.deferred"), "{types:?}");
    }
}

/// Writes so many events: those of each message from several tasks at once.
async fn write(store: Store, parity: u64, events: u64) {
    const PER_MESSAGE: u64 = 5;
    let feed = format!("feed {parity}");
    let mut from = String::new();
    for step in 0..events / PER_MESSAGE {
        let number = step * 2 + parity;
        store.sent().begin(&new_sent(number)).await.unwrap();
        let queue_id = QueueId("Q".to_owned());
        let (sent, log) = (store.sent(), store.delivery_log());
        let reports: Vec<_> = (1..PER_MESSAGE).map(|_| event(number, Outcome::Deferred)).collect();
        let to = (step + 1).to_string();
        let (from_cursor, to_cursor) = (cursor(&from), cursor(&to));
        let (submitted, appended) = tokio::join!(
            sent.submitted(message_id(number), &queue_id, at(1), &[]),
            log.append(&feed, &reports, &from_cursor, &to_cursor),
        );
        submitted.unwrap();
        appended.unwrap();
        from = to;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_numbering_neither_loses_nor_doubles_an_event() {
    let database = database().await;
    let store = node(&database).await;
    for number in 1..=20 {
        accept(&store, number).await;
        begin_and_leave(store.events().number_new()).await;
    }
    store.events().number_new().await.unwrap();
    let (events, _) = all_after(&store, START).await;
    assert_eq!(events.len(), 20);
    assert!(events.iter().zip(1..).all(|(event, number)| event.number == number));
    assert_eq!(database.sql("SELECT COUNT(*) FROM new_events"), "0");
}

/// Begins a transaction whose snapshot keeps every row that exists from now on, until the program ends.
fn open_snapshot(database: &PostgresDatabase) -> Child {
    let name = "open snapshot";
    let session = database.session(&format!(
        "SET application_name = '{name}'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT COUNT(*) FROM new_events;"
    ));
    let is_open = format!(
        "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = '{name}' AND state = 'idle in transaction'"
    );
    wait_until(|| database.sql(&is_open) == "1");
    session
}

/// Blocks until the server shows something; fails after a minute.
fn wait_until(is_shown: impl Fn() -> bool) {
    const LOOKS: u32 = 3_000;
    let mut looks = 0..LOOKS;
    while !is_shown() {
        assert!(looks.next().is_some(), "the server does not show it");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbered_events_that_a_snapshot_keeps_are_not_read_again() {
    const ROUNDS: u64 = 60;
    // Of its own: a transaction in another database or of the vacuum lets events be read again too, while it runs.
    let server = Arc::new(PostgresServer::start());
    server.sql("postgres", "ALTER SYSTEM SET autovacuum = off");
    server.sql("postgres", "SELECT pg_reload_conf()");
    let database = server.database().await;
    // PostgreSQL reads a table of a few pages as a whole, as soon as it has counted its rows. A long one has an index.
    database
        .sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET enable_seqscan = off', current_database()); END $$");
    let store = node(&database).await;
    let mut snapshot = open_snapshot(&database);
    for number in 1..=ROUNDS {
        accept(&store, number).await;
        assert_eq!(store.events().number_new().await, Ok(1));
    }
    assert_eq!(all_after(&store, START).await.0.len() as u64, ROUNDS);
    // The counts of a connection are complete when it has ended.
    store.close().await;
    wait_until(|| database.sql("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()") == "2");
    let read = database.sql(
        "SELECT seq_tup_read + (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'new_events') \
         FROM pg_stat_user_tables WHERE relname = 'new_events'",
    );
    let read: u64 = read.parse().unwrap();
    assert!(read <= 6 * ROUNDS, "{read} rows were read for {ROUNDS} events");
    snapshot.kill().unwrap();
    snapshot.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_long_transaction_gets_its_number_at_its_commit() {
    let database = database().await;
    let store = node(&database).await;
    let mut slow = database.session(
        "SET application_name = 'slow'; BEGIN; \
         INSERT INTO new_events (id, type, at, subject_at, body) VALUES ('evt_01m7w78fqwemea5qcy6jn7hx3x', \
         'domain.created', 1, 1, '{}'); \
         SELECT 1;",
    );
    let state =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'slow' AND state = 'idle in transaction'";
    wait_until(|| database.sql(state) == "1");
    for number in 1..=5 {
        accept(&store, number).await;
        assert_eq!(store.events().number_new().await, Ok(1));
    }
    slow.stdin.take().unwrap().write_all(b"COMMIT;\n").unwrap();
    assert!(slow.wait().unwrap().success());
    assert_eq!(store.events().number_new().await, Ok(1));
    let (events, _) = all_after(&store, START).await;
    assert_eq!(events.last().map(|event| event.event_type.as_str()), Some("domain.created"));
}
