//! The DNS records that a domain needs.

use mailapi_model::{Clock, DkimAlgorithm, DomainName, Grants, Secret};
use mailapi_service::auth::SignUp;
use mailapi_service::domains::{DnsSetup, DomainError, Publication, WantedRecord};
use mailapi_service::{Caller, MailPrograms};
use mailapi_testkit::{PASSWORD, TestApp};

use crate::with;

const HOST: &str = "mx.example.net";
const PROGRAMS: MailPrograms =
    MailPrograms::BuiltIn { submission: Some(587), submissions: None, imap: Some(143), imaps: None };

async fn app_with_domain() -> (TestApp, DomainName) {
    let app = app(HOST, PROGRAMS).await;
    app.domain("example.org").await;
    (app, "example.org".parse().unwrap())
}

async fn app(host: &str, programs: MailPrograms) -> TestApp {
    TestApp::start_with(|settings| {
        settings.service.mail_host = host.to_owned();
        settings.service.mail_programs = programs;
    })
    .await
}

async fn setup(app: &TestApp, name: &DomainName) -> DnsSetup {
    app.service.get_dns(&Caller::operator(), name).await.unwrap()
}

fn record<'a>(setup: &'a DnsSetup, purpose: &str) -> &'a WantedRecord {
    setup.records.iter().find(|record| record.purpose == purpose).unwrap()
}

fn statuses(setup: &DnsSetup) -> Vec<(&'static str, Publication)> {
    setup.records.iter().map(|record| (record.purpose, record.status)).collect()
}

/// The lines of the zone file that are not comments.
fn pasted(setup: &DnsSetup) -> Vec<&str> {
    setup.zone_file.lines().filter(|line| !line.starts_with(';')).collect()
}

/// Publishes a record as an operator does.
fn publish(app: &TestApp, record: &WantedRecord) {
    let value = record.value.as_deref().unwrap();
    let host = value.rsplit(' ').next().unwrap().trim_end_matches('.');
    match record.record_type {
        "MX" => app.dns.set_mx(&record.name, &[host]),
        "SRV" => app.dns.set_srv(&record.name, value.split(' ').nth(2).unwrap().parse().unwrap(), host),
        "TXT" => app.dns.set_txt(&record.name, &[value]),
        _ => app.dns.set_names("192.0.2.17", &[host]),
    }
}

#[tokio::test]
async fn only_managers_of_a_known_domain_see_its_records() {
    let (app, name) = app_with_domain().await;
    let grants = Grants::of_mailbox("ann@example.org".parse().unwrap(), false, Vec::new());
    let denied = app.service.get_dns(&with(grants), &name).await.unwrap_err();
    assert!(matches!(denied, DomainError::Denied(_)), "{denied}");
    let unknown = "nowhere.example".parse().unwrap();
    let missing = app.service.get_dns(&Caller::operator(), &unknown).await.unwrap_err();
    assert!(matches!(missing, DomainError::NotFound), "{missing}");
}

#[tokio::test]
async fn what_is_published_as_wanted_is_found() {
    let (app, name) = app_with_domain().await;
    app.dns.set_addresses(HOST, &["192.0.2.17"]);
    let before = setup(&app, &name).await;
    let purposes = ["MX", "SPF", "DKIM", "DMARC", "SUBMISSION", "IMAP", "PTR"];
    assert_eq!(statuses(&before), purposes.map(|purpose| (purpose, Publication::Missing)));
    assert_eq!(record(&before, "IMAP").value.as_deref(), Some("0 1 143 mx.example.net."));
    let pointer = record(&before, "PTR");
    assert_eq!((pointer.name.as_str(), pointer.required), ("17.2.0.192.in-addr.arpa", false));
    assert_eq!(pasted(&before).len(), purposes.len() - 1, "the provider of the address has the zone of its PTR");
    before.records.iter().for_each(|record| publish(&app, record));
    let after = setup(&app, &name).await;
    assert_eq!(statuses(&after), purposes.map(|purpose| (purpose, Publication::Found)), "{after:#?}");
    assert_eq!(pasted(&after), pasted(&before), "the same records do no harm");
    let verified_at = app.store.domains().get(&name).await.unwrap().unwrap().verified_at;
    assert_eq!(verified_at, None, "only `verify` changes the domain");
}

