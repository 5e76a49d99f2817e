use futures_util::future::join_all;
use mailapi_model::{Permission, TokenKind};
use mailapi_store::{DomainFilter, NewSignUp, SignUpRoom, StoreError, TokenFilter};

use crate::engines::{add_account, at, domain, email, new_account, new_domain, on_every_engine, page};
use crate::tokens::new_token;

const ROOM: SignUpRoom = SignUpRoom { of_all: 20, of_client: 10 };

fn sign_up(name: &str, user: &str, session: u8) -> NewSignUp {
    let mut domain = new_domain(name, 1);
    domain.active = false;
    let mut session = new_token(session, TokenKind::User, Some(user));
    session.is_session = true;
    session.expires_at = Some(at(60));
    NewSignUp { domain, account: new_account(user, 1), from: "192.0.2.1".to_owned(), session }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_sign_up_leaves_nothing_behind() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        let taken_domain = sign_up("EXAMPLE.org", "new@example.org", 1);
        assert!(store.sign_up(&taken_domain, ROOM).await.unwrap_err().is_conflict());
        let taken_account = sign_up("example.net", "ann@example.org", 1);
        assert!(store.sign_up(&taken_account, ROOM).await.unwrap_err().is_conflict());
        let foreign_user = sign_up("example.net", "ann@nowhere.example", 1);
        assert!(store.sign_up(&foreign_user, ROOM).await.is_err());

        assert_eq!(store.accounts().get(&email("new@example.org")).await, Ok(None));
        assert_eq!(store.domains().get(&domain("example.net")).await, Ok(None));
        assert_eq!(store.permissions().of(&email("ann@example.org")).await, Ok(vec![]));
        assert_eq!(store.tokens().list(&TokenFilter::default(), page(50, 0)).await.unwrap().total, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_up_brings_a_pending_domain_its_manager_and_a_session() {
    on_every_engine(async |store| {
        let new = sign_up("example.net", "ann@example.net", 1);
        let session = store.sign_up(&new, ROOM).await.unwrap();

        let stored = store.tokens().by_hash(&new.session.hash).await.unwrap().unwrap();
        assert_eq!(stored.record, session);
        assert!(session.is_session && session.is_active && stored.owner_active);
        let pending = DomainFilter { pending: true, ..DomainFilter::default() };
        let listed = store.domains().list(&pending, page(50, 0)).await.unwrap();
        assert_eq!((listed.total, listed.items[0].user_count), (1, 1));
        let held = store.permissions().of(&email("ann@example.net")).await.unwrap();
        let held: Vec<_> =
            held.iter().map(|record| (record.permission, record.domain.as_str(), record.granted_by.as_str())).collect();
        assert_eq!(held, [(Permission::ManageDomains, "example.net", "signup")]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ups_at_the_same_time_do_not_exceed_their_limits() {
    on_every_engine(async |store| {
        for (network, session) in [("192.0.2.1", 0), ("192.0.2.2", 40), ("192.0.2.3", 80)] {
            let new = |n: u8| {
                let name = format!("d{}.example", session + n);
                let new = sign_up(&name, &format!("ann@{name}"), session + n);
                NewSignUp { from: network.to_owned(), ..new }
            };
            let all: Vec<_> = (0..30).map(new).collect();
            let outcomes = join_all(all.iter().map(|new| store.sign_up(new, ROOM))).await;

            let failed = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
            assert!(failed.clone().all(StoreError::is_guard_failed), "{:?}", failed.collect::<Vec<_>>());
            let (added, last) = (outcomes.iter().filter(|outcome| outcome.is_ok()).count(), session == 80);
            assert_eq!(added, if last { 0 } else { 10 }, "{network}: ten of a client, and twenty of all");
            assert!(!store.has_room_for_sign_up(network, ROOM).await.unwrap());
        }
        let pending = DomainFilter { pending: true, ..DomainFilter::default() };
        assert_eq!(store.domains().list(&pending, page(50, 0)).await.unwrap().total, 20);
    })
    .await;
}
