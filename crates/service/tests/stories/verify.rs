//! Checks of a domain's DNS records.

use std::collections::HashSet;
use std::sync::Arc;

use mailapi_model::{DkimAlgorithm, DomainName, Secret};
use mailapi_service::auth::SignUp;
use mailapi_service::domains::{DnsReport, Publication, RecordCheck, RecordStatus};
use mailapi_service::{Caller, Parts, Service, Settings};
use mailapi_testkit::{FakeDns, PASSWORD, TestApp};

use crate::{caller, parts};

const HOST: &str = "mx.example.net";

async fn app_with_domain() -> (TestApp, DomainName) {
    let app = TestApp::start_with(|settings| settings.service.mail_host = HOST.to_owned()).await;
    app.domain("example.org").await;
    (app, "example.org".parse().unwrap())
}

async fn verified(app: &TestApp, name: &DomainName) -> DnsReport {
    let admin = caller(app, app.admin()).await;
    app.service.verify_domain(&admin, name).await.unwrap()
}

fn record<'a>(report: &'a DnsReport, kind: &str) -> &'a RecordCheck {
    report.records.iter().find(|record| record.kind == kind).unwrap()
}

/// Publishes all records that a domain needs.
async fn publish(app: &TestApp, name: &DomainName) {
    app.dns.set_addresses(HOST, &["192.0.2.17"]);
    app.dns.set_names("192.0.2.17", &[HOST]);
    app.dns.set_mx("example.org", &[HOST]);
    app.dns.set_txt("example.org", &["some other text", "v=spf1 include:spf.example.net -all"]);
    app.dns.set_txt("spf.example.net", &["v=spf1 ip4:192.0.2.0/24 ~all"]);
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=reject"]);
    let key = app.store.dkim_keys().signing(name).await.unwrap().remove(0);
    app.dns.set_txt(&key.dns_name(name), &[&key.dns_value()]);
}

#[tokio::test]
async fn an_unpublished_domain_lacks_every_record() {
    let (app, name) = app_with_domain().await;
    let report = verified(&app, &name).await;
    assert!(!report.verified);
    assert!(report.records.iter().all(|record| record.status == RecordStatus::Missing), "{report:#?}");
    assert_eq!(app.store.domains().get(&name).await.unwrap().unwrap().verified_at, None);
}

#[tokio::test]
async fn a_published_domain_is_verified_despite_advice() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    let report = verified(&app, &name).await;
    assert!(report.verified, "{report:#?}");
    assert_eq!(record(&report, "MTA-STS").status, RecordStatus::Missing);
    assert_eq!(record(&report, "PTR").status, RecordStatus::Ok);
    assert!(record(&report, "SPF").hint.contains("1 of 10"));
    assert!(app.store.domains().get(&name).await.unwrap().unwrap().verified_at.is_some());
}

#[tokio::test]
async fn what_was_just_published_is_found_in_spite_of_a_cache() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    // It knows the answers of an hour ago: no records.
    let (cached, settings) =
        (Arc::new(FakeDns::default()), Settings { mail_host: HOST.to_owned(), ..Settings::default() });
    let service = Service::new(Parts { dns: cached, settings, ..parts(&app) });
    let admin = caller(&app, app.admin()).await;
    assert!(service.verify_domain(&admin, &name).await.unwrap().verified);
    let setup = service.get_dns(&admin, &name).await.unwrap();
    assert!(
        setup.records.iter().any(|record| record.purpose == "MX" && record.status == Publication::Found),
        "{setup:#?}"
    );
}

