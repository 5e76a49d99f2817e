//! The daily check of the records of every domain, and the steps of DKIM keys.

use std::time::Duration;

use mailapi_backend::ZoneDns as _;
use mailapi_model::{
    Clock as _, DkimAlgorithm, DkimState, DnsProvider, DomainName, RecordKind, Secret, TsigAlgorithm, TsigKey,
    UpdateServer,
};
use mailapi_service::Caller;
use mailapi_service::events::{After, EventQuery};
use mailapi_testkit::TestApp;
use serde_json::Value;

use crate::caller;

const HOST: &str = "mx.example.net";
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A server with the domain `example.org`, all of whose records are published at two name servers.
struct Watched {
    app: TestApp,
    name: DomainName,
}

impl Watched {
    async fn new() -> Self {
        Self::with(None).await
    }

    async fn with(rotate_after: Option<Duration>) -> Self {
        let app = TestApp::start_with(|settings| {
            settings.service.mail_host = HOST.to_owned();
            settings.service.dkim_rotate_after = rotate_after;
        })
        .await;
        app.domain("example.org").await;
        let dns = &app.dns;
        dns.set_addresses(HOST, &["192.0.2.17"]);
        dns.set_mx("example.org", &[HOST]);
        dns.set_txt("example.org", &["v=spf1 mx -all"]);
        dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=reject"]);
        dns.set_zone("example.org", &["ns1.example.org", "ns2.example.org"]);
        dns.set_addresses("ns1.example.org", &["192.0.2.53"]);
        dns.set_addresses("ns2.example.org", &["192.0.2.54"]);
        let watched = Self { app, name: "example.org".parse().unwrap() };
        watched.publish_newest().await;
        watched
    }

    /// Publishes the record of the newest key by hand.
    async fn publish_newest(&self) {
        let key = self.app.store.dkim_keys().list(&self.name).await.unwrap().remove(0).key;
        self.app.dns.set_txt(&key.dns_name(&self.name), &[&key.dns_value()]);
    }

    async fn check_after(&self, time: Duration) {
        self.app.clock.advance(time);
        assert!(!self.app.service.watch_domains_once().await.unwrap(), "one domain is all");
    }

    async fn is_verified(&self) -> bool {
        self.app.store.domains().get(&self.name).await.unwrap().unwrap().verified_at.is_some()
    }

    /// Returns the algorithm and state of each key, newest first.
    async fn keys(&self) -> Vec<(DkimAlgorithm, DkimState)> {
        let keys = self.app.store.dkim_keys().list(&self.name).await.unwrap();
        keys.into_iter().map(|key| (key.key.algorithm, key.state())).collect()
    }

    /// Returns the types of the events about the domain after its creation, each with the state of a key if it has one.
    async fn events(&self) -> Vec<String> {
        let query = EventQuery { after: After::Start, ..EventQuery::default() };
        while self.app.service.read_events_once().await.unwrap() {}
        let admin = caller(&self.app, self.app.admin()).await;
        let page = self.app.service.list_events(&admin, &query, 100, Duration::ZERO).await.unwrap();
        let bodies = page.events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap());
        let shown = bodies.map(|body| match body["data"]["state"].as_str() {
            Some(state) => format!("{} {state}", body["type"].as_str().unwrap()),
            None => body["type"].as_str().unwrap().to_owned(),
        });
        shown.filter(|event| event.starts_with("domain.") && event != "domain.created").collect()
    }

    async fn rotate(&self, algorithm: DkimAlgorithm) {
        self.app.service.rotate_dkim(&Caller::operator(), &self.name, algorithm).await.unwrap();
    }
}

#[tokio::test]
async fn what_breaks_is_an_event_after_two_checks() {
    let watched = Watched::new().await;
    watched.check_after(DAY).await;
    assert!(watched.is_verified().await, "the first check finds what was published by hand");
    watched.app.dns.set_mx("example.org", &["old.example.com"]);
    watched.check_after(HOUR * 23).await;
    watched.check_after(HOUR).await;
    assert!(watched.is_verified().await, "one check can see a change that is not complete");
    watched.check_after(HOUR - Duration::from_secs(1)).await;
    assert!(watched.is_verified().await, "too early for the second check");
    watched.check_after(Duration::from_secs(2)).await;
    assert!(!watched.is_verified().await);
    watched.app.dns.set_mx("example.org", &[HOST]);
    watched.check_after(DAY).await;
    assert!(watched.is_verified().await);
    assert_eq!(watched.events().await, ["domain.verified", "domain.unverified", "domain.verified"]);
}

#[tokio::test]
async fn a_record_that_was_mended_in_time_is_no_event() {
    let watched = Watched::new().await;
    watched.check_after(DAY).await;
    for _ in 0..2 {
        watched.app.dns.set_mx("example.org", &["old.example.com"]);
        watched.check_after(DAY).await;
        watched.app.dns.set_mx("example.org", &[HOST]);
        watched.check_after(HOUR).await;
        watched.check_after(HOUR).await;
    }
    // Name servers that do not answer prove nothing.
    watched.app.dns.silence("example.org");
    for _ in 0..4 {
        watched.check_after(DAY).await;
    }
    assert!(watched.is_verified().await);
    assert_eq!(watched.events().await, ["domain.verified"]);
}

