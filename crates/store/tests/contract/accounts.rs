use mailapi_model::{AccountChange, EmailAddress, MailboxOptions, NewToken, Permission, SaveSent, Secret, TokenKind};
use mailapi_store::{AccountFilter, NewGrant, Store, StoreError, TokenFilter, Verified};

use crate::engines::{add_account, at, domain, email, new_account, on_every_engine, page};
use crate::tokens::new_token;

#[tokio::test(flavor = "multi_thread")]
async fn an_account_needs_its_domain_and_is_there_once() {
    on_every_engine(async |store| {
        let orphan = store.accounts().insert(&new_account("ann@example.org", 0)).await.unwrap_err();
        assert_eq!(orphan, StoreError::Reference);
        add_account(store, "ann@example.org", 0).await;
        let twice = store.accounts().insert(&new_account("ANN@example.ORG", 1)).await.unwrap_err();
        assert!(twice.is_conflict());
        assert!(!format!("{twice:?} {twice}").contains("SHA512"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_follow_the_password_and_the_active_flag() {
    on_every_engine(async |store| {
        let ann = email("ann@example.org");
        assert!(store.accounts().credentials(&ann).await.unwrap().is_none());
        assert_eq!(store.accounts().set_active(&ann, false, at(1)).await, Ok(false));
        let new_hash = Secret::new("{SHA512-CRYPT}$6$other".to_owned());
        assert_eq!(store.accounts().set_password_hash(&ann, &new_hash, at(1)).await, Ok(false));

        add_account(store, "ann@example.org", 0).await;
        assert_eq!(store.accounts().set_password_hash(&ann, &new_hash, at(1)).await, Ok(true));
        assert_eq!(store.accounts().set_active(&ann, false, at(2)).await, Ok(true));
        assert_eq!(store.accounts().note_login(&ann, Verified::Hash(&new_hash), at(3)).await, Ok(false), "disabled");
        assert_eq!(store.accounts().set_active(&ann, true, at(2)).await, Ok(true));
        assert_eq!(
            store.accounts().note_login(&ann, Verified::Elsewhere, at(3)).await,
            Ok(false),
            "the password is stored here, not elsewhere"
        );
        assert_eq!(store.accounts().note_login(&ann, Verified::Hash(&new_hash), at(3)).await, Ok(true));
        assert_eq!(store.accounts().set_active(&ann, false, at(2)).await, Ok(true));

        let credentials = store.accounts().credentials(&ann).await.unwrap().unwrap();
        assert_eq!(credentials.password_hash.expose(), "{SHA512-CRYPT}$6$other");
        assert!(!credentials.active);
        let account = store.accounts().get(&ann).await.unwrap().unwrap();
        assert_eq!((account.updated_at, account.last_login_at), (at(2), Some(at(3))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_is_replaced_only_if_it_is_the_verified_one() {
    on_every_engine(async |store| {
        let ann = email("ann@example.org");
        add_account(store, "ann@example.org", 0).await;
        let [reset, again] =
            ["{SHA512-CRYPT}$6$reset", "{SHA512-CRYPT}$6$again"].map(|hash| Secret::new(hash.to_owned()));
        let session = session_of("ann@example.org", 1);
        let hash = async || store.accounts().credentials(&ann).await.unwrap().unwrap().password_hash;

        // A login reads the hash, the password is reset, and the login continues.
        let verified = hash().await;
        store.accounts().set_password_hash(&ann, &reset, at(1)).await.unwrap();
        assert_eq!(store.accounts().replace_password_hash(&ann, &verified, &again, at(2)).await, Ok(false));
        assert_eq!(hash().await, reset);

        store.tokens().insert(&session, 50).await.unwrap();
        assert_eq!(store.accounts().replace_password_hash(&ann, &reset, &again, at(3)).await, Ok(true));
        assert_eq!(hash().await, again);
        assert!(works(store, &session).await, "a new hash of the same password keeps the session");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_brings_a_session_only_while_what_was_verified_holds() {
    on_every_engine(async |store| {
        let ann = email("ann@example.org");
        add_account(store, "ann@example.org", 0).await;
        let session = session_of("ann@example.org", 1);
        let log_in =
            async |verified: Verified<'_>| store.tokens().insert_session(&session, &ann, verified, 50).await.unwrap();
        let old = store.accounts().credentials(&ann).await.unwrap().unwrap().password_hash;
        let new = Secret::new("{SHA512-CRYPT}$6$new".to_owned());

        store.accounts().set_password_hash(&ann, &new, at(1)).await.unwrap();
        assert_eq!(log_in(Verified::Hash(&old)).await, None, "the password was changed meanwhile");
        store.accounts().set_active(&ann, false, at(2)).await.unwrap();
        assert_eq!(log_in(Verified::Hash(&new)).await, None, "the account was disabled meanwhile");
        store.accounts().set_active(&ann, true, at(3)).await.unwrap();
        assert_eq!(log_in(Verified::Elsewhere).await, None, "the password is stored here, not elsewhere");
        assert_eq!(store.tokens().by_hash(&session.hash).await, Ok(None));
        assert_eq!(store.accounts().get(&ann).await.unwrap().unwrap().last_login_at, None);

        let record = log_in(Verified::Hash(&new)).await.unwrap().record;
        assert_eq!(store.tokens().get(record.id).await, Ok(Some(record)));
        let last_login = store.accounts().get(&ann).await.unwrap().unwrap().last_login_at;
        assert_eq!(last_login, Some(session.created_at));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_or_a_disabling_ends_the_sessions_only() {
    on_every_engine(async |store| {
        let ann = email("ann@example.org");
        add_account(store, "ann@example.org", 0).await;
        add_account(store, "bob@example.org", 0).await;
        let [first, second, other] =
            [("ann@example.org", 1), ("ann@example.org", 2), ("bob@example.org", 3)].map(|(of, n)| session_of(of, n));
        let api = new_token(4, TokenKind::User, Some("ann@example.org"));
        for token in [&first, &other, &api] {
            store.tokens().insert(token, 50).await.unwrap();
        }
        let hash = Secret::new("{SHA512-CRYPT}$6$new".to_owned());
        assert_eq!(store.accounts().set_active(&ann, true, at(1)).await, Ok(true));
        assert!(works(store, &first).await);
        assert_eq!(store.accounts().set_password_hash(&ann, &hash, at(1)).await, Ok(true));
        assert!(!works(store, &first).await);
        store.tokens().insert(&second, 50).await.unwrap();
        assert_eq!(store.accounts().set_active(&ann, false, at(2)).await, Ok(true));
        assert!(!works(store, &second).await);
        assert!(works(store, &api).await && works(store, &other).await);
    })
    .await;
}

fn session_of(mailbox: &str, number: u8) -> NewToken {
    NewToken { is_session: true, ..new_token(number, TokenKind::User, Some(mailbox)) }
}

async fn works(store: &Store, token: &NewToken) -> bool {
    store.tokens().by_hash(&token.hash).await.unwrap().unwrap().record.is_active
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_changes_only_what_it_names() {
    on_every_engine(async |store| {
        let ann = email("ann@example.org");
        add_account(store, "ann@example.org", 0).await;
        let quota = AccountChange { quota_bytes: Some(Some(1 << 40)), ..AccountChange::default() };
        assert_eq!(store.accounts().update(&email("no@example.org"), &quota, at(1)).await, Ok(false));
        assert_eq!(store.accounts().update(&ann, &quota, at(1)).await, Ok(true));
        let account = store.accounts().get(&ann).await.unwrap().unwrap();
        assert_eq!((account.name.as_str(), account.quota_bytes), ("Name of ann", Some(1 << 40)));

        let lifted = AccountChange { name: Some("Ann Lee".to_owned()), quota_bytes: Some(None), save_sent: None };
        assert_eq!(store.accounts().update(&ann, &lifted, at(2)).await, Ok(true));
        let account = store.accounts().get(&ann).await.unwrap().unwrap();
        assert_eq!((account.name.as_str(), account.quota_bytes, account.updated_at), ("Ann Lee", None, at(2)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_account_loses_permissions_and_tokens() {
    on_every_engine(async |store| {
        let ann = email("ann@example.org");
        add_account(store, "ann@example.org", 0).await;
        add_account(store, "bob@example.org", 0).await;
        let of_ann = new_token(1, TokenKind::User, Some("ann@example.org"));
        let of_bob = new_token(2, TokenKind::User, Some("bob@example.org"));
        store.tokens().insert(&of_ann, 50).await.unwrap();
        store.tokens().insert(&of_bob, 50).await.unwrap();
        let grant = NewGrant {
            email: ann.clone(),
            domain: domain("example.org"),
            permissions: Permission::ALL.to_vec(),
            granted_by: "root".to_owned(),
            granted_at: at(1),
        };
        store.permissions().grant(&grant).await.unwrap();

        assert_eq!(store.accounts().delete(&ann, at(9)).await, Ok(true));
        assert_eq!(store.accounts().delete(&ann, at(9)).await, Ok(false));
        assert_eq!(store.permissions().of(&ann).await, Ok(vec![]));
        assert_eq!(store.tokens().list(&TokenFilter::default(), page(50, 0)).await.unwrap().total, 1);

        // A new account with the same address inherits nothing.
        add_account(store, "ann@example.org", 5).await;
        let ended = store.tokens().by_hash(&of_ann.hash).await.unwrap().unwrap();
        assert!(!ended.record.is_active, "the record remains, so that the response can say that the session ended");
        let revived = mailapi_store::TokenChange { is_active: Some(true), ..Default::default() };
        assert_eq!(store.tokens().update(ended.record.id, &revived, at(9)).await, Ok(false));
        assert!(store.tokens().by_hash(&of_bob.hash).await.unwrap().unwrap().record.is_active);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_what_is_asked_for_and_hide_what_must_not_be_seen() {
    on_every_engine(async |store| {
        for (n, address) in
            ["root@example.org", "ann@example.org", "bob@example.net", "ann_b@example.org"].iter().enumerate()
        {
            add_account(store, address, i64::try_from(n).unwrap()).await;
        }
        let renamed = AccountChange { name: Some("JÜRGEN 100%".to_owned()), ..AccountChange::default() };
        store.accounts().update(&email("bob@example.net"), &renamed, at(9)).await.unwrap();
        store.accounts().set_active(&email("ann@example.org"), false, at(9)).await.unwrap();

        let shown = async |filter: AccountFilter| {
            let listed = store.accounts().list(&filter, page(50, 0)).await.unwrap();
            assert_eq!(listed.total, u64::try_from(listed.items.len()).unwrap());
            listed.items.into_iter().map(|account| account.email.to_string()).collect::<Vec<_>>()
        };
        let all = AccountFilter::default;
        let q = |text: &str| AccountFilter { q: Some(text.to_owned()), ..all() };
        assert_eq!(shown(all()).await, ["ann_b@example.org", "bob@example.net", "ann@example.org", "root@example.org"]);
        let hidden = AccountFilter {
            domains: Some(vec![domain("example.org")]),
            hide: vec![email("root@example.org")],
            ..all()
        };
        assert_eq!(shown(hidden).await, ["ann_b@example.org", "ann@example.org"]);
        assert_eq!(shown(AccountFilter { active: Some(false), ..all() }).await, ["ann@example.org"]);
        assert_eq!(shown(AccountFilter { domains: Some(vec![]), ..all() }).await, [""; 0]);
        assert_eq!(shown(q("jürg")).await, ["bob@example.net"]);
        assert_eq!(shown(q("0%")).await, ["bob@example.net"]);
        assert_eq!(shown(q("ANN_")).await, ["ann_b@example.org"], "the underscore is no wildcard");
        assert_eq!(shown(q("\\")).await, [""; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_addresses_and_their_options_are_reached_piece_by_piece() {
    on_every_engine(async |store| {
        for n in 0..7 {
            add_account(store, &format!("user{n}@example.org"), 0).await;
        }
        let quota = AccountChange { quota_bytes: Some(Some(1 << 40)), save_sent: Some(SaveSent::Api), name: None };
        assert_eq!(store.accounts().update(&email("user4@example.org"), &quota, at(1)).await, Ok(true));
        let mut seen: Vec<(EmailAddress, MailboxOptions)> = Vec::new();
        loop {
            let piece = store.accounts().all_options(seen.last().map(|(address, _)| address), 3).await.unwrap();
            if piece.is_empty() {
                break;
            }
            seen.extend(piece);
        }
        let options = |n| MailboxOptions {
            quota_bytes: (n == 4).then_some(1 << 40),
            save_sent: if n == 4 { SaveSent::Api } else { SaveSent::Off },
        };
        let wanted = |n| (email(&format!("user{n}@example.org")), options(n));
        assert_eq!(store.accounts().options(&email("user4@example.org")).await.unwrap(), Some(options(4)));
        assert_eq!(store.accounts().options(&email("nobody@example.org")).await.unwrap(), None);
        assert_eq!(seen, (0..7).map(wanted).collect::<Vec<_>>());
    })
    .await;
}