#[tokio::test]
async fn a_server_without_a_public_name_is_not_recommended() {
    for host in ["localhost", "mailhost"] {
        let app = TestApp::start_with(|settings| settings.service.mail_host = host.to_owned()).await;
        app.domain("example.org").await;
        let name = "example.org".parse().unwrap();
        publish(&app, &name).await;
        app.dns.set_addresses(host, &["127.0.0.1"]);
        app.dns.set_names("127.0.0.1", &[host]);
        app.dns.set_mx("example.org", &[host]);
        app.dns.set_txt("example.org", &["v=spf1 ip4:127.0.0.1 -all"]);
        let report = verified(&app, &name).await;
        assert!(!report.verified, "{report:#?}");
        for kind in ["MX", "PTR"] {
            let record = record(&report, kind);
            assert!(record.status != RecordStatus::Ok && record.hint.contains("mail.embedded.hostname"), "{record:#?}");
        }
        let recommends = |record: &RecordCheck| record.expected.split([' ', ':', '.']).any(|word| word == host);
        assert!(!report.records.iter().any(recommends), "{report:#?}");
    }
}

#[tokio::test]
async fn silence_is_no_absence_and_forgets_nothing() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    verified(&app, &name).await;
    app.dns.silence("_dmarc.example.org");
    let report = verified(&app, &name).await;
    assert_eq!((report.verified, record(&report, "DMARC").status), (false, RecordStatus::Error));
    assert!(app.store.domains().get(&name).await.unwrap().unwrap().verified_at.is_some());
}

#[tokio::test]
async fn a_look_up_of_a_host_that_fails_is_no_answer() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    app.dns.set_mx("example.org", &["alias.example.net", "backup.example.net"]);
    app.dns.set_addresses("alias.example.net", &["192.0.2.17"]);
    assert!(verified(&app, &name).await.verified);
    app.dns.silence("alias.example.net");
    let report = verified(&app, &name).await;
    let mx = record(&report, "MX");
    assert_eq!((mx.status, mx.found.len()), (RecordStatus::Error, 2), "{mx:#?}");
    app.dns.set_mx("example.org", &[HOST]);
    app.dns.silence(HOST);
    let report = verified(&app, &name).await;
    let statuses = ["MX", "SPF", "PTR"].map(|kind| record(&report, kind).status);
    assert_eq!(statuses, [RecordStatus::Ok, RecordStatus::Error, RecordStatus::Error]);
    assert!(app.store.domains().get(&name).await.unwrap().unwrap().verified_at.is_some());
}

/// Sets exchanges, each with an address of another server, best first.
fn set_strange_exchanges(app: &TestApp, count: usize) {
    let exchanges: Vec<String> = (0..count).map(|n| format!("mx{n}.example.net")).collect();
    exchanges.iter().for_each(|host| app.dns.set_addresses(host, &["198.51.100.1"]));
    app.dns.set_mx("example.org", &exchanges.iter().map(String::as_str).collect::<Vec<_>>());
}

#[tokio::test]
async fn exchanges_beyond_the_limit_leave_the_result_open() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    let verified_at = async || app.store.domains().get(&name).await.unwrap().unwrap().verified_at;
    assert!(verified(&app, &name).await.verified);
    set_strange_exchanges(&app, 5000);
    app.dns.silence("mx10.example.net");
    let report = verified(&app, &name).await;
    let mx = record(&report, "MX");
    assert_eq!((report.verified, mx.status, mx.found.len()), (false, RecordStatus::Error, 5000));
    assert!(mx.hint.contains("first 10 hosts"), "the silent exchange is not looked up: {}", mx.hint);
    assert!(verified_at().await.is_some(), "an exchange that was not looked up may be this server");
    app.dns.set_addresses("mx9.example.net", &["192.0.2.17"]);
    assert_eq!(record(&verified(&app, &name).await, "MX").status, RecordStatus::Ok);
    set_strange_exchanges(&app, 10);
    assert_eq!(record(&verified(&app, &name).await, "MX").status, RecordStatus::Mismatch);
    assert_eq!(verified_at().await, None);
}