#[tokio::test]
async fn pages_for_other_servers_and_mail_programs_have_records() {
    let app = TestApp::start_with(|settings| {
        settings.service.mail_host = HOST.to_owned();
        settings.service.mail_programs = PROGRAMS;
        settings.service.web_host = Some("web.example.net".to_owned());
    })
    .await;
    app.domain("example.org").await;
    let name = "example.org".parse().unwrap();
    let purposes = ["MTA-STS-HOST", "MTA-STS", "TLS-RPT", "AUTOCONFIG", "AUTODISCOVER"];
    let statuses = async || {
        let setup = setup(&app, &name).await;
        purposes.map(|purpose| record(&setup, purpose).status)
    };
    assert_eq!(statuses().await, [Publication::Missing; 5], "also before this server has a name");
    app.dns.set_addresses("web.example.net", &["192.0.2.17"]);
    assert_eq!(statuses().await, [Publication::Missing; 5]);
    let shown = setup(&app, &name).await;
    assert_eq!(record(&shown, "MTA-STS-HOST").value.as_deref(), Some("web.example.net."));
    let alias = "\nmta-sts.example.org. 3600 IN CNAME web.example.net.\n";
    assert!(shown.zone_file.contains(alias), "{}", shown.zone_file);
    for purpose in ["MTA-STS", "TLS-RPT", "AUTODISCOVER"] {
        publish(&app, record(&shown, purpose));
    }
    app.dns.set_addresses("mta-sts.example.org", &["192.0.2.17"]);
    app.dns.set_addresses("autoconfig.example.org", &["192.0.2.99"]);
    use Publication::{Different, Found, Unknown};
    assert_eq!(statuses().await, [Found, Found, Found, Different, Found]);
    let shown = setup(&app, &name).await;
    assert_eq!(record(&shown, "MTA-STS-HOST").found, ["192.0.2.17"]);
    assert!(!shown.zone_file.contains(alias), "an alias cannot stand beside addresses: {}", shown.zone_file);
    app.dns.set_alias("mta-sts.example.org", "web.example.net");
    let shown = setup(&app, &name).await;
    assert_eq!(record(&shown, "MTA-STS-HOST").found, ["web.example.net"]);
    assert!(shown.zone_file.contains(alias), "the published record stays in the zone: {}", shown.zone_file);
    assert_eq!(statuses().await, [Found, Found, Found, Different, Found]);
    // Senders that honour a policy for this server would not use the other one.
    app.dns.set_mx("example.org", &[HOST, "backup.example.net"]);
    assert_eq!(statuses().await, [Found, Unknown, Found, Different, Found]);
}

#[tokio::test]
async fn only_hosts_that_lead_here_get_a_certificate() {
    let app = TestApp::start_with(|settings| settings.service.web_host = Some("web.example.net".to_owned())).await;
    for name in ["verified.test", "unverified.test", "silent.test"] {
        app.domain(name).await;
        app.dns.set_addresses(&format!("mta-sts.{name}"), &["192.0.2.17"]);
    }
    app.dns.set_addresses("autoconfig.verified.test", &["192.0.2.17", "192.0.2.99"]);
    app.dns.silence("autoconfig.silent.test");
    let now = app.clock.now();
    for name in ["verified.test", "silent.test"] {
        app.store.domains().set_verified(&name.parse().unwrap(), now).await.unwrap();
    }
    let pages = async || {
        let pages = app.service.hosted_pages().await.unwrap();
        pages.into_iter().map(|pages| (pages.domain.to_string(), pages.hosts, pages.is_certain)).collect::<Vec<_>>()
    };
    let found = |domain: &str, hosts: &[&str], is_certain| {
        (domain.to_owned(), hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), is_certain)
    };
    assert_eq!(pages().await, [found("silent.test", &[], false), found("verified.test", &[], false)]);
    app.dns.set_addresses("web.example.net", &["192.0.2.17", "192.0.2.18"]);
    let expected = [
        found("silent.test", &["mta-sts.silent.test"], false),
        found("verified.test", &["mta-sts.verified.test"], true),
    ];
    assert_eq!(pages().await, expected);
}

#[tokio::test]
async fn records_with_the_same_effect_are_found_and_not_pasted() {
    let (app, name) = app_with_domain().await;
    app.dns.set_addresses(HOST, &["192.0.2.17"]);
    app.dns.set_addresses("alias.example.net", &["192.0.2.17"]);
    app.dns.set_mx("example.org", &["alias.example.net"]);
    app.dns.set_txt("example.org", &["v=spf1 ip4:192.0.2.0/24 -all"]);
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=reject"]);
    app.dns.set_srv("_imap._tcp.example.org", 143, "alias.example.net");
    app.dns.set_srv("_submission._tcp.example.org", 465, HOST);
    let setup = setup(&app, &name).await;
    for purpose in ["MX", "SPF", "DMARC", "IMAP"] {
        assert_eq!(record(&setup, purpose).status, Publication::Found, "{setup:#?}");
    }
    assert_eq!(record(&setup, "SUBMISSION").status, Publication::Different, "another port");
    let [key] = pasted(&setup)[..] else { panic!("{}", setup.zone_file) };
    assert!(key.contains("._domainkey.example.org. 3600 IN TXT \"v=DKIM1; k=rsa; p="), "{key}");
}

