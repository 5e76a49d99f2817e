use mailapi_model::{Alias, AliasChange};
use mailapi_store::{AliasFilter, AliasStored, EventFilter, EventScope, Store, StoreError};

use crate::engines::{Engine, add_account, at, domain, email, new_domain, on_every_engine, page};

fn alias(address: &str, members: &[&str], created: i64) -> Alias {
    let members = members.iter().map(|member| email(member)).collect();
    Alias { address: email(address), members, senders: Vec::new(), active: true, created_at: at(created) }
}

fn with_members(members: &[&str]) -> AliasChange {
    AliasChange { members: Some(members.iter().map(|member| email(member)).collect()), ..AliasChange::default() }
}

/// Returns a store with `example.org`, its user ann, and its alias team for her and bob.
async fn with_team(store: &Store) -> Alias {
    add_account(store, "ann@example.org", 1).await;
    let team = alias("team@example.org", &["bob@example.org", "ann@example.org"], 2);
    assert_eq!(store.aliases().insert(&team).await, Ok(AliasStored::Stored));
    team
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_given_once() {
    on_every_engine(async |store| {
        let team = with_team(store).await;
        for taken in ["team@example.org", "ann@example.org"] {
            let other = alias(taken, &["eve@example.org"], 3);
            assert_eq!(store.aliases().insert(&other).await, Ok(AliasStored::Taken), "{taken}");
        }
        let elsewhere = alias("team@nowhere.example", &["ann@example.org"], 3);
        assert_eq!(store.aliases().insert(&elsewhere).await, Err(StoreError::Reference));
        assert_eq!(store.aliases().get(&team.address).await, Ok(Some(team)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_that_lead_back_to_themselves_are_refused() {
    on_every_engine(async |store| {
        let team = with_team(store).await;
        let aliases = store.aliases();
        let all = alias("all@example.org", &["office@example.org"], 3);
        assert_eq!(aliases.insert(&all).await, Ok(AliasStored::Stored), "a member need not exist yet");
        let office = alias("office@example.org", &["ann@example.org", "all@example.org"], 4);
        assert_eq!(aliases.insert(&office).await, Ok(AliasStored::Loop));
        assert_eq!(aliases.get(&office.address).await, Ok(None), "nothing of it is stored");
        let office = alias("office@example.org", &["team@example.org"], 4);
        assert_eq!(aliases.insert(&office).await, Ok(AliasStored::Stored));
        let back = with_members(&["all@example.org"]);
        assert_eq!(aliases.update(&team.address, &back, at(5)).await, Ok(AliasStored::Loop));
        assert_eq!(aliases.get(&team.address).await, Ok(Some(team)), "the former members stay");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_lead_back_through_tags_and_catch_alls() {
    on_every_engine(async |store| {
        with_team(store).await;
        store.domains().insert(&new_domain("example.net", 1), None).await.unwrap();
        let add = async |address: &str, members: &[&str]| store.aliases().insert(&alias(address, members, 3)).await;
        // Tags.
        assert_eq!(add("a@example.org", &["b+x+y@example.org", "ann+x@example.org"]).await, Ok(AliasStored::Stored));
        assert_eq!(add("b@example.org", &["c@example.org", "a@example.org"]).await, Ok(AliasStored::Loop));
        assert_eq!(add("b@example.net", &["a+z@example.org"]).await, Ok(AliasStored::Stored), "another domain");
        assert_eq!(add("b+x+y@example.org", &["ann@example.org"]).await, Ok(AliasStored::Stored));
        assert_eq!(
            add("b@example.org", &["a@example.org"]).await,
            Ok(AliasStored::Stored),
            "b+x+y has its own members"
        );
        // Catch-alls.
        assert_eq!(add("*@example.org", &["info@example.org"]).await, Ok(AliasStored::Loop));
        assert_eq!(add("*@example.org", &["info+x@example.org"]).await, Ok(AliasStored::Loop));
        assert_eq!(
            add("*@example.org", &["ann+x@example.org", "team@example.org"]).await,
            Ok(AliasStored::Loop),
            "bob"
        );
        assert_eq!(add("*@example.org", &["ann+x@example.org", "x@example.net"]).await, Ok(AliasStored::Stored));
        assert_eq!(add("*@example.net", &["x@example.org"]).await, Ok(AliasStored::Loop), "x@example.net");
        let change = with_members(&["x@example.org"]);
        assert_eq!(store.aliases().update(&email("b@example.net"), &change, at(5)).await, Ok(AliasStored::Stored));
        assert_eq!(add("*@example.net", &["ann@example.org"]).await, Ok(AliasStored::Stored));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn senders_are_users_and_end_with_them() {
    on_every_engine(async |store| {
        let (team, aliases) = (with_team(store).await, store.aliases());
        add_account(store, "eve@example.org", 3).await;
        let senders = |of: &[&str]| {
            let senders = Some(of.iter().map(|sender| email(sender)).collect());
            AliasChange { senders, ..AliasChange::default() }
        };
        let unknown = senders(&["zoe@example.org"]);
        assert_eq!(aliases.update(&team.address, &unknown, at(3)).await, Err(StoreError::Reference));
        let both = senders(&["eve@example.org", "ann@example.org"]);
        assert_eq!(aliases.update(&team.address, &both, at(3)).await, Ok(AliasStored::Stored));
        let named = Alias { senders: both.senders.clone().unwrap(), ..team.clone() };
        assert_eq!(aliases.get(&team.address).await, Ok(Some(named.clone())));
        let others = with_members(&["eve@example.org"]);
        assert_eq!(aliases.update(&team.address, &others, at(4)).await, Ok(AliasStored::Stored));
        assert_eq!(aliases.get(&team.address).await.unwrap().unwrap().senders, named.senders, "they stay");
        store.accounts().delete(&email("eve@example.org"), at(5)).await.unwrap();
        add_account(store, "eve@example.org", 6).await;
        let listed = aliases.list(&AliasFilter::default(), page(10, 0)).await.unwrap().items;
        assert_eq!(
            (&listed[0].senders, &listed[0].members),
            (&vec![email("ann@example.org")], &others.members.unwrap())
        );
        let new = Alias { address: email("new@example.org"), ..named };
        assert_eq!(aliases.insert(&new).await, Ok(AliasStored::Stored));
        assert_eq!(aliases.get(&new.address).await, Ok(Some(new)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_is_changed_and_deleted() {
    on_every_engine(async |store| {
        let team = with_team(store).await;
        let (aliases, address) = (store.aliases(), team.address.clone());
        let off = AliasChange { active: Some(false), ..AliasChange::default() };
        assert_eq!(aliases.update(&address, &off, at(3)).await, Ok(AliasStored::Stored));
        let inactive = Alias { active: false, ..team };
        assert_eq!(aliases.get(&address).await, Ok(Some(inactive.clone())));
        let one = with_members(&["eve@example.org"]);
        assert_eq!(aliases.update(&address, &one, at(4)).await, Ok(AliasStored::Stored));
        let changed = Alias { members: vec![email("eve@example.org")], ..inactive };
        assert_eq!(aliases.get(&address).await, Ok(Some(changed)));
        assert_eq!(aliases.delete(&address, at(5)).await, Ok(true));
        assert_eq!(aliases.get(&address).await, Ok(None));
        assert_eq!(aliases.delete(&address, at(5)).await, Ok(false));
        assert_eq!(aliases.update(&address, &one, at(5)).await, Ok(AliasStored::Missing));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_are_listed_with_their_members() {
    on_every_engine(async |store| {
        let team = with_team(store).await;
        store.domains().insert(&new_domain("example.net", 3), None).await.unwrap();
        let other = alias("info@example.net", &["ann@example.org"], 4);
        let all = alias("*@example.org", &["ann@example.org"], 5);
        for alias in [&other, &all] {
            assert_eq!(store.aliases().insert(alias).await, Ok(AliasStored::Stored));
        }
        let list = async |filter: AliasFilter| store.aliases().list(&filter, page(10, 0)).await.unwrap();
        let everything = list(AliasFilter::default()).await;
        assert_eq!((everything.total, everything.items), (3, vec![all.clone(), other.clone(), team.clone()]));
        let second = store.aliases().list(&AliasFilter::default(), page(1, 1)).await.unwrap();
        assert_eq!((second.total, second.items), (3, vec![other.clone()]));
        let of_domain = AliasFilter { domains: Some(vec![domain("example.net")]), ..AliasFilter::default() };
        assert_eq!(list(of_domain).await.items, std::slice::from_ref(&other));
        for (q, found) in [("TEA", vec![&team]), ("bob@", vec![&team]), ("*", vec![&all]), ("100%", vec![])] {
            let filter = AliasFilter { q: Some(q.to_owned()), ..AliasFilter::default() };
            assert_eq!(list(filter).await.items.iter().collect::<Vec<_>>(), found, "{q}");
        }
        let hidden = AliasFilter { hide: vec![team.address.clone()], ..AliasFilter::default() };
        assert_eq!(list(hidden).await.total, 2);
        assert_eq!(store.aliases().after(None, 2).await, Ok(vec![all.clone(), other.clone()]));
        assert_eq!(store.aliases().after(Some(&other.address), 2).await, Ok(vec![team]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_is_deleted_with_its_aliases() {
    on_every_engine(async |store| {
        store.domains().insert(&new_domain("example.net", 1), None).await.unwrap();
        let info = alias("info@example.net", &["ann@example.org"], 2);
        assert_eq!(store.aliases().insert(&info).await, Ok(AliasStored::Stored));
        store.domains().delete(&domain("example.net"), false, at(3)).await.unwrap();
        store.domains().insert(&new_domain("example.net", 4), None).await.unwrap();
        assert_eq!(store.aliases().get(&info.address).await, Ok(None));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_an_alias_is_an_event() {
    on_every_engine(async |store| {
        let team = with_team(store).await;
        let fewer = with_members(&["ann@example.org"]);
        assert_eq!(store.aliases().update(&team.address, &fewer, at(3)).await, Ok(AliasStored::Stored));
        let other = alias("team@example.org", &["eve@example.org"], 3);
        assert_eq!(store.aliases().insert(&other).await, Ok(AliasStored::Taken), "no change and no event");
        store.aliases().delete(&team.address, at(4)).await.unwrap();
        store.events().number_new().await.unwrap();
        let oldest = store.events().oldest().await.unwrap();
        let events = store.events().after(oldest, &EventFilter::of(EventScope::All), 100).await.unwrap().events;
        let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
        let of_aliases = ["alias.created", "alias.updated", "alias.deleted"];
        assert_eq!(types.into_iter().filter(|name| name.starts_with("alias.")).collect::<Vec<_>>(), of_aliases);
        assert!(events.last().unwrap().body.contains(r#""data":{"address":"team@example.org"}"#));
    })
    .await;
}

/// Tests the view with the query of Postfix.
async fn postfix_finds_the_members(engine: Engine) {
    let store = &engine.store;
    with_team(store).await;
    add_account(store, "eve@example.org", 2).await;
    let members = |address: &str| {
        engine.sql(&format!("SELECT member FROM mailapi_virtual_aliases WHERE address = '{address}' ORDER BY member"))
    };
    assert_eq!(members("team@example.org"), "ann@example.org\nbob@example.org");
    assert_eq!(members("ann@example.org"), "", "no rewriting without a catch-all");
    let all = alias("*@example.org", &["eve@example.org"], 5);
    assert_eq!(store.aliases().insert(&all).await, Ok(AliasStored::Stored));
    assert_eq!(members("@example.org"), "eve@example.org");
    assert_eq!(members("ann@example.org"), "ann@example.org", "a mailbox keeps its mail");
    store.accounts().set_closed(&email("ann@example.org"), true).await.unwrap();
    assert_eq!(members("ann@example.org"), "", "a closed account gets no mail");
    let off = AliasChange { active: Some(false), ..AliasChange::default() };
    for address in ["team@example.org", "*@example.org"] {
        assert_eq!(store.aliases().update(&email(address), &off, at(6)).await, Ok(AliasStored::Stored));
    }
    assert_eq!(members("team@example.org") + &members("@example.org"), "", "inactive");
    let pending = mailapi_model::NewDomain { active: false, ..new_domain("pending.example", 4) };
    store.domains().insert(&pending, None).await.unwrap();
    let info = alias("info@pending.example", &["ann@example.org"], 5);
    assert_eq!(store.aliases().insert(&info).await, Ok(AliasStored::Stored));
    assert_eq!(members("info@pending.example"), "", "the mail of the domain may belong to another server");
}

#[tokio::test(flavor = "multi_thread")]
async fn postfix_finds_the_members_on_sqlite() {
    postfix_finds_the_members(Engine::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postfix_finds_the_members_on_postgres() {
    postfix_finds_the_members(Engine::postgres().await).await;
}