#[tokio::test]
async fn an_exchange_without_a_valid_name_has_no_address() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    app.dns.set_txt("example.org", &["v=spf1 mx -all"]);
    for broken in ["mx 1.example.net", "mx..example.net", &format!("{}.example.net", "a".repeat(64))] {
        app.dns.silence(broken);
        app.dns.set_mx("example.org", &[broken]);
        let report = verified(&app, &name).await;
        let statuses = ["MX", "SPF"].map(|kind| record(&report, kind).status);
        assert_eq!(statuses, [RecordStatus::Mismatch; 2], "{broken}");
        app.dns.set_mx("example.org", &[broken, HOST]);
        assert!(verified(&app, &name).await.verified, "{broken}");
    }
}

#[tokio::test]
async fn a_policy_that_is_broken_or_leaves_us_out_is_a_mismatch() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    let eleven: Vec<String> = (0..11).map(|n| format!("a:h{n}.example.net")).collect();
    for (policy, hint) in [
        ("v=spf1 ip4:198.51.100.1 -all", "does not allow"),
        ("v=spf1 include:nowhere.example -all", "has no policy"),
        ("v=spf1 include:example.org -all", "do not end"),
        ("v=spf1 unheard:of -all", "syntax error in unheard:of"),
        ("v=spf1 ip4:900.1.1.1 -all", "syntax error in ip4:900.1.1.1"),
        ("v=spf1 ip6:2001:db8::/129 -all", "syntax error"),
        (&format!("v=spf1 {} ip4:192.0.2.17 -all", eleven.join(" ")), "11 look-ups"),
    ] {
        app.dns.set_txt("example.org", &[policy]);
        assert_spf_mismatch(&app, &name, hint).await;
    }
    let many: Vec<String> = (0..11).map(|n| format!("mx{n}.example.net")).collect();
    app.dns.set_mx("many.example", &many.iter().map(String::as_str).collect::<Vec<_>>());
    app.dns.set_txt("example.org", &["v=spf1 mx:many.example -all"]);
    assert_spf_mismatch(&app, &name, "more than 10 mail servers").await;
    app.dns.set_txt("example.org", &["v=spf1 ip4:192.0.2.17 -all", "v=spf1 -all"]);
    assert_spf_mismatch(&app, &name, "keep one").await;
}

/// Asserts that the published policy does not allow this server to send, and that the hint names the reason.
async fn assert_spf_mismatch(app: &TestApp, name: &DomainName, reason: &str) {
    let report = verified(app, name).await;
    let spf = record(&report, "SPF");
    assert_eq!(spf.status, RecordStatus::Mismatch, "{}", spf.hint);
    assert!(spf.hint.contains(reason), "{reason}: {}", spf.hint);
}

#[tokio::test]
async fn an_include_tree_beyond_the_limit_ends_the_lookup() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    for level in 0..9 {
        let includes = format!("include:t{}.example ", level + 1).repeat(30);
        app.dns.set_txt(&format!("t{level}.example"), &[&format!("v=spf1 {includes}-all")]);
    }
    app.dns.set_txt("t9.example", &["v=spf1 -all"]);
    app.dns.set_txt("example.org", &["v=spf1 include:t0.example -all"]);
    assert_spf_mismatch(&app, &name, "more than 100 look-ups").await;
}

#[tokio::test]
async fn a_new_key_signs_only_when_the_world_can_find_it() {
    let (app, name) = app_with_domain().await;
    publish(&app, &name).await;
    let admin = caller(&app, app.admin()).await;
    let old = app.store.dkim_keys().signing(&name).await.unwrap().remove(0);
    let new = app.service.rotate_dkim(&admin, &name, DkimAlgorithm::Ed25519).await.unwrap();
    assert_ne!(new.selector, old.selector);

    let waiting = verified(&app, &name).await;
    assert!(waiting.verified, "the old key is still there and signs");
    assert_eq!(app.store.dkim_keys().signing(&name).await.unwrap().remove(0).selector, old.selector);

    app.dns.set_txt(&new.dns_name(&name), &[&new.dns_value()]);
    assert!(verified(&app, &name).await.verified);
    let signing = app.store.dkim_keys().signing(&name).await.unwrap();
    let signing: Vec<_> = signing.into_iter().map(|key| key.selector).collect();
    assert_eq!(signing, [old.selector, new.selector], "keys of both algorithms sign");
}

