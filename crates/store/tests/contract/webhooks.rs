use mailapi_events::{EventCursor, EventId, EventType, webhook_disabled};
use std::time::Duration;

use mailapi_model::{Secret, TokenId, WebhookAuthor, WebhookDisabled, WebhookId, WebhookSigning};
use mailapi_store::{
    DisabledWebhook, FailedAttempt, NewWebhook, NewWebhookError, PassedWebhook, Store, Webhook, WebhookChange,
    WebhookClaim, WebhookFailure, WebhookLimits, WebhookProgress,
};

use crate::engines::{add_account, at, domain, email, message_id, on_every_engine, page, parse};

const LIMITS: WebhookLimits = WebhookLimits { by_one: 2, of_domain: 3 };

const MINUTE: Duration = Duration::from_secs(60);

fn new_webhook() -> NewWebhook {
    NewWebhook {
        url: "https://example.org/hook".to_owned(),
        types: vec![parse("message.*"), parse("domain.verified")],
        domain: None,
        mailbox: None,
        author: WebhookAuthor::Operator,
        description: "Shop".to_owned(),
        signing: WebhookSigning::V1,
        key: Secret::new(vec![7; 32]),
        enabled: true,
        confirmed: true,
        cursor: EventCursor::after_number(5),
        created_at: at(1),
    }
}

/// A webhook that Ann registers, with this API token or a session.
fn of_ann(token: Option<TokenId>) -> NewWebhook {
    let author = WebhookAuthor::User(email("ann@example.org"), token);
    NewWebhook { author, mailbox: Some(email("ann@example.org")), ..new_webhook() }
}

async fn sending(store: &Store) -> Vec<WebhookId> {
    store.webhooks().sending().await.unwrap().into_iter().map(|webhook| webhook.id).collect()
}

async fn added(store: &Store, new: &NewWebhook) -> Webhook {
    store.webhooks().insert(new, LIMITS).await.unwrap()
}

/// Returns whether this node may send the events of a webhook.
async fn holds(store: &Store, id: WebhookId, node: &str, time: Duration) -> bool {
    matches!(store.webhooks().claim(id, node, time).await.unwrap(), WebhookClaim::Held(_))
}

