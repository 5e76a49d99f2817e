use std::time::Duration;

use mailapi_model::{EmailAddress, NewToken, Outcome, QueueId, Secret, SecretText, TokenId, TokenKind};
use mailapi_store::postgres::PostgresSettings;
use mailapi_store::{
    Begun, Hours, Idempotency, NewSent, RollUpSize, SentScope, Span, Store, StoreError, TokenChange, Verified,
};
use tokio::time::timeout;

use crate::support::{add_account, admin_token, at, cursor, database, event, message_id, new_sent, node, parse};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_of_the_changes_of_others_and_not_of_its_own() {
    let database = database().await;
    let (here, there) = (node(&database).await, node(&database).await);
    let heard_here = here.foreign_changes();
    let heard_there = there.foreign_changes();

    add_account(&here, "ann@example.org").await;
    heard_there.after(0).await;
    there.accounts().set_active(&parse("ann@example.org"), false, at(1)).await.unwrap();
    // Notifications arrive in commit order: an earlier own change would have been counted by now.
    assert_eq!(heard_here.after(0).await, 1, "a node's own changes are not foreign");
    database.sql("UPDATE accounts SET active = TRUE");
    assert_eq!(heard_here.after(1).await, 2, "a change by hand is foreign");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_written_at_every_use_send_no_notification() {
    let database = database().await;
    let store = node(&database).await;
    add_account(&store, "ann@example.org").await;
    store.tokens().insert(&admin_token(1), 50).await.unwrap();
    let notifies =
        |change: &str| database.sql(&format!("LISTEN mailapi_changes; {change}")).contains("mailapi_changes");
    assert!(!notifies("UPDATE tokens SET last_used_at = 5"));
    assert!(!notifies("UPDATE accounts SET last_login_at = 5"));
    assert!(notifies("UPDATE tokens SET is_active = FALSE"));
    assert!(notifies("UPDATE accounts SET active = FALSE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_followers_of_one_feed_keep_every_event_once() {
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    for number in 0..20 {
        nodes[0].sent().begin(&new_sent(number)).await.unwrap();
    }
    let follow = async |store: Store| {
        let mut kept = 0;
        loop {
            let from = store.delivery_log().cursor("feed").await.unwrap().unwrap_or_default();
            let number: u64 = if from.0.is_empty() { 0 } else { from.0.parse().unwrap() };
            if number == 20 {
                return kept;
            }
            let (events, to) = ([event(number, Outcome::Deferred)], cursor(&(number + 1).to_string()));
            match store.delivery_log().append("feed", &events, &from, &to).await {
                Ok(appended) => kept += appended.entries_added,
                Err(error) => assert!(error.is_guard_failed(), "{error}"),
            }
        }
    };
    let [one, two] = nodes.clone();
    let (one, two) = tokio::join!(follow(one), follow(two));
    assert_eq!(one + two, 20);
    assert_eq!(
        database.sql("SELECT COUNT(*), MIN(attempts), MAX(attempts) FROM delivery_events, sent_recipients"),
        "400|1|1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_reaches_two_nodes_at_once_is_one_message() {
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    for round in 0..10_u64 {
        let request = |number| NewSent {
            idempotency: Some(Idempotency {
                token_id: TokenId(1),
                key: format!("request {round}"),
                body_hash: b"same".to_vec(),
                expires_at: at(86_400),
            }),
            ..new_sent(number)
        };
        let (first, second) = (request(round * 2), request(round * 2 + 1));
        let (here, there) = (nodes[0].sent(), nodes[1].sent());
        let (one, two) = tokio::join!(here.begin(&first), there.begin(&second));
        let answers = [one.unwrap(), two.unwrap()];
        let stored = if answers[0] == Begun::New { first.message_id } else { second.message_id };
        assert!(answers.contains(&Begun::New) && answers.contains(&Begun::InFlight(stored)), "{answers:?}");
    }
    assert_eq!(database.sql("SELECT COUNT(*) FROM sent_messages"), "10");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_roll_up_while_others_send_count_every_change_once() {
    const MESSAGES: u64 = 60;
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    let send = async |store: Store, parity: u64| {
        for number in (0..MESSAGES).filter(|number| number % 2 == parity) {
            store.sent().begin(&new_sent(number)).await.unwrap();
            store.sent().submitted(message_id(number), &QueueId("Q".to_owned()), at(1), &[]).await.unwrap();
        }
    };
    let roll_up = async |store: Store| {
        for _ in 0..MESSAGES {
            store.stats().roll_up_once(RollUpSize { changes: 7, groups: 7 }).await.unwrap();
        }
    };
    let [one, two] = nodes.clone();
    tokio::join!(send(one.clone(), 0), send(two.clone(), 1), roll_up(one), roll_up(two));
    while nodes[0].stats().roll_up_once(RollUpSize { changes: 7, groups: 7 }).await.unwrap().more {}

    let hours = Hours::around(at(-3600), at(3600));
    let counts = nodes[1].stats().sent_by_time(&[SentScope::All], hours, Span::Day).await.unwrap();
    assert_eq!(counts.into_values().map(|counts| counts.sent).sum::<u64>(), MESSAGES);
    assert_eq!(database.sql("SELECT COUNT(*) FROM status_changes"), "0");
}

/// Returns a token of ann@example.org.
fn anns_token(number: u8, is_session: bool) -> NewToken {
    NewToken { kind: TokenKind::User, email: Some(parse(ANN)), is_session, ..admin_token(number) }
}

const ANN: &str = "ann@example.org";

fn hash(text: impl std::fmt::Display) -> SecretText {
    Secret::new(format!("{{SHA512-CRYPT}}$6${text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_outlives_a_password_change_at_another_node() {
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    let ann: EmailAddress = parse(ANN);
    add_account(&nodes[0], ANN).await;
    let (accounts, tokens, now) = (nodes[0].accounts(), nodes[1].tokens(), at(1));
    for round in 0..20_u8 {
        let (old, new) = (hash(format_args!("{round} old")), hash(format_args!("{round} new")));
        accounts.set_password_hash(&ann, &old, now).await.unwrap();
        let refreshed = tokens.insert(&anns_token(3 * round, true), 50).await.unwrap();
        let (logged_in, next) = (anns_token(3 * round + 1, true), anns_token(3 * round + 2, true));
        let done = tokio::join!(
            accounts.set_password_hash(&ann, &new, now),
            tokens.insert_session(&logged_in, &ann, Verified::Hash(&old), 50),
            tokens.replace(refreshed.id, &next),
        );
        assert_eq!(done.0, Ok(true));
        done.1.unwrap();
        done.2.unwrap();
        assert_eq!(database.sql("SELECT COUNT(*) FROM tokens WHERE is_active"), "0", "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_outlives_a_mailbox_that_is_deleted_at_another_node() {
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    let ann: EmailAddress = parse(ANN);
    for round in 0..20_u8 {
        add_account(&nodes[0], ANN).await;
        let token = anns_token(round, false);
        let create = async { nodes[1].tokens().insert(&token, 50).await };
        let delete = async {
            if round % 2 == 0 {
                nodes[0].accounts().delete(&ann, at(9)).await.unwrap();
            }
            nodes[0].domains().delete(&ann.domain(), true, at(9)).await.unwrap();
        };
        let (created, ()) = tokio::join!(create, delete);
        assert!(matches!(created, Ok(_) | Err(StoreError::Reference)), "{created:?}");
        assert_eq!(database.sql("SELECT COUNT(*) FROM tokens WHERE is_active"), "0", "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_cannot_switch_off_the_last_two_admin_tokens() {
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    let off = TokenChange { is_active: Some(false), ..TokenChange::default() };
    for round in 0..10_u8 {
        let one = nodes[0].tokens().insert(&admin_token(2 * round), 50).await.unwrap().id;
        let two = nodes[0].tokens().insert(&admin_token(2 * round + 1), 50).await.unwrap().id;
        let (here, there, now) = (nodes[0].tokens(), nodes[1].tokens(), at(1));
        let changed =
            tokio::join!(here.update_but_last_admin(one, &off, now), there.update_but_last_admin(two, &off, now));
        assert_ne!(changed.0.unwrap(), changed.1.unwrap(), "exactly one of the two tokens was the last");
        assert_eq!(nodes[0].tokens().count_active_admin(now).await, Ok(1));
        database.sql("UPDATE tokens SET is_active = FALSE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_cannot_revoke_the_last_two_admin_tokens() {
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    for round in 0..10_u8 {
        let one = nodes[0].tokens().insert(&admin_token(2 * round), 50).await.unwrap().id;
        let two = nodes[0].tokens().insert(&admin_token(2 * round + 1), 50).await.unwrap().id;
        let (here, there) = (nodes[0].tokens(), nodes[1].tokens());
        let now = at(1);
        let revoked = tokio::join!(here.revoke_but_last_admin(one, now), there.revoke_but_last_admin(two, now));
        assert_ne!(revoked.0.unwrap(), revoked.1.unwrap(), "exactly one of the two tokens was the last");
        assert_eq!(nodes[0].tokens().count_active_admin(at(1)).await, Ok(1));
        database.sql("UPDATE tokens SET is_active = FALSE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_waited_for_longer_than_a_statement_may_take() {
    let database = database().await;
    let limit = Duration::from_secs(1);
    let settings = PostgresSettings { statement_timeout: limit, ..PostgresSettings::default() };
    let (here, there) = (node(&database).await, Store::on_postgres(database.open_with(settings).await));
    let held = here.lock_address(&parse(ANN)).await.unwrap();
    let domain = parse::<EmailAddress>(ANN).domain();
    let waiter = there.clone();
    // A task asks on its own: a future that is not polled would keep what it holds at that moment.
    let mut waiting = tokio::spawn(async move { waiter.lock_domain(&domain).await });
    assert!(timeout(limit * 2, &mut waiting).await.is_err(), "the lock is held");
    // A waiting operation holds nothing that others need.
    drop(there.lock_address(&parse("bob@example.net")).await.unwrap());
    drop(held);
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_get_no_more_tokens_than_a_mailbox_may_have() {
    const MOST: u32 = 3;
    let database = database().await;
    let nodes = [node(&database).await, node(&database).await];
    add_account(&nodes[0], ANN).await;
    let inserts: Vec<_> = (0..12_u8)
        .map(|number| {
            let store = nodes[usize::from(number % 2)].clone();
            tokio::spawn(async move { store.tokens().insert(&anns_token(number, false), MOST).await })
        })
        .collect();
    for insert in inserts {
        let inserted = insert.await.unwrap();
        assert!(matches!(inserted, Ok(_) | Err(StoreError::Guard { .. })), "{inserted:?}");
    }
    assert_eq!(database.sql("SELECT COUNT(*) FROM tokens"), MOST.to_string());
}