#[tokio::test]
async fn no_selector_is_ever_given_to_a_second_key() {
    let app = TestApp::start().await;
    let (admin, name) = (Caller::operator(), "again.example".parse::<DomainName>().unwrap());
    let mut had = HashSet::new();
    for _ in 0..3 {
        let domain = app.service.create_domain(&admin, name.clone(), None).await.unwrap();
        assert!(had.insert(domain.dkim_selector.unwrap()), "a domain that was deleted and created again");
        for _ in 0..2 {
            let key = app.service.rotate_dkim(&admin, &name, DkimAlgorithm::Ed25519).await.unwrap();
            assert!(had.insert(key.selector), "a key that was created again");
        }
        app.service.delete_domain(&admin, &name, true).await.unwrap();
    }
    let email = "ann@again.example".parse().unwrap();
    let password = Secret::new(PASSWORD.to_owned());
    let request = SignUp { domain: name.clone(), email, password, name: String::new() };
    app.service.sign_up(request, crate::HERE).await.unwrap();
    let approved = app.service.approve_domain(&admin, &name).await.unwrap();
    assert!(had.insert(approved.dkim_selector.unwrap()), "a domain that was signed up later");
    assert_eq!(had.len(), 10);
}

#[tokio::test]
async fn dmarc_of_the_names_above_holds_as_receivers_read_it() {
    let (app, _) = app_with_domain().await;
    app.domain("mail.shop.example.org").await;
    let name: DomainName = "mail.shop.example.org".parse().unwrap();
    let dmarc = async |policy: &str| {
        app.dns.set_txt("_dmarc.example.org", &[policy]);
        let report = verified(&app, &name).await;
        let check = record(&report, "DMARC");
        (check.status, check.hint.clone())
    };
    app.dns.set_mx("mail.shop.example.org", &[HOST]);
    assert_eq!(dmarc("v=DMARC1; p=reject; sp=none").await.0, RecordStatus::Ok);
    assert_eq!(dmarc("v=DMARC1; p=reject; sp=never").await.0, RecordStatus::Mismatch);
    let (status, hint) = dmarc("v=DMARC1; rua=mailto:reports@example.org").await;
    assert!(status == RecordStatus::Ok && hint.contains("counts as p=none"), "{hint}");
    // Two policies at an intermediate name count as none, so the next one above applies.
    app.dns.set_txt("_dmarc.shop.example.org", &["v=DMARC1; p=none", "v=DMARC1; p=reject"]);
    let (status, hint) = dmarc("v=DMARC1; p=reject").await;
    assert!(status == RecordStatus::Ok && hint.contains("example.org"), "{hint}");
    // An endlessly long name causes eight queries only.
    let long = format!("{}example.org", "a.".repeat(40));
    app.domain(&long).await;
    app.dns.silence("_dmarc.a.a.a.a.a.a.example.org");
    let report = verified(&app, &long.parse().unwrap()).await;
    assert_eq!(record(&report, "DMARC").status, RecordStatus::Ok);
}

#[tokio::test]
async fn only_np_makes_dmarc_depend_on_the_name() {
    let (app, _) = app_with_domain().await;
    app.domain("shop.example.org").await;
    let name: DomainName = "shop.example.org".parse().unwrap();
    app.dns.silence("shop.example.org");
    for (policy, status) in [
        ("v=DMARC1; p=reject", RecordStatus::Ok),
        ("v=DMARC1; p=none; sp=reject", RecordStatus::Ok),
        ("v=DMARC1; p=none; np=reject", RecordStatus::Error),
    ] {
        app.dns.set_txt("_dmarc.example.org", &[policy]);
        assert_eq!(record(&verified(&app, &name).await, "DMARC").status, status, "{policy}");
    }
}
