use mailapi_model::{Permission, TokenKind};
use mailapi_store::{DomainFilter, NewSignUp, TokenFilter};

use crate::engines::{add_account, at, domain, email, new_account, new_domain, on_every_engine, page};
use crate::tokens::new_token;

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
        assert!(store.sign_up(&taken_domain).await.unwrap_err().is_conflict());
        let taken_account = sign_up("example.net", "ann@example.org", 1);
        assert!(store.sign_up(&taken_account).await.unwrap_err().is_conflict());
        let foreign_user = sign_up("example.net", "ann@nowhere.example", 1);
        assert!(store.sign_up(&foreign_user).await.is_err());

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
        let session = store.sign_up(&new).await.unwrap();

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
