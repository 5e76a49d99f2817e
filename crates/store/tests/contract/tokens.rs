use mailapi_model::{NewToken, TokenId, TokenKind, TokenValue};
use mailapi_store::{StoreError, TokenChange, TokenFilter, Verified};

use crate::engines::{add_account, at, email, on_every_engine, page};

pub(crate) fn new_token(number: u8, kind: TokenKind, mailbox: Option<&str>) -> NewToken {
    let value = TokenValue::from_caller(&format!("mapi_{number}"));
    NewToken {
        hash: value.hash(),
        prefix: value.prefix(),
        kind,
        email: mailbox.map(email),
        name: format!("Token {number}"),
        is_session: false,
        created_at: at(i64::from(number)),
        expires_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_value_is_unknown_and_a_known_one_is_there_once() {
    on_every_engine(async |store| {
        let token = new_token(1, TokenKind::Admin, None);
        assert_eq!(store.tokens().by_hash(&token.hash).await, Ok(None));
        let added = store.tokens().insert(&token, 50).await.unwrap();
        let id = added.id;
        let found = store.tokens().by_hash(&token.hash).await.unwrap().unwrap();
        assert_eq!((&found.record, found.owner_active), (&added, true));
        assert_eq!(store.tokens().get(id).await, Ok(Some(found.record)));
        assert!(store.tokens().insert(&token, 50).await.unwrap_err().is_conflict());
        assert_eq!(store.tokens().get(TokenId(id.0 + 1)).await, Ok(None));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_works_only_while_its_mailbox_does() {
    on_every_engine(async |store| {
        let token = new_token(1, TokenKind::User, Some("ann@example.org"));
        assert_eq!(store.tokens().insert(&token, 50).await, Err(StoreError::Reference), "there is no such mailbox");
        assert_eq!(store.tokens().by_hash(&token.hash).await, Ok(None));
        add_account(store, "ann@example.org", 0).await;
        store.tokens().insert(&token, 50).await.unwrap();
        let owner_active = async || store.tokens().by_hash(&token.hash).await.unwrap().unwrap().owner_active;
        assert!(owner_active().await);
        store.accounts().set_active(&email("ann@example.org"), false, at(1)).await.unwrap();
        assert!(!owner_active().await);

        // A request that had found the mailbox before its deletion must not create a token that a new owner
        // would inherit.
        store.accounts().delete(&email("ann@example.org"), at(9)).await.unwrap();
        let late = new_token(2, TokenKind::User, Some("ann@example.org"));
        assert_eq!(store.tokens().insert(&late, 50).await, Err(StoreError::Reference));
        add_account(store, "ann@example.org", 0).await;
        assert_eq!(store.tokens().by_hash(&late.hash).await, Ok(None));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_admin_token_that_works_can_be_kept() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        assert_eq!(store.tokens().has_had_admin().await, Ok(false));
        let one = store.tokens().insert(&new_token(1, TokenKind::Admin, None), 50).await.unwrap().id;
        let two = store.tokens().insert(&new_token(2, TokenKind::Admin, None), 50).await.unwrap().id;
        let mut expired = new_token(3, TokenKind::Admin, None);
        expired.expires_at = Some(at(5));
        let expired = store.tokens().insert(&expired, 50).await.unwrap().id;
        let mut session = new_token(4, TokenKind::Admin, None);
        session.is_session = true;
        store.tokens().insert(&session, 50).await.unwrap();
        let user = store.tokens().insert(&new_token(5, TokenKind::User, Some("ann@example.org")), 50).await.unwrap().id;

        assert_eq!(store.tokens().count_active_admin(at(4)).await, Ok(3));
        assert_eq!(store.tokens().count_active_admin(at(5)).await, Ok(2));
        // An expired token does not count, so it may be disabled while another one is left.
        let off = TokenChange { is_active: Some(false), ..TokenChange::default() };
        assert_eq!(store.tokens().update_but_last_admin(expired, &off, at(9)).await, Ok(true));
        assert_eq!(store.tokens().update_but_last_admin(one, &off, at(9)).await, Ok(true));
        assert_eq!(
            store.tokens().update_but_last_admin(two, &off, at(9)).await,
            Ok(false),
            "the last working admin token cannot be disabled"
        );
        assert_eq!(store.tokens().update_but_last_admin(user, &off, at(9)).await, Ok(true));
        assert_eq!(store.tokens().update_but_last_admin(TokenId(99), &off, at(9)).await, Ok(false));
        assert_eq!(store.tokens().count_active_admin(at(9)).await, Ok(1));
        let on = TokenChange { is_active: Some(true), ..TokenChange::default() };
        assert_eq!(store.tokens().update(one, &on, at(9)).await, Ok(true));
        assert_eq!(store.tokens().revoke_but_last_admin(one, at(9)).await, Ok(true));
        assert_eq!(store.tokens().revoke_but_last_admin(one, at(9)).await, Ok(false));
        assert_eq!(store.tokens().revoke_but_last_admin(two, at(9)).await, Ok(false));
        assert_eq!(store.tokens().revoke_but_last_admin(user, at(9)).await, Ok(true));
        assert_eq!(store.tokens().revoke_but_last_admin(expired, at(9)).await, Ok(true));
        assert_eq!(store.tokens().revoke(two, at(9)).await, Ok(true));
        assert_eq!(store.tokens().count_active_admin(at(9)).await, Ok(0));
        assert_eq!(store.tokens().has_had_admin().await, Ok(true));
        for revoked in [one, expired, user] {
            assert_eq!(
                store.tokens().update(revoked, &on, at(9)).await,
                Ok(false),
                "revocation is permanent, also for a disabled token"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_never_goes_back() {
    on_every_engine(async |store| {
        let one = store.tokens().insert(&new_token(1, TokenKind::Admin, None), 50).await.unwrap().id;
        let two = store.tokens().insert(&new_token(2, TokenKind::Admin, None), 50).await.unwrap().id;
        store.tokens().touch_many(&[(two, at(7)), (one, at(9)), (one, at(8)), (TokenId(99), at(1))]).await.unwrap();
        store.tokens().touch_many(&[(one, at(3))]).await.unwrap();
        store.tokens().touch_many(&[]).await.unwrap();
        let last_used = async |id| store.tokens().get(id).await.unwrap().unwrap().last_used_at;
        assert_eq!((last_used(one).await, last_used(two).await), (Some(at(9)), Some(at(7))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_lists() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        add_account(store, "bob@example.org", 0).await;
        let first =
            store.tokens().insert(&new_token(1, TokenKind::User, Some("ann@example.org")), 50).await.unwrap().id;
        store.tokens().insert(&new_token(2, TokenKind::User, Some("bob@example.org")), 50).await.unwrap();
        store.tokens().insert(&new_token(3, TokenKind::Admin, None), 50).await.unwrap();

        let change = TokenChange { name: Some("new".to_owned()), is_active: None, expires_at: Some(Some(at(50))) };
        assert_eq!(store.tokens().update(TokenId(99), &change, at(9)).await, Ok(false));
        assert_eq!(store.tokens().update(first, &change, at(9)).await, Ok(true));
        let forever = TokenChange { is_active: Some(false), expires_at: Some(None), ..TokenChange::default() };
        let changed = store.tokens().get(first).await.unwrap().unwrap();
        assert_eq!((changed.name.as_str(), changed.is_active, changed.expires_at), ("new", true, Some(at(50))));
        assert_eq!(store.tokens().update(first, &forever, at(9)).await, Ok(true));
        let changed = store.tokens().get(first).await.unwrap().unwrap();
        assert_eq!((changed.name.as_str(), changed.is_active, changed.expires_at), ("new", false, None));

        let all = store.tokens().list(&TokenFilter::default(), page(2, 0)).await.unwrap();
        assert_eq!((all.total, all.items[0].name.as_str(), all.items.len()), (3, "Token 3", 2));
        let of_ann = TokenFilter { email: Some(email("ann@example.org")) };
        let listed = store.tokens().list(&of_ann, page(50, 0)).await.unwrap();
        assert_eq!((listed.total, listed.items[0].id), (1, first));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_has_only_so_many_tokens_that_may_work() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        add_account(store, "bob@example.org", 0).await;
        let token = |n, mailbox| new_token(n, TokenKind::User, Some(mailbox));
        let first = store.tokens().insert(&token(1, "ann@example.org"), 3).await.unwrap().id;
        let mut brief = token(2, "ann@example.org");
        brief.expires_at = Some(at(4));
        store.tokens().insert(&brief, 3).await.unwrap();
        store.tokens().insert(&token(3, "ann@example.org"), 3).await.unwrap();
        let refused = store.tokens().insert(&token(3 + 1, "bob@example.org"), 0).await.unwrap_err();
        assert!(refused.is_guard_failed());
        let mut early = token(5, "ann@example.org");
        early.created_at = at(3);
        assert!(store.tokens().insert(&early, 3).await.unwrap_err().is_guard_failed());
        assert_eq!(store.tokens().by_hash(&early.hash).await, Ok(None));

        store.tokens().insert(&token(5, "ann@example.org"), 3).await.expect("an expired token makes room");
        assert!(store.tokens().insert(&token(6, "ann@example.org"), 3).await.unwrap_err().is_guard_failed());
        store.tokens().revoke(first, at(9)).await.unwrap();
        store.tokens().insert(&token(6, "ann@example.org"), 3).await.expect("a revoked token makes room");
        store.tokens().insert(&token(7, "bob@example.org"), 3).await.expect("each mailbox has a limit of its own");
        store.tokens().insert(&new_token(8, TokenKind::Admin, None), 0).await.expect("no mailbox");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_too_many_ends_the_oldest_session() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        let ann = email("ann@example.org");
        let hash = store.accounts().credentials(&ann).await.unwrap().unwrap().password_hash;
        let api = store.tokens().insert(&new_token(1, TokenKind::User, Some("ann@example.org")), 50).await.unwrap().id;
        let mut sessions = Vec::new();
        for n in 2..=5 {
            let mut session = new_token(n, TokenKind::User, Some("ann@example.org"));
            (session.is_session, session.expires_at) = (true, Some(at(60)));
            let added = store.tokens().insert_session(&session, &ann, Verified::Hash(&hash), 2).await.unwrap().unwrap();
            assert_eq!(added.others_ended, n > 3);
            sessions.push(added.record.id);
        }
        let mut working = Vec::new();
        for id in sessions {
            working.push(store.tokens().get(id).await.unwrap().unwrap().is_active);
        }
        assert_eq!(working, [false, false, true, true]);
        assert!(store.tokens().get(api).await.unwrap().unwrap().is_active, "an API token is not a session");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_sessions_of_a_mailbox_are_listed_and_ended() {
    on_every_engine(async |store| {
        let (ann, bob) = (email("ann@example.org"), email("bob@example.org"));
        for mailbox in [&ann, &bob] {
            add_account(store, mailbox.as_str(), 0).await;
        }
        let add = async |number: u8, of: &str, is_session: bool| {
            let mut token = new_token(number, TokenKind::User, Some(of));
            (token.is_session, token.expires_at) = (is_session, Some(at(60)));
            store.tokens().insert(&token, 50).await.unwrap().id
        };
        let (first, second) = (add(1, "ann@example.org", true).await, add(20, "ann@example.org", true).await);
        let (api, of_bob) = (add(21, "ann@example.org", false).await, add(22, "bob@example.org", true).await);
        let open = async |now: i64, idle_since: i64| {
            let listed = store.tokens().sessions(&ann, at(now), at(idle_since), page(10, 0)).await.unwrap();
            assert_eq!(listed.total, listed.items.len() as u64);
            listed.items.into_iter().map(|session| session.id).collect::<Vec<_>>()
        };
        assert_eq!(open(30, 0).await, [second, first], "newest first, and no API token");
        assert_eq!(open(30, 10).await, [second], "the other one is idle");
        store.tokens().touch_many(&[(first, at(25))]).await.unwrap();
        assert_eq!(open(30, 10).await, [second, first]);
        assert!(open(60, 0).await.is_empty(), "they expire");
        for other in [api, of_bob, TokenId(of_bob.0 + 1)] {
            assert_eq!(store.tokens().end_session_of(&ann, other).await, Ok(false));
        }
        assert_eq!(store.tokens().end_session_of(&ann, first).await, Ok(true));
        assert_eq!(store.tokens().end_session_of(&ann, first).await, Ok(false));
        assert_eq!(open(30, 0).await, [second]);
        assert!(store.tokens().get(of_bob).await.unwrap().unwrap().is_active);
    })
    .await;
}
