use mailapi_model::{
    ChangeState, DnsProvider, DomainName, ProviderAccount, RecordData, RecordKind, RecordSet, RecordedChange, Secret,
    SetChange, TsigAlgorithm, TsigKey, UpdateServer,
};
use mailapi_store::{DomainDeleted, Store, StoreError};

use crate::engines::{at, new_domain, on_every_engine, page};

fn domain(name: &str) -> DomainName {
    name.parse().unwrap()
}

async fn add_domain(store: &Store) {
    store.domains().insert(&new_domain("example.org", 0), None).await.unwrap();
}

fn change(number: u32) -> SetChange {
    let text = format!("number {number} \" \\ é");
    let after = RecordSet { ttl: 3600, records: vec![RecordData::text(&text), RecordData::text(&"a".repeat(300))] };
    SetChange {
        zone: "example.org".to_owned(),
        name: format!("name{number}.example.org"),
        kind: RecordKind::Txt,
        before: RecordSet::default(),
        after,
    }
}

async fn begun(store: &Store, plan: &str, number: u32) -> i64 {
    store.dns_changes().begin(&domain("example.org"), plan, &change(number), at(1)).await.unwrap()
}

fn ids(changes: &[RecordedChange]) -> Vec<i64> {
    changes.iter().map(|change| change.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_has_one_provider_which_ends_with_it() {
    on_every_engine(async |store| {
        let (providers, name) = (store.dns_providers(), domain("example.org"));
        let key = TsigKey {
            name: "mailapi".to_owned(),
            algorithm: TsigAlgorithm::HmacSha512,
            secret: Secret::new(vec![0, 255, 7]),
        };
        let provider =
            DnsProvider::NameServer(UpdateServer { server: "ns.example.org:53".to_owned(), key: key.clone() });
        assert_eq!(providers.set(&name, &provider).await, Err(StoreError::Reference), "no such domain");
        add_domain(store).await;
        assert_eq!(providers.get(&name).await, Ok(None));
        providers.set(&name, &provider).await.unwrap();
        let secret = |value: &str| Secret::new(value.to_owned());
        let credentials = [("api_token".to_owned(), secret("a=b c")), ("key".to_owned(), secret("x"))].into();
        let hosted = DnsProvider::Hosted(ProviderAccount { provider: "cloudflare".to_owned(), credentials });
        let other = DnsProvider::NameServer(UpdateServer { server: "192.0.2.1:53".to_owned(), key });
        for next in [hosted, other.clone()] {
            providers.set(&name, &next).await.unwrap();
            assert_eq!(providers.get(&name).await, Ok(Some(next)));
        }
        assert_eq!((providers.delete(&name).await, providers.delete(&name).await), (Ok(true), Ok(false)));
        providers.set(&name, &other).await.unwrap();
        begun(store, "p", 1).await;
        assert_eq!(store.domains().delete(&name, false, at(2)).await, Ok(DomainDeleted::Gone));
        assert_eq!(providers.get(&name).await, Ok(None));
        assert_eq!(store.dns_changes().list(&name, page(50, 0)).await.unwrap().total, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_found_by_their_state_and_plan() {
    on_every_engine(async |store| {
        add_domain(store).await;
        let (changes, name) = (store.dns_changes(), domain("example.org"));
        let [one, two, three] = [begun(store, "a", 1).await, begun(store, "a", 2).await, begun(store, "b", 3).await];
        assert_eq!(ids(&changes.pending(&name).await.unwrap()), [one, two, three]);
        assert_eq!(changes.newest_applied(&name).await, Ok(Vec::new()));
        for id in [one, two] {
            changes.set_state(id, ChangeState::Applied, at(5)).await.unwrap();
        }
        changes.set_state(three, ChangeState::Refused, at(6)).await.unwrap();
        assert_eq!(ids(&changes.newest_applied(&name).await.unwrap()), [two, one]);
        changes.set_state(two, ChangeState::RolledBack, at(7)).await.unwrap();
        assert_eq!(ids(&changes.newest_applied(&name).await.unwrap()), [one]);
        let listed = changes.list(&name, page(2, 0)).await.unwrap();
        assert_eq!((listed.total, ids(&listed.items)), (3, vec![three, two]));
        let expected = RecordedChange {
            id: two,
            plan: "a".to_owned(),
            change: change(2),
            state: ChangeState::RolledBack,
            at: at(7),
        };
        assert_eq!(listed.items[1], expected);
        assert_eq!(changes.pending(&domain("example.net")).await, Ok(Vec::new()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_keeps_its_newest_changes() {
    on_every_engine(async |store| {
        add_domain(store).await;
        for number in 0..203 {
            begun(store, "p", number).await;
        }
        let listed = store.dns_changes().list(&domain("example.org"), page(1, 199)).await.unwrap();
        assert_eq!((listed.total, listed.items[0].change.name.as_str()), (200, "name3.example.org"));
    })
    .await;
}
