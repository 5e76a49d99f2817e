use mailapi_model::{Permission, PermissionId};
use mailapi_store::{NewGrant, PermissionFilter, StoreError};

use crate::engines::{add_account, at, domain, email, on_every_engine, page};

fn grant(who: &str, on: &str, permissions: &[Permission]) -> NewGrant {
    NewGrant {
        email: email(who),
        domain: domain(on),
        permissions: permissions.to_vec(),
        granted_by: "root".to_owned(),
        granted_at: at(1),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_needs_an_account_and_a_domain() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        let view = [Permission::ViewMailbox];
        for wrong in [grant("bob@example.org", "example.org", &view), grant("ann@example.org", "example.net", &view)] {
            assert_eq!(store.permissions().grant(&wrong).await, Err(StoreError::Reference));
        }
        assert_eq!(store.permissions().list(&PermissionFilter::default(), page(50, 0)).await.unwrap().total, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_already_is_skipped() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        let names = async |permissions: &[Permission]| {
            let records =
                store.permissions().grant(&grant("ann@example.org", "example.org", permissions)).await.unwrap();
            records.into_iter().map(|record| record.permission).collect::<Vec<_>>()
        };
        assert_eq!(names(&[Permission::ViewStats]).await, [Permission::ViewStats]);
        assert_eq!(
            names(&[Permission::SendMail, Permission::ViewStats, Permission::SendMail]).await,
            [Permission::SendMail]
        );
        assert_eq!(names(&[]).await, []);
        assert_eq!(store.permissions().of(&email("ann@example.org")).await.unwrap().len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_is_listed_found_and_taken_away() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        add_account(store, "bob@example.net", 0).await;
        let all = grant("ann@example.org", "example.org", &Permission::ALL);
        let records = store.permissions().grant(&all).await.unwrap();
        store.permissions().grant(&grant("bob@example.net", "example.org", &[Permission::ViewStats])).await.unwrap();
        store.permissions().grant(&grant("bob@example.net", "example.net", &[Permission::ViewStats])).await.unwrap();

        let of =
            |who: Option<&str>, on: Option<&str>| PermissionFilter { email: who.map(email), domain: on.map(domain) };
        let total = async |filter| store.permissions().list(&filter, page(2, 0)).await.unwrap().total;
        assert_eq!(total(of(None, None)).await, 7);
        assert_eq!(total(of(Some("ann@example.org"), None)).await, 5);
        assert_eq!(total(of(None, Some("example.org"))).await, 6);
        assert_eq!(total(of(Some("bob@example.net"), Some("example.org"))).await, 1);

        let first = records[0].clone();
        assert_eq!(store.permissions().get(first.id).await, Ok(Some(first.clone())));
        assert_eq!(store.permissions().revoke(PermissionId(99)).await, Ok(None));
        assert_eq!(store.permissions().revoke(first.id).await, Ok(Some(first.clone())));
        assert_eq!(store.permissions().get(first.id).await, Ok(None));
        assert_eq!(store.permissions().of(&email("ann@example.org")).await.unwrap().len(), 4);
    })
    .await;
}
