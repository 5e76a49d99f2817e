//! Retries, and their limit.

use std::time::Duration;

use mailapi_store::postgres::PostgresSettings;
use mailapi_store::{Store, StoreError};

use crate::support::{admin_token, at, begin_and_leave, database, message_id, new_domain, new_sent, node, parse};

/// Makes the first `times` insertions into `domains` fail with this condition. A sequence is not reset by a
/// rollback.
fn refuse_first(times: u32, condition: &str) -> String {
    format!(
        "CREATE SEQUENCE refusals;
         CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('refusals') <= {times} THEN
                 RAISE EXCEPTION 'a secret value' USING ERRCODE = '{condition}';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER refusing BEFORE INSERT ON domains FOR EACH ROW EXECUTE FUNCTION refuse();"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn others_in_the_way_are_waited_out_and_not_for_ever() {
    // Serialization failure and deadlock.
    for condition in ["40001", "40P01"] {
        let database = database().await;
        let store = node(&database).await;
        let attempts = PostgresSettings::default().attempts;
        database.sql(&refuse_first(attempts + 2, condition));

        let given_up = store.domains().insert(&new_domain("example.org"), None).await.unwrap_err();
        assert!(given_up.is_unavailable() && !given_up.to_string().contains("secret"), "{given_up}");
        assert_eq!(database.sql("SELECT last_value FROM refusals"), attempts.to_string());

        store.domains().insert(&new_domain("example.org"), None).await.unwrap();
        assert_eq!(database.sql("SELECT COUNT(*) FROM domains"), "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_meet_at_one_row_all_get_their_turn() {
    const MEETING: i64 = 16;
    let database = database().await;
    let name = database.sql("SELECT current_database()");
    database.sql(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'"));
    let store = node(&database).await;
    let token = store.tokens().insert(&admin_token(1), 50).await.unwrap();
    let uses: Vec<_> = (1..=MEETING)
        .map(|second| {
            let store = store.clone();
            tokio::spawn(async move { store.tokens().touch_many(&[(token.id, at(second))]).await })
        })
        .collect();
    for used in uses {
        assert_eq!(used.await.unwrap(), Ok(()));
    }
    let used = store.tokens().get(token.id).await.unwrap().unwrap();
    assert_eq!(used.last_used_at, Some(at(MEETING)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_will_not_work_the_next_time_either_is_not_tried_again() {
    let database = database().await;
    let store = node(&database).await;
    database.sql(&refuse_first(1, "P0001"));
    let refused = store.domains().insert(&new_domain("example.org"), None).await.unwrap_err();
    assert_eq!(refused, StoreError::Unexpected("P0001".to_owned()), "its message could repeat values");
    assert_eq!(database.sql("SELECT last_value FROM refusals"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_ended_by_the_server() {
    let database = database().await;
    let settings = PostgresSettings { statement_timeout: Duration::from_secs(1), ..PostgresSettings::default() };
    let store = Store::on_postgres(database.open_with(settings).await);
    database.sql(SLOW_INSERT);
    let ended = store.domains().insert(&new_domain("slow.example"), None).await.unwrap_err();
    assert_eq!(ended, StoreError::Unavailable("a statement took too long (57014)".to_owned()));
    store.domains().insert(&new_domain("quick.example"), None).await.unwrap();
    assert_eq!(store.domains().get(&parse("slow.example")).await, Ok(None));
}

/// Makes the insertion of `slow.example` take a minute.
const SLOW_INSERT: &str = "CREATE FUNCTION doze() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
         IF NEW.name = 'slow.example' THEN PERFORM pg_sleep(60); END IF;
         RETURN NEW;
     END $$;
     CREATE TRIGGER dozing BEFORE INSERT ON domains FOR EACH ROW EXECUTE FUNCTION doze();";

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_does_not_keep_a_server_from_its_end() {
    let database = database().await;
    let settings = PostgresSettings { statement_timeout: Duration::from_secs(300), ..PostgresSettings::default() };
    let store = Store::on_postgres(database.open_with(settings).await);
    database.sql(SLOW_INSERT);
    let insert = tokio::spawn({
        let store = store.clone();
        async move { store.domains().insert(&new_domain("slow.example"), None).await }
    });
    let sleeping =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    let begun = async {
        while database.sql(sleeping) == "0" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), begun).await.unwrap();
    store.close().await;
    assert_eq!(database.sql(sleeping), "1", "the database still works on it");
    assert!(!insert.is_finished());
    insert.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_made_also_when_its_caller_no_longer_waits() {
    let database = database().await;
    let (store, other) = (node(&database).await, node(&database).await);
    store.ping().await.unwrap();
    let mut left = 0;
    for number in 0..20 {
        left += u32::from(begin_and_leave(store.sent().begin(&new_sent(number))).await);
    }
    assert!(left > 0, "some calls were interrupted");
    store.close().await;
    for number in 0..20 {
        assert!(other.sent().get(message_id(number)).await.unwrap().is_some(), "message {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_no_longer_waits_leaves_no_transaction_behind() {
    let database = database().await;
    let settings = PostgresSettings { connections: 1, ..PostgresSettings::default() };
    let store = Store::on_postgres(database.open_with(settings).await);
    store.sent().begin(&new_sent(1)).await.unwrap();
    let mut left = 0;
    for _ in 0..20 {
        left += u32::from(begin_and_leave(store.sent().get(message_id(1))).await);
        assert!(store.sent().get(message_id(1)).await.unwrap().is_some());
    }
    assert!(left > 0, "some calls were interrupted");
    let idle = "SELECT COUNT(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(database.sql(idle), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_with_a_nul_is_stored_without_it() {
    let database = database().await;
    let store = node(&database).await;
    let mut message = new_sent(1);
    message.subject = "before\0after".to_owned();
    store.sent().begin(&message).await.unwrap();
    let read = store.sent().get(message_id(1)).await.unwrap().unwrap();
    assert_eq!(read.message.subject, "before\u{fffd}after");
}