#[tokio::test]
async fn a_dns_that_does_not_answer_leaves_everything_open() {
    let (app, name) = app_with_domain().await;
    app.dns.set_addresses(HOST, &["192.0.2.17"]);
    let records = setup(&app, &name).await.records;
    app.dns.silence("192.0.2.17");
    records.iter().for_each(|record| app.dns.silence(&record.name));
    let silent = setup(&app, &name).await;
    assert!(silent.records.iter().all(|record| record.status == Publication::Unknown), "{silent:#?}");
    let [key, submission, imap] = pasted(&silent)[..] else { panic!("{}", silent.zone_file) };
    assert!(key.contains("._domainkey.") && submission.starts_with("_submission.") && imap.starts_with("_imap."));
    for value in ["10 mx.example.net.", "v=spf1 ", "v=DMARC1;"] {
        assert!(silent.zone_file.contains(value), "{value} is a comment: {}", silent.zone_file);
    }
    // Records were published, but the addresses of this server cannot be looked up.
    let (app, name) = app_with_domain().await;
    app.dns.set_mx("example.org", &["alias.example.net"]);
    app.dns.set_txt("example.org", &["v=spf1 ip4:192.0.2.0/24 -all"]);
    app.dns.silence(HOST);
    let silent = setup(&app, &name).await;
    for purpose in ["MX", "SPF", "PTR"] {
        let record = record(&silent, purpose);
        assert_eq!(record.status, Publication::Unknown, "{record:#?}");
        let is_pasted = pasted(&silent).iter().any(|line| line.starts_with("example.org. "));
        assert!(!is_pasted, "beside the published records: {}", silent.zone_file);
    }
}

#[tokio::test]
async fn an_spf_policy_of_unknown_effect_was_checked() {
    // The name of this server has no address.
    let (app, name) = app_with_domain().await;
    let wanted = setup(&app, &name).await;
    publish(&app, record(&wanted, "SPF"));
    let setup = setup(&app, &name).await;
    assert_eq!(record(&setup, "SPF").status, Publication::Unknown, "{setup:#?}");
    assert!(pasted(&setup).iter().any(|line| line.contains("v=spf1")), "the same record does no harm");
    assert!(!setup.zone_file.contains("failed") && !setup.zone_file.contains("did not answer"), "{}", setup.zone_file);
}

#[tokio::test]
async fn unknown_names_and_ports_are_not_invented() {
    let app = app("localhost", PROGRAMS).await;
    app.domain("example.org").await;
    let name = "example.org".parse().unwrap();
    app.dns.set_txt("example.org", &["v=spf1 mx -all"]);
    let local = setup(&app, &name).await;
    for purpose in ["MX", "SUBMISSION", "IMAP", "PTR"] {
        let record = record(&local, purpose);
        assert_eq!((record.status, &record.value), (Publication::Unknown, &None), "{record:#?}");
        assert!(record.hint.contains("mail.embedded.hostname"), "{record:#?}");
    }
    assert_eq!(record(&local, "SPF").status, Publication::Unknown, "whether it allows this server is unknown");
    assert!(!local.zone_file.contains("localhost."), "{}", local.zone_file);

    let app = self::app(HOST, MailPrograms::Elsewhere).await;
    app.domain("example.org").await;
    app.dns.set_srv("_imaps._tcp.example.org", 993, "imap.example.org");
    let behind = setup(&app, &name).await;
    let imap = record(&behind, "IMAP");
    assert_eq!((imap.status, &imap.value), (Publication::Unknown, &None));
    assert_eq!(imap.found, ["0 1 993 imap.example.org"]);
    assert!(imap.hint.contains("RFC 6186"), "{imap:#?}");
    assert_eq!(record(&behind, "MX").value.as_deref(), Some("10 mx.example.net."));
}

#[tokio::test]
async fn a_server_without_listeners_for_mail_programs_has_no_srv() {
    let app = app(HOST, MailPrograms::NONE).await;
    app.domain("example.org").await;
    let setup = setup(&app, &"example.org".parse().unwrap()).await;
    assert!(setup.records.iter().all(|record| record.record_type != "SRV"), "{setup:#?}");
}

