use mailapi_events::EventCursor;
use mailapi_model::{AppPassword, AppPasswordId, NewAppPassword, Secret};
use mailapi_store::{EventFilter, EventScope, Store, StoreError};
use serde_json::{Value, json};

use crate::engines::{add_account, at, email, on_every_engine, page};

const ANN: &str = "ann@example.org";
const BOB: &str = "bob@example.org";

fn new(number: u8, mailbox: &str) -> NewAppPassword {
    NewAppPassword {
        email: email(mailbox),
        name: format!("Program {number}"),
        lookup_key: format!("{number:04x}"),
        hash: Secret::new(format!("{{SSHA512}}{number}")),
        created_at: at(i64::from(number)),
    }
}

async fn ids(store: &Store, mailbox: &str) -> Vec<AppPasswordId> {
    let listed = store.app_passwords().list(&email(mailbox), page(50, 0)).await.unwrap();
    listed.items.iter().map(|one| one.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_password_needs_a_mailbox_with_room_and_its_own_key() {
    on_every_engine(async |store| {
        let app_passwords = store.app_passwords();
        assert_eq!(app_passwords.insert(&new(1, ANN), 50).await, Err(StoreError::Reference), "no such mailbox");
        add_account(store, ANN, 0).await;
        add_account(store, BOB, 0).await;
        assert!(app_passwords.insert(&new(1, ANN), 0).await.unwrap_err().is_guard_failed());
        let first = app_passwords.insert(&new(1, ANN), 2).await.unwrap();
        assert!(app_passwords.insert(&new(1, ANN), 2).await.unwrap_err().is_conflict(), "the same key");
        app_passwords.insert(&new(1, BOB), 2).await.expect("another mailbox may use the key");
        let second = app_passwords.insert(&new(2, ANN), 2).await.unwrap();
        assert!(app_passwords.insert(&new(3, ANN), 2).await.unwrap_err().is_guard_failed());
        assert_eq!(ids(store, ANN).await, [second.id, first.id]);
        assert_eq!(app_passwords.revoke(&email(ANN), first.id, at(9)).await, Ok(true));
        app_passwords.insert(&new(3, ANN), 2).await.expect("a revoked one makes room");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_one_mailbox_and_the_last_use() {
    on_every_engine(async |store| {
        add_account(store, ANN, 0).await;
        add_account(store, BOB, 0).await;
        let app_passwords = store.app_passwords();
        let one = app_passwords.insert(&new(1, ANN), 50).await.unwrap();
        let two = app_passwords.insert(&new(2, ANN), 50).await.unwrap();
        app_passwords.insert(&new(3, BOB), 50).await.unwrap();
        app_passwords.touch_many(&[(two.id, at(20)), (one.id, at(30)), (AppPasswordId(99), at(1))]).await.unwrap();
        app_passwords.touch_many(&[(one.id, at(25))]).await.unwrap();
        let listed = app_passwords.list(&email(ANN), page(50, 0)).await.unwrap();
        let used = |one: AppPassword, seconds| AppPassword { last_used_at: Some(at(seconds)), ..one };
        assert_eq!((listed.total, listed.items), (2, vec![used(two, 20), used(one.clone(), 30)]));
        let second_page = app_passwords.list(&email(ANN), page(1, 1)).await.unwrap();
        assert_eq!((second_page.total, &second_page.items[0].id), (2, &one.id));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_finds_only_what_its_mailbox_has() {
    on_every_engine(async |store| {
        add_account(store, ANN, 0).await;
        add_account(store, BOB, 0).await;
        let (ann, bob, app_passwords) = (email(ANN), email(BOB), store.app_passwords());
        let one = app_passwords.insert(&new(1, ANN), 50).await.unwrap();
        for (mailbox, key) in [(&bob, "0001"), (&ann, "0002"), (&ann, "")] {
            assert!(app_passwords.with_key(mailbox, key).await.unwrap().is_none(), "{mailbox} {key}");
        }
        assert!(app_passwords.get(&bob, one.id).await.unwrap().is_none());
        let found = app_passwords.with_key(&ann, "0001").await.unwrap().unwrap();
        assert_eq!((found.id, found.credentials.password_hash.expose().as_str()), (one.id, "{SSHA512}1"));
        assert!(found.credentials.active);

        store.accounts().set_active(&ann, false, at(2)).await.unwrap();
        let disabled = app_passwords.get(&ann, one.id).await.unwrap().unwrap().credentials;
        assert_eq!((disabled.active, disabled.sessions_ended), (false, 1));
        store.accounts().set_closed(&ann, true).await.unwrap();
        assert!(app_passwords.with_key(&ann, "0001").await.unwrap().is_none(), "the account is being deleted");
        assert!(app_passwords.get(&ann, one.id).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_owner_of_an_address_inherits_nothing() {
    on_every_engine(async |store| {
        add_account(store, ANN, 0).await;
        let (ann, app_passwords) = (email(ANN), store.app_passwords());
        let former = app_passwords.insert(&new(1, ANN), 50).await.unwrap();
        store.accounts().delete(&ann, at(5)).await.unwrap();
        add_account(store, ANN, 6).await;
        store.accounts().set_closed(&ann, false).await.unwrap();
        assert_eq!(ids(store, ANN).await, []);
        let next = app_passwords.insert(&new(1, ANN), 50).await.unwrap();
        assert_ne!(next.id, former.id, "a session of the former one must not continue");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owners_app_password_is_revoked_and_only_once() {
    on_every_engine(async |store| {
        add_account(store, ANN, 0).await;
        add_account(store, BOB, 0).await;
        let app_passwords = store.app_passwords();
        let one = app_passwords.insert(&NewAppPassword { name: "a \"phone\"".to_owned(), ..new(1, ANN) }, 50).await;
        let id = one.unwrap().id;
        assert_eq!(app_passwords.revoke(&email(BOB), id, at(7)).await, Ok(false));
        assert_eq!(app_passwords.revoke(&email(ANN), id, at(7)).await, Ok(true));
        assert_eq!(app_passwords.revoke(&email(ANN), id, at(8)).await, Ok(false));

        store.events().number_new().await.unwrap();
        let filter = EventFilter { types: vec!["user.*".parse().unwrap()], ..EventFilter::of(EventScope::All) };
        let page = store.events().after(EventCursor::default(), &filter, 100).await.unwrap();
        let bodies = page.events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap());
        let of_app_passwords: Vec<_> = bodies
            .filter(|body| body["type"].as_str().unwrap().contains("app_password"))
            .map(|body| (body["type"].as_str().unwrap().to_owned(), body["data"].clone()))
            .collect();
        let created = json!({ "app_password_id": id.0, "email": ANN, "name": "a \"phone\"" });
        let revoked = json!({ "app_password_id": id.0, "email": ANN });
        assert_eq!(
            of_app_passwords,
            [("user.app_password_created".to_owned(), created), ("user.app_password_revoked".to_owned(), revoked)]
        );
    })
    .await;
}
