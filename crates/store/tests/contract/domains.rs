use mailapi_model::{DkimAlgorithm, DkimKey, DkimState, DkimSteps, DomainKey};
use mailapi_store::{DomainChange, DomainDeleted, DomainFilter, NewGrant, StoreError};

use crate::engines::{add_account, at, dkim_key, domain, email, new_account, new_domain, on_every_engine, page};

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_is_there_once() {
    on_every_engine(async |store| {
        store.domains().insert(&new_domain("example.org", 0), Some(&dkim_key("m1"))).await.unwrap();
        let again = store.domains().insert(&new_domain("EXAMPLE.org", 1), Some(&dkim_key("m2"))).await.unwrap_err();
        assert!(again.is_conflict(), "{again}");
        assert!(!format!("{again:?}").contains("private"));
        let current = store.dkim_keys().signing(&domain("example.org")).await.unwrap().remove(0);
        assert_eq!(current.selector, "m1", "a rejected change stores no key");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_with_accounts_is_deleted_only_by_force() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 0).await;
        add_account(store, "bob@example.net", 0).await;
        let grant = NewGrant {
            email: email("bob@example.net"),
            domain: domain("example.org"),
            permissions: vec![mailapi_model::Permission::ViewStats],
            granted_by: "root".to_owned(),
            granted_at: at(1),
        };
        store.permissions().grant(&grant).await.unwrap();
        let name = domain("example.org");

        assert_eq!(store.domains().delete(&domain("nowhere.org"), true, at(9)).await, Ok(DomainDeleted::Missing));
        assert_eq!(store.domains().delete(&name, false, at(9)).await, Ok(DomainDeleted::NotEmpty));
        assert!(store.accounts().get(&email("ann@example.org")).await.unwrap().is_some());

        assert_eq!(store.domains().delete(&name, true, at(9)).await, Ok(DomainDeleted::Gone));
        assert_eq!(store.domains().get(&name).await, Ok(None));
        assert_eq!(store.accounts().get(&email("ann@example.org")).await, Ok(None));
        assert_eq!(store.permissions().of(&email("bob@example.net")).await, Ok(vec![]));
        assert_eq!(store.domains().approved_names().await, Ok(vec![domain("example.net")]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_domain_is_approved_and_signs_with_its_first_key() {
    on_every_engine(async |store| {
        let mut pending = new_domain("bücher.example", 0);
        pending.active = false;
        pending.creator_email = Some(email("ann@bücher.example"));
        store.domains().insert(&pending, None).await.unwrap();
        store.domains().insert(&new_domain("example.org", 1), None).await.unwrap();

        let only_pending = DomainFilter { pending: true, ..DomainFilter::default() };
        let listed = store.domains().list(&only_pending, page(50, 0)).await.unwrap();
        assert_eq!((listed.total, listed.items[0].name.shown()), (1, "bücher.example"));
        assert_eq!(listed.items[0].creator_email.as_ref().unwrap().shown(), "ann@bücher.example");
        assert_eq!((listed.items[0].dkim_selector.as_deref(), listed.items[0].approved), (None, false));

        assert_eq!(store.domains().approve(&domain("nowhere.org"), Some(&dkim_key("m1")), at(9)).await, Ok(false));
        assert_eq!(store.domains().approve(&pending.name, Some(&dkim_key("m1")), at(9)).await, Ok(true));
        assert_eq!(store.domains().approve(&pending.name, Some(&dkim_key("m2")), at(9)).await, Ok(true));
        let approved = store.domains().get(&pending.name).await.unwrap().unwrap();
        assert!(approved.active);
        assert_eq!(approved.dkim_selector.as_deref(), Some("m1"), "a second approval makes no second key");
        let off = DomainChange { active: Some(false), description: None };
        store.domains().update(&pending.name, &off, at(9)).await.unwrap();
        let waiting = store.domains().list(&only_pending, page(50, 0)).await.unwrap();
        assert_eq!(waiting.total, 0, "an approved domain does not wait for approval when it is inactive");
        assert!(store.domains().get(&pending.name).await.unwrap().unwrap().approved);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_waits_until_it_may_sign() {
    on_every_engine(async |store| {
        let name = domain("example.org");
        let orphan = store.dkim_keys().insert(&name, &dkim_key("m1")).await.unwrap_err();
        assert_eq!(orphan, StoreError::Reference);
        store.domains().insert(&new_domain("example.org", 0), Some(&dkim_key("m1"))).await.unwrap();
        store.dkim_keys().insert(&name, &dkim_key("m2")).await.unwrap();
        assert!(store.dkim_keys().insert(&name, &dkim_key("m2")).await.unwrap_err().is_conflict());

        let keys = store.dkim_keys().list(&name).await.unwrap();
        let states = |keys: &[DomainKey]| -> Vec<(String, DkimState)> {
            keys.iter().map(|key| (key.key.selector.clone(), key.state())).collect()
        };
        let named = |keys: &[(&str, DkimState)]| -> Vec<_> {
            keys.iter().map(|(selector, state)| ((*selector).to_owned(), *state)).collect()
        };
        assert_eq!(states(&keys), named(&[("m2", DkimState::Pending), ("m1", DkimState::Active)]));
        assert_eq!(keys[1].key.private_key.expose(), b"private");
        let (new, old, dkim) = (&keys[0].key, &keys[1].key, store.dkim_keys());

        assert_eq!(dkim.activate(&name, &dkim_key("m3"), at(5)).await, Ok(false), "there is no such key");
        assert_eq!(dkim.publish(&name, new, at(5)).await, Ok(true));
        assert_eq!(dkim.publish(&name, new, at(6)).await, Ok(false));
        assert_eq!(dkim.retire(&name, old, at(6)).await, Ok(false), "it signs");
        assert_eq!(dkim.activate(&name, new, at(7)).await, Ok(true));
        assert_eq!(dkim.activate(&name, new, at(8)).await, Ok(false));
        let signing: Vec<_> = dkim.signing(&name).await.unwrap().into_iter().map(|key| key.selector).collect();
        assert_eq!(signing, ["m2"]);
        assert_eq!(store.domains().get(&name).await.unwrap().unwrap().dkim_selector.as_deref(), Some("m2"));
        assert_eq!(dkim.retire(&name, old, at(9)).await, Ok(true));
        let keys = dkim.list(&name).await.unwrap();
        assert_eq!(states(&keys), named(&[("m2", DkimState::Active), ("m1", DkimState::Retired)]));
        let steps = |published, active, retiring, retired| DkimSteps {
            published_at: published,
            active_at: active,
            retiring_at: retiring,
            retired_at: retired,
        };
        assert_eq!(keys[0].steps, steps(Some(at(5)), Some(at(7)), None, None));
        assert_eq!(keys[1].steps, steps(None, Some(at(0)), Some(at(7)), Some(at(9))));
        assert_eq!(keys[1].key.private_key.expose(), b"", "a retired key is erased");

        // Of several keys of an algorithm that wait, the newest counts. Another algorithm has keys of its own.
        let other = DkimKey { algorithm: DkimAlgorithm::Ed25519, ..dkim_key("e1") };
        dkim.insert(&name, &other).await.unwrap();
        dkim.insert(&name, &dkim_key("m3")).await.unwrap();
        dkim.insert(&name, &dkim_key("m4")).await.unwrap();
        dkim.activate(&name, &other, at(11)).await.unwrap();
        let signing: Vec<_> = dkim.signing(&name).await.unwrap().into_iter().map(|key| key.selector).collect();
        assert_eq!(signing, ["m2", "e1"]);
        let shown = named(&[
            ("m4", DkimState::Pending),
            ("e1", DkimState::Active),
            ("m2", DkimState::Active),
            ("m3", DkimState::Retired),
            ("m1", DkimState::Retired),
        ]);
        assert_eq!(states(&dkim.list(&name).await.unwrap()), shown);

        // A key added later waits for activation too, even if it is the only one.
        let bare = domain("example.net");
        store.domains().insert(&new_domain("example.net", 1), None).await.unwrap();
        store.dkim_keys().insert(&bare, &dkim_key("m1")).await.unwrap();
        assert!(store.dkim_keys().signing(&bare).await.unwrap().is_empty());
        assert_eq!(store.dkim_keys().list(&bare).await.unwrap().remove(0).key.selector, "m1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_changes_only_what_it_names() {
    on_every_engine(async |store| {
        let name = domain("example.org");
        let mut new = new_domain("example.org", 0);
        new.description = Some("ours".to_owned());
        store.domains().insert(&new, None).await.unwrap();
        assert_eq!(store.domains().update(&domain("nowhere.org"), &DomainChange::default(), at(9)).await, Ok(false));

        let off = DomainChange { active: Some(false), description: None };
        assert_eq!(store.domains().update(&name, &off, at(9)).await, Ok(true));
        let changed = store.domains().get(&name).await.unwrap().unwrap();
        assert_eq!((changed.active, changed.description.as_deref()), (false, Some("ours")));

        let bare = DomainChange { active: None, description: Some(None) };
        assert_eq!(store.domains().update(&name, &bare, at(9)).await, Ok(true));
        assert_eq!(store.domains().set_verified(&name, at(7)).await, Ok(true));
        let changed = store.domains().get(&name).await.unwrap().unwrap();
        assert_eq!((changed.active, changed.description, changed.verified_at), (false, None, Some(at(7))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_newest_first_and_never_overlap() {
    on_every_engine(async |store| {
        for n in 0..7 {
            // All have the same creation time, so the name decides.
            store.domains().insert(&new_domain(&format!("d{n}.example"), 0), None).await.unwrap();
        }
        add_account(store, "ann@d3.example", 0).await;
        let mut seen = Vec::new();
        for offset in [0, 3, 6, 9] {
            let listed = store.domains().list(&DomainFilter::default(), page(3, offset)).await.unwrap();
            assert_eq!(listed.total, 7);
            seen.extend(listed.items.into_iter().map(|domain| (domain.name.to_string(), domain.user_count)));
        }
        let expected: Vec<_> = (0..7).rev().map(|n| (format!("d{n}.example"), u64::from(n == 3))).collect();
        assert_eq!(seen, expected);

        let only = |names: &[&str]| DomainFilter {
            only: Some(names.iter().map(|name| domain(name)).collect()),
            pending: false,
        };
        let some = store.domains().list(&only(&["d1.example", "d5.example", "x.example"]), page(50, 0)).await.unwrap();
        assert_eq!(some.total, 2);
        assert_eq!(store.domains().list(&only(&[]), page(50, 0)).await.unwrap().total, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_unapproved_domain_expires() {
    on_every_engine(async |store| {
        for (n, name) in ["old.example", "approved.example", "new.example"].iter().enumerate() {
            let mut pending = new_domain(name, if n < 2 { 1 } else { 9 });
            pending.active = false;
            store.domains().insert(&pending, None).await.unwrap();
            store.accounts().insert(&new_account(&format!("ann@{name}"), 1)).await.unwrap();
        }
        let waiting = store.domains().unapproved_since(at(5), 10).await.unwrap();
        assert_eq!(waiting, [domain("approved.example"), domain("old.example")]);
        assert_eq!(store.domains().unapproved_since(at(5), 1).await.unwrap().len(), 1);

        store.domains().approve(&domain("approved.example"), None, at(9)).await.unwrap();
        assert_eq!(store.domains().unapproved_since(at(5), 10).await.unwrap(), [domain("old.example")]);
    })
    .await;
}