fn failure(number: u64, next: Option<i64>) -> WebhookFailure {
    WebhookFailure {
        number,
        event_id: EventId::of_fact(at(0), &[&number.to_be_bytes()]),
        event_type: EventType::MessageDelivered,
        message_id: Some(message_id(number)),
        attempts: 1,
        next_try_at: next.map(at),
        last: Some(FailedAttempt { at: at(2), status: Some(500), error: None, answer: Some("Oops".to_owned()) }),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_have_limits_by_caller_and_by_domain() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        let ann = |token| of_ann(Some(TokenId(token)));
        let by_token = |number| NewWebhook { author: WebhookAuthor::AdminToken(TokenId(number)), ..new_webhook() };
        let by_domain = NewWebhook { domain: Some(domain("example.org")), ..new_webhook() };
        // The tokens of a mailbox count together.
        for number in [1, 2] {
            added(store, &ann(number)).await;
            added(store, &by_token(7)).await;
        }
        for full in [ann(3), by_token(7)] {
            let refused = store.webhooks().insert(&full, LIMITS).await;
            assert!(matches!(refused, Err(NewWebhookError::TooManyOfOne)), "{refused:?}");
        }
        added(store, &by_domain).await;
        let refused = store.webhooks().insert(&by_domain, LIMITS).await;
        assert!(matches!(refused, Err(NewWebhookError::TooManyOfDomain)), "those of its mailboxes count: {refused:?}");
        // Those for the events of all domains have their own limit.
        added(store, &by_token(8)).await;
        let refused = store.webhooks().insert(&by_token(9), LIMITS).await;
        assert!(matches!(refused, Err(NewWebhookError::TooManyOfDomain)), "{refused:?}");
        assert_eq!(store.webhooks().list(None, page(10, 0)).await.unwrap().total, 6);
        // The sessions of an admin count together.
        let by_root = NewWebhook {
            author: WebhookAuthor::Admin(email("root@example.org")),
            mailbox: Some(email("root@example.com")),
            ..new_webhook()
        };
        for name in ["example.com", "example.net"] {
            add_account(store, &format!("root@{name}"), 0).await;
            added(store, &NewWebhook { mailbox: Some(email(&format!("root@{name}"))), ..by_root.clone() }).await;
        }
        let refused = store.webhooks().insert(&by_root, LIMITS).await;
        assert!(matches!(refused, Err(NewWebhookError::TooManyOfOne)), "{refused:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_ends_with_its_mailbox_and_not_with_another() {
    on_every_engine(async |store| {
        let ann = of_ann(None);
        let refused = store.webhooks().insert(&ann, LIMITS).await;
        assert!(matches!(refused, Err(NewWebhookError::Unknown)), "there is no such mailbox: {refused:?}");
        add_account(store, "ann@example.org", 0).await;
        let (of_ann, of_admin) = (added(store, &ann).await, added(store, &new_webhook()).await);
        let own = store.webhooks().list(Some(&email("ann@example.org")), page(10, 0)).await.unwrap();
        assert_eq!((own.total, own.items.first()), (1, Some(&of_ann)));
        assert_eq!(sending(store).await, [of_ann.id, of_admin.id]);
        store.accounts().set_active(&email("ann@example.org"), false, at(2)).await.unwrap();
        assert_eq!(sending(store).await, [of_admin.id]);
        store.accounts().delete(&email("ann@example.org"), at(3)).await.unwrap();
        assert_eq!(store.webhooks().get(of_ann.id).await, Ok(None));
        assert_eq!(store.webhooks().get(of_admin.id).await, Ok(Some(of_admin.clone())));
        assert_eq!(store.webhooks().delete(of_admin.id).await, Ok(true));
        assert_eq!(store.webhooks().delete(of_admin.id).await, Ok(false));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_leaves_the_rest_and_enabling_forgets_failures() {
    on_every_engine(async |store| {
        let webhook = added(store, &new_webhook()).await;
        assert_eq!(store.webhooks().update(WebhookId(99), &WebhookChange::default(), at(2)).await, Ok(None));
        let failing = WebhookProgress {
            from: webhook.cursor,
            to: webhook.cursor,
            failing_since: Some(at(2)),
            paused_until: Some(at(9)),
            has_attempted: true,
            last_error: Some("HTTP status 500".to_owned()),
            ..WebhookProgress::default()
        };
        assert_eq!(store.webhooks().advance(webhook.id, &failing, at(2)).await, Ok(true));
        let off = WebhookChange { enabled: Some(false), types: Some(vec![parse("*")]), ..WebhookChange::default() };
        let off = store.webhooks().update(webhook.id, &off, at(3)).await.unwrap().unwrap();
        let expected = Webhook {
            types: vec![parse("*")],
            enabled: false,
            disabled_because: Some(WebhookDisabled::Request),
            failing_since: Some(at(2)),
            paused_until: Some(at(9)),
            last_attempt_at: Some(at(2)),
            last_error: Some("HTTP status 500".to_owned()),
            updated_at: at(3),
            revision: 1,
            ..webhook.clone()
        };
        assert_eq!(off, expected);
        assert_eq!(sending(store).await, []);
        let on = WebhookChange { enabled: Some(true), ..WebhookChange::default() };
        let on = store.webhooks().update(webhook.id, &on, at(4)).await.unwrap().unwrap();
        let (failing_since, paused_until, disabled_because) = (None, None, None);
        assert_eq!(
            on,
            Webhook {
                enabled: true,
                failing_since,
                paused_until,
                disabled_because,
                updated_at: at(4),
                revision: 2,
                ..off
            }
        );
        // A receiver that was confirmed once stays so.
        let unconfirmed = added(store, &NewWebhook { confirmed: false, ..new_webhook() }).await;
        for (confirmed, expected) in [(false, false), (true, true), (false, true)] {
            let change = WebhookChange { confirmed, ..WebhookChange::default() };
            let changed = store.webhooks().update(unconfirmed.id, &change, at(5)).await.unwrap().unwrap();
            assert_eq!(changed.confirmed, expected);
        }
        let author = Some(WebhookAuthor::Admin(email("root@example.org")));
        let change = WebhookChange { author: author.clone(), ..WebhookChange::default() };
        let changed = store.webhooks().update(webhook.id, &change, at(5)).await.unwrap().unwrap();
        assert_eq!((Some(changed.author), changed.enabled), (author, true));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_keeps_the_former_one_for_a_while() {
    on_every_engine(async |store| {
        let webhook = added(store, &new_webhook()).await;
        let key = Secret::new(vec![8; 32]);
        let rotated = store.webhooks().rotate(webhook.id, &key, at(100), at(2)).await.unwrap().unwrap();
        assert_eq!((&rotated.key, &rotated.former_key), (&key, &Some((webhook.key, at(100)))));
        assert!(!format!("{rotated:?}").contains("7, 7"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_stored_whole_or_not_at_all() {
    on_every_engine(async |store| {
        let id = added(store, &new_webhook()).await.id;
        let webhooks = store.webhooks();
        let progress = WebhookProgress {
            from: EventCursor::after_number(5),
            to: EventCursor::after_number(9),
            failures: vec![failure(7, Some(50)), failure(8, Some(40))],
            ..WebhookProgress::default()
        };
        let from = EventCursor::after_number(4);
        let outdated = WebhookProgress { from, ..progress.clone() };
        assert_eq!(webhooks.advance(id, &outdated, at(2)).await, Ok(false));
        assert_eq!(webhooks.failures(id, page(10, 0)).await.unwrap().total, 0);
        assert_eq!(webhooks.advance(id, &progress, at(2)).await, Ok(true));
        assert_eq!(webhooks.open_failures(id, 10).await, Ok(vec![failure(7, Some(50)), failure(8, Some(40))]));

        // One arrives, the other is given up.
        let (from, to) = (progress.to, progress.to);
        let progress = WebhookProgress { from, to, settled: vec![7], failures: vec![failure(8, None)], ..progress };
        assert_eq!(webhooks.advance(id, &progress, at(3)).await, Ok(true));
        assert_eq!(webhooks.open_failures(id, 10).await, Ok(Vec::new()));
        let listed = webhooks.failures(id, page(10, 0)).await.unwrap();
        assert_eq!((listed.total, listed.items), (1, vec![failure(8, None)]));

        // It is sent again on request, and at last forgotten.
        let all = (EventCursor::default(), EventCursor::after_number(99));
        assert_eq!(webhooks.retry_failures(id, all.0, EventCursor::after_number(7), at(4)).await, Ok(0));
        assert_eq!(webhooks.retry_failures(id, all.0, all.1, at(4)).await, Ok(1));
        let again = webhooks.open_failures(id, 10).await.unwrap().remove(0);
        assert_eq!((again.attempts, again.next_try_at), (0, Some(at(4))));
        assert_eq!(webhooks.forget_failures(at(2), 9).await, Ok(0));
        assert_eq!(webhooks.forget_failures(at(3), 9).await, Ok(1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_writes_an_event_once() {
    on_every_engine(async |store| {
        let id = added(store, &new_webhook()).await.id;
        let event =
            webhook_disabled(id, "https://example.org/", None, WebhookDisabled::Gone, EventId::of_fact(at(2), &[]));
        let (from, to) = (EventCursor::after_number(5), EventCursor::after_number(5));
        let disabled = Some(DisabledWebhook { because: WebhookDisabled::Gone, event, notice: message_id(1) });
        let progress = WebhookProgress { from, to, disabled, ..WebhookProgress::default() };
        assert_eq!(store.webhooks().advance(id, &progress, at(2)).await, Ok(true));
        let stored = store.webhooks().get(id).await.unwrap().unwrap();
        assert_eq!((stored.enabled, stored.disabled_because), (false, Some(WebhookDisabled::Gone)));
        assert_eq!(store.webhooks().advance(id, &progress, at(2)).await, Ok(false), "it is disabled already");
        store.events().number_new().await.unwrap();
        assert_eq!(store.events().newest().await, Ok(EventCursor::after_number(1)));
        // The mail to the owner is sent once, by the process that stores this.
        let notices = async || {
            let notices = store.webhooks().notices().await.unwrap();
            notices.into_iter().map(|(webhook, notice)| (webhook.id, notice)).collect::<Vec<_>>()
        };
        assert_eq!(notices().await, [(id, message_id(1))]);
        store.webhooks().set_notice(id, message_id(1), Some(message_id(2))).await.unwrap();
        store.webhooks().set_notice(id, message_id(1), None).await.unwrap();
        assert_eq!(notices().await, [(id, message_id(2))]);
        store.webhooks().set_notice(id, message_id(2), None).await.unwrap();
        assert_eq!(notices().await, []);
        let claimed = store.webhooks().claim(id, "a", MINUTE).await;
        assert_eq!(claimed, Ok(WebhookClaim::Gone));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_sends_at_a_time() {
    on_every_engine(async |store| {
        let (id, other) = (added(store, &new_webhook()).await.id, added(store, &new_webhook()).await.id);
        let claim = async |id, node, time| holds(store, id, node, time).await;
        assert!(claim(id, "a", MINUTE).await && claim(id, "a", MINUTE).await);
        // One process has the file of SQLite for itself, whatever it is called.
        assert_eq!(claim(id, "b", MINUTE).await, !store.is_shared());
        assert!(claim(other, "b", MINUTE).await, "each webhook has its own reservation");
        // The end of a reservation is a time of the database.
        assert!(claim(other, "b", 10 * MINUTE).await && claim(other, "b", 100 * MINUTE).await);
        let ended = added(store, &new_webhook()).await.id;
        assert!(claim(ended, "a", Duration::ZERO).await && claim(ended, "b", MINUTE).await);
        assert_eq!(claim(ended, "a", MINUTE).await, !store.is_shared());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_learns_when_the_reservation_of_another_ends() {
    on_every_engine(async |store| {
        let id = added(store, &new_webhook()).await.id;
        assert!(holds(store, id, "a", MINUTE).await);
        let claim = store.webhooks().claim(id, "b", 10 * MINUTE).await.unwrap();
        let left = |claim: &WebhookClaim| match claim {
            WebhookClaim::Reserved(left) => Some(*left),
            WebhookClaim::Held(_) | WebhookClaim::Gone => None,
        };
        let rest = left(&claim);
        assert_eq!(rest.is_some(), store.is_shared());
        assert!(rest.is_none_or(|left| left > MINUTE / 2 && left <= MINUTE), "{rest:?}");
        // More than three quarters are left, so this writes nothing.
        assert!(holds(store, id, "a", MINUTE).await);
        let unchanged = left(&store.webhooks().claim(id, "b", MINUTE).await.unwrap());
        assert!(unchanged <= rest, "{unchanged:?} after {rest:?}");
        // The clock of the database was set back since the reservation, so its end means nothing.
        assert!(holds(store, id, "b", MINUTE / 2).await);
        assert_eq!(holds(store, id, "a", MINUTE).await, !store.is_shared());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_reservation_stores_no_results() {
    on_every_engine(async |store| {
        let webhook = added(store, &new_webhook()).await;
        // The first node stops in the middle of a round, and goes on after its reservation has ended.
        assert!(holds(store, webhook.id, "a", Duration::ZERO).await && holds(store, webhook.id, "b", MINUTE).await);
        let advance = async |node: &str| {
            let (node, from, to) = (node.to_owned(), webhook.cursor, webhook.cursor);
            let failures = vec![failure(7, Some(50))];
            let progress = WebhookProgress { node, from, to, failures, ..WebhookProgress::default() };
            store.webhooks().advance(webhook.id, &progress, at(2)).await.unwrap()
        };
        let stored = async || store.webhooks().failures(webhook.id, page(10, 0)).await.unwrap().total;
        assert_eq!((advance("a").await, stored().await), (!store.is_shared(), u64::from(!store.is_shared())));
        assert_eq!((advance("b").await, stored().await), (true, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_is_moved_back_and_never_forward() {
    on_every_engine(async |store| {
        let id = added(store, &new_webhook()).await.id;
        for (to, expected) in [(9, 5), (3, 3), (4, 3)] {
            assert_eq!(store.webhooks().move_back(id, EventCursor::after_number(to)).await, Ok(true));
            assert_eq!(store.webhooks().get(id).await.unwrap().unwrap().cursor, EventCursor::after_number(expected));
        }
        assert_eq!(store.webhooks().move_back(WebhookId(99), EventCursor::default()).await, Ok(false));

        // Given-up events are sent as new ones. Those that are tried again keep their rows.
        let from = EventCursor::after_number(3);
        let failures = vec![failure(2, None), failure(4, None), failure(5, Some(50))];
        let to = EventCursor::after_number(6);
        let progress = WebhookProgress { from, to, failures, ..WebhookProgress::default() };
        assert_eq!(store.webhooks().advance(id, &progress, at(2)).await, Ok(false), "the webhook was changed");
        let progress = WebhookProgress { revision: 3, ..progress };
        assert_eq!(store.webhooks().advance(id, &progress, at(2)).await, Ok(true));
        assert_eq!(store.webhooks().move_back(id, from).await, Ok(true));
        let left = store.webhooks().failures(id, page(10, 0)).await.unwrap().items;
        assert_eq!(left, [failure(5, Some(50)), failure(2, None)]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unwanted_events_are_passed_unless_something_changed() {
    on_every_engine(async |store| {
        let webhooks = store.webhooks();
        let id = added(store, &new_webhook()).await.id;
        let stored = EventCursor::after_number(5);
        let known = PassedWebhook { id, revision: 0, stored };
        let moved = async |known, to, node| webhooks.pass(&[known], EventCursor::after_number(to), node).await.unwrap();
        assert_eq!(moved(known, 9, "a").await, [id]);
        assert_eq!(moved(known, 10, "a").await, [], "it is at another position now");
        let known = PassedWebhook { stored: EventCursor::after_number(9), ..known };
        assert!(holds(store, id, "b", MINUTE).await);
        assert_eq!(moved(known, 10, "a").await.is_empty(), store.is_shared(), "another node sends");
        let known = PassedWebhook { stored: webhooks.get(id).await.unwrap().unwrap().cursor, ..known };
        let types = Some(vec![parse("*")]);
        webhooks.update(id, &WebhookChange { types, ..WebhookChange::default() }, at(2)).await.unwrap();
        assert_eq!(moved(known, 20, "b").await, [], "it may want them now");
        assert_eq!(moved(PassedWebhook { revision: 1, ..known }, 20, "b").await, [id]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_try_of_each_webhook_is_found() {
    on_every_engine(async |store| {
        let (one, other) = (added(store, &new_webhook()).await, added(store, &new_webhook()).await);
        assert_eq!(store.webhooks().next_tries().await, Ok(Vec::new()));
        for (webhook, failures) in [
            (&one, vec![failure(7, Some(50)), failure(8, Some(40)), failure(9, None)]),
            (&other, vec![failure(7, None)]),
        ] {
            let (from, to) = (webhook.cursor, webhook.cursor);
            let progress = WebhookProgress { from, to, failures, ..WebhookProgress::default() };
            assert_eq!(store.webhooks().advance(webhook.id, &progress, at(2)).await, Ok(true));
        }
        assert_eq!(store.webhooks().next_tries().await, Ok(vec![(one.id, at(40))]));
    })
    .await;
}