#[tokio::test]
async fn ports_with_tls_from_the_beginning_have_records_of_their_own() {
    let programs =
        MailPrograms::BuiltIn { submission: Some(587), submissions: Some(465), imap: None, imaps: Some(993) };
    let app = app(HOST, programs).await;
    app.domain("example.org").await;
    let setup = setup(&app, &"example.org".parse().unwrap()).await;
    let records = setup.records.iter().filter(|record| record.record_type == "SRV");
    let shown: Vec<_> = records.map(|record| (record.name.as_str(), record.value.as_deref().unwrap())).collect();
    assert_eq!(
        shown,
        [
            ("_submission._tcp.example.org", "0 1 587 mx.example.net."),
            ("_submissions._tcp.example.org", "0 1 465 mx.example.net."),
            ("_imaps._tcp.example.org", "0 1 993 mx.example.net."),
        ]
    );
}

#[tokio::test]
async fn of_twenty_keys_two_are_wanted_and_none_starts_to_sign() {
    let (app, name) = app_with_domain().await;
    let signing = app.store.dkim_keys().signing(&name).await.unwrap().remove(0);
    for _ in 1..20 {
        app.service.rotate_dkim(&Caller::operator(), &name, DkimAlgorithm::Ed25519).await.unwrap();
    }
    let newest = app.store.dkim_keys().list(&name).await.unwrap().remove(0).key;
    app.dns.set_txt(&newest.dns_name(&name), &[&newest.dns_value()]);
    let setup = setup(&app, &name).await;
    let keys: Vec<_> = setup.records.iter().filter(|record| record.purpose == "DKIM").collect();
    let shown = keys.iter().map(|key| (key.name.clone(), key.required, key.status));
    let expected =
        [(signing.dns_name(&name), true, Publication::Missing), (newest.dns_name(&name), false, Publication::Found)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!(app.store.dkim_keys().signing(&name).await.unwrap().remove(0).selector, signing.selector);
}

#[tokio::test]
async fn a_domain_without_a_key_says_when_it_gets_one() {
    let (app, _) = app_with_domain().await;
    let name: DomainName = "new.example".parse().unwrap();
    let email = "ann@new.example".parse().unwrap();
    let password = Secret::new(PASSWORD.to_owned());
    let request = SignUp { domain: name.clone(), email, password, name: String::new() };
    app.service.sign_up(request, crate::HERE).await.unwrap();
    let setup = setup(&app, &name).await;
    let key = record(&setup, "DKIM");
    assert_eq!((key.status, &key.value), (Publication::Unknown, &None));
    assert!(key.hint.contains("when it is approved"), "{key:#?}");
}

#[tokio::test]
async fn international_and_very_long_names_keep_the_zone_file_valid() {
    let (app, _) = app_with_domain().await;
    let longest = format!("{}{}.example", "abcdefghi.".repeat(24), "abcde");
    for (name, ascii) in [("grün.example", "xn--grn-ioa.example"), (longest.as_str(), longest.as_str())] {
        app.service.create_domain(&Caller::operator(), name.parse().unwrap(), None).await.unwrap();
        let setup = setup(&app, &name.parse().unwrap()).await;
        assert_eq!(setup.domain.shown(), name);
        assert_eq!(record(&setup, "MX").name, ascii);
        assert!(setup.zone_file.is_ascii(), "{}", setup.zone_file);
        for line in pasted(&setup) {
            let owner = line.split_once(". ").unwrap().0;
            assert!(owner.ends_with(ascii) && owner.len() <= 253, "{line}");
        }
    }
    let setup = setup(&app, &longest.parse().unwrap()).await;
    let key = record(&setup, "DKIM");
    assert_eq!((key.status, &key.value), (Publication::Unknown, &None));
    assert!(key.hint.contains("no name of this length"), "{key:#?}");
}

#[tokio::test]
async fn hostile_answers_stay_out_of_the_zone_file() {
    let (app, name) = app_with_domain().await;
    app.dns.set_addresses(HOST, &["192.0.2.17"]);
    let evil = "v=spf1 ip4:198.51.100.1 -all\nevil.example. 3600 IN A 198.51.100.1\n\u{1b}[2J";
    let huge = format!("v=spf1 {}", "ip4:198.51.100.1 ".repeat(3000));
    let one_term = format!("v=spf1 {}", "x".repeat(60_000));
    for policy in [evil, &huge, &one_term] {
        app.dns.set_txt("example.org", &[policy]);
        app.dns.set_txt("_dmarc.example.org", &[policy]);
        app.dns.set_mx("example.org", &["evil.example\nevil.example. 3600 IN A 198.51.100.1"]);
        app.dns.set_srv("_imap._tcp.example.org", 143, "a b\n;");
        let setup = setup(&app, &name).await;
        assert_eq!(record(&setup, "SPF").status, Publication::Different);
        assert!(!setup.zone_file.contains("198.51.100.1"), "{}", setup.zone_file);
        let hints: usize = setup.records.iter().map(|record| record.hint.len()).sum();
        assert!(hints < 2000, "hints do not repeat whole answers");
    }
}