#[tokio::test]
async fn a_server_with_a_local_name_checks_nothing() {
    let app = TestApp::start_with(|settings| settings.service.mail_host = "mail.local".to_owned()).await;
    app.domain("example.org").await;
    app.clock.advance(DAY);
    app.service.watch_domains_once().await.unwrap();
    let waiting = app.store.domains().due_for_check(app.clock.now(), app.clock.now(), 10).await.unwrap();
    assert_eq!(waiting.len(), 1, "no check has begun");
}

#[tokio::test]
async fn many_domains_are_checked_in_steps() {
    let watched = Watched::new().await;
    for number in 0..20 {
        watched.app.domain(&format!("d{number}.example")).await;
    }
    watched.app.clock.advance(DAY);
    assert!(watched.app.service.watch_domains_once().await.unwrap(), "one more waits");
    assert!(!watched.app.service.watch_domains_once().await.unwrap());
    assert!(watched.is_verified().await);
    let soon = watched.app.clock.now();
    let day_ago = soon.minus(DAY);
    assert_eq!(watched.app.store.domains().due_for_check(day_ago, day_ago, 99).await.unwrap(), []);
}

#[tokio::test]
async fn a_key_signs_when_each_name_server_has_it_and_retires_later() {
    use DkimAlgorithm::Rsa2048;
    let watched = Watched::new().await;
    watched.rotate(Rsa2048).await;
    watched.check_after(HOUR).await;
    assert_eq!(watched.keys().await, [(Rsa2048, DkimState::Pending), (Rsa2048, DkimState::Active)]);
    watched.publish_newest().await;
    watched.app.dns.set_late("192.0.2.54", true);
    watched.check_after(HOUR).await;
    assert_eq!(watched.keys().await, [(Rsa2048, DkimState::Published), (Rsa2048, DkimState::Active)]);
    watched.app.dns.set_late("192.0.2.54", false);
    watched.check_after(HOUR).await;
    assert_eq!(watched.keys().await, [(Rsa2048, DkimState::Active), (Rsa2048, DkimState::Retiring)]);
    for _ in 0..7 {
        watched.check_after(DAY).await;
    }
    assert_eq!(watched.keys().await[1].1, DkimState::Retiring, "mail that it signed is under way");
    watched.check_after(DAY).await;
    assert_eq!(watched.keys().await, [(Rsa2048, DkimState::Active), (Rsa2048, DkimState::Retired)]);
    let states = ["pending", "published", "active", "retiring", "retired"];
    let steps: Vec<_> = states.iter().map(|state| format!("domain.dkim_key_changed {state}")).collect();
    let events = watched.events().await;
    assert_eq!(events.iter().filter(|event| event.starts_with("domain.dkim")).cloned().collect::<Vec<_>>(), steps);
}

#[tokio::test]
async fn old_keys_of_both_algorithms_are_replaced_alone() {
    use DkimAlgorithm::{Ed25519, Rsa2048};
    let watched = Watched::with(Some(DAY * 90)).await;
    watched.rotate(Ed25519).await;
    watched.publish_newest().await;
    watched.check_after(DAY).await;
    assert_eq!(watched.keys().await, [(Ed25519, DkimState::Active), (Rsa2048, DkimState::Active)]);
    let secret = Secret::new(b"secret".to_vec());
    let key = TsigKey { name: "mailapi".to_owned(), algorithm: TsigAlgorithm::HmacSha256, secret };
    let provider = DnsProvider::NameServer(UpdateServer { server: "192.0.2.53".to_owned(), key });
    watched.app.store.dns_providers().set(&watched.name, &provider).await.unwrap();
    watched.check_after(DAY * 89).await;
    assert_eq!(watched.keys().await.len(), 3, "the key of the domain is 90 days old, the other one is not");
    watched.check_after(DAY).await;
    for _ in 0..10 {
        watched.check_after(DAY).await;
    }
    use DkimState::{Active, Retired};
    let all = [(Ed25519, Active), (Rsa2048, Active), (Ed25519, Retired), (Rsa2048, Retired)];
    assert_eq!(watched.keys().await, all);
    let keys = watched.app.store.dkim_keys().list(&watched.name).await.unwrap();
    let published = async |place: usize| {
        let name = keys[place].key.dns_name(&watched.name);
        let server = "192.0.2.53:53".parse().unwrap();
        let found = watched.app.dns.records_at(server, &name, RecordKind::Txt).await.unwrap();
        found.set.records.len()
    };
    let counts = [published(0).await, published(1).await, published(2).await, published(3).await];
    assert_eq!(counts, [1, 1, 0, 0], "a provider publishes new keys, and removes retired ones");
}
