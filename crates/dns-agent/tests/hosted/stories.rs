//! What happens when the provider does what its documents say.

use mailapi_hosted_dns::{FailureKind, HostedAccount};
use mailapi_model::{RecordData, RecordKind, RecordSet, Secret, SetChange, TlsaRecord};

use crate::route53::PRIVATE;
use crate::store::StoredRecord;
use crate::world::{HostedWorld, PROVIDERS, ZONE, account, change, credentials, failed, undone, within};

/// The records of a mail domain. The key of 2048 bits has a text of more than 255 octets.
fn mail_domain() -> Vec<SetChange> {
    let key = RecordData::text(&format!("v=DKIM1; k=rsa; p={}", "MIIBIjANBgkq+/0A".repeat(24)));
    let dkim = change("s1._domainkey.example.org", RecordKind::Txt, &[], &[&key.to_string()]);
    vec![
        change(ZONE, RecordKind::Mx, &[], &["10 mx1.example.org.", "20 mx2.example.net."]),
        change(ZONE, RecordKind::Txt, &[], &["\"v=spf1 mx -all\""]),
        dkim,
        change("_dmarc.example.org", RecordKind::Txt, &[], &["\"v=DMARC1; p=none; rua=mailto:a@example.org\""]),
        change("_imaps._tcp.example.org", RecordKind::Srv, &[], &["0 1 993 mx1.example.org."]),
        change("_25._tcp.mx1.example.org", RecordKind::Tlsa, &[], &[&key_of_server(1), &key_of_server(2)]),
        change("autoconfig.example.org", RecordKind::Cname, &[], &["mx1.example.org."]),
    ]
}

fn key_of_server(octet: u8) -> String {
    RecordData::Tlsa(TlsaRecord::of_key([octet; 32])).to_string()
}

/// Returns the records, and the number of changes so far.
fn state_of(world: &HostedWorld, provider: &str) -> (Vec<StoredRecord>, usize) {
    let state = world.store(provider).lock();
    (state.records.clone(), state.writes())
}

async fn a_domain_is_published_and_rolled_back(provider: &str) {
    let world = HostedWorld::start().await;
    let mut agent = world.agent(provider).await;
    for change in mail_domain() {
        within(agent.replace(&change)).await.unwrap();
        let listed = within(agent.list(&change.name, change.kind)).await.unwrap();
        assert!(RecordSet { ttl: 0, records: listed.records }.has_records_of(&change.after), "{change:?}");
    }
    let published = state_of(&world, provider);

    // A second run finds what it wants.
    for wanted in mail_domain() {
        within(agent.replace(&SetChange { before: wanted.after.clone(), ..wanted })).await.unwrap();
    }
    assert_eq!(state_of(&world, provider), published);

    // The way back begins with the last change.
    for change in mail_domain().iter().rev() {
        within(agent.replace(&undone(change))).await.unwrap();
    }
    assert_eq!(world.store(provider).lock().records, []);
    agent.stop().await;
}

#[tokio::test]
async fn a_domain_at_cloudflare_is_published_and_rolled_back() {
    a_domain_is_published_and_rolled_back("cloudflare").await;
}

#[tokio::test]
async fn a_domain_at_desec_is_published_and_rolled_back() {
    a_domain_is_published_and_rolled_back("desec").await;
}

#[tokio::test]
async fn a_domain_at_route_53_is_published_and_rolled_back() {
    a_domain_is_published_and_rolled_back("route53").await;
}

#[tokio::test]
async fn the_apis_show_records_in_their_own_forms() {
    let world = HostedWorld::start().await;
    for (provider, mx) in
        [("cloudflare", "10 mx1.example.org"), ("desec", "10 mx1.example.org."), ("route53", "10 mx1.example.org")]
    {
        let mut agent = world.agent(provider).await;
        for change in mail_domain() {
            within(agent.replace(&change)).await.unwrap();
        }
        let state = world.store(provider).lock();
        assert_eq!(state.values(ZONE, "MX")[0], mx);
        assert_eq!(state.values(ZONE, "TXT"), ["\"v=spf1 mx -all\""]);
        let [dkim] = &state.values("s1._domainkey.example.org", "TXT")[..] else { panic!("one key") };
        assert_eq!(dkim.matches("\" \"").count(), 1, "{dkim}");
    }
}

#[tokio::test]
async fn the_records_of_another_writer_stay() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        let first = change(ZONE, RecordKind::Mx, &[], &["10 old.example."]);
        within(agent.replace(&first)).await.unwrap();
        let other = change(ZONE, RecordKind::Mx, &["10 old.example."], &["10 other.example."]);
        within(agent.replace(&other)).await.unwrap();
        let writes = world.store(provider).lock().writes();

        let ours = change(ZONE, RecordKind::Mx, &["10 old.example."], &["10 mx.example."]);
        failed(within(agent.replace(&ours)).await, FailureKind::Moved);
        failed(within(agent.replace(&undone(&first))).await, FailureKind::Moved);
        failed(within(agent.replace(&change(ZONE, RecordKind::Mx, &[], &[]))).await, FailureKind::Moved);

        assert_eq!(world.store(provider).lock().writes(), writes);
        let listed = within(agent.list(ZONE, RecordKind::Mx)).await.unwrap().records;
        assert_eq!(listed, other.after.records);
    }
}

#[tokio::test]
async fn a_set_is_replaced_in_part() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        let (spf, site) = ("\"v=spf1 mx -all\"", "\"site-verification=1\"");
        within(agent.replace(&change(ZONE, RecordKind::Txt, &[], &[site]))).await.unwrap();
        within(agent.replace(&change(ZONE, RecordKind::Txt, &[site], &[site, spf]))).await.unwrap();
        let back = change(ZONE, RecordKind::Txt, &[spf, site], &[site]);
        within(agent.replace(&back)).await.unwrap();
        assert_eq!(world.store(provider).lock().values(ZONE, "TXT"), [site]);
    }
}

#[tokio::test]
async fn quotes_backslashes_and_empty_texts_are_kept() {
    let world = HostedWorld::start().await;
    let long = RecordData::text(&r#"a"b\c;"#.repeat(100)).to_string();
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        let mut before: Vec<&str> = Vec::new();
        for text in [r#""a\"b\\c""#, r#""\\""#, r#""\"quoted\"""#, "\"\"", "\"a  b\"", &long] {
            let wanted = change(ZONE, RecordKind::Txt, &before, &[text]);
            within(agent.replace(&wanted)).await.unwrap_or_else(|error| panic!("{provider} {text}: {error}"));
            let listed = within(agent.list(ZONE, RecordKind::Txt)).await.unwrap();
            assert_eq!(listed.records, wanted.after.records, "{provider}");
            before = vec![text];
        }
    }
}

#[tokio::test]
async fn other_octets_in_texts_are_not_supported() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        let wanted = change(ZONE, RecordKind::Txt, &[], &[r#""caf\195\169""#]);
        failed(within(agent.replace(&wanted)).await, FailureKind::Unsupported);
        failed(within(agent.replace(&undone(&wanted))).await, FailureKind::Unsupported);
        assert_eq!(world.store(provider).lock().requests, [""; 0]);
    }
}

#[tokio::test]
async fn a_domain_without_mail_has_the_root_as_its_host() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        let none = change(ZONE, RecordKind::Mx, &[], &["0 ."]);
        within(agent.replace(&none)).await.unwrap();
        assert_eq!(world.store(provider).lock().values(ZONE, "MX"), ["0 ."]);
        let no_service = change("_pop3._tcp.example.org", RecordKind::Srv, &[], &["0 0 0 ."]);
        within(agent.replace(&no_service)).await.unwrap();
        within(agent.replace(&undone(&none))).await.unwrap();
    }
}

#[tokio::test]
async fn names_are_compared_without_case_and_final_dot() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent_of(account(provider, "Example.ORG.")).await;
        let mut mixed = change("_DMARC.Example.org.", RecordKind::Txt, &[], &["\"v=DMARC1\""]);
        mixed.zone = "EXAMPLE.org".to_owned();
        within(agent.replace(&mixed)).await.unwrap();
        assert_eq!(world.store(provider).lock().values("_dmarc.example.org", "TXT"), ["\"v=DMARC1\""]);
        let mx = change(ZONE, RecordKind::Mx, &[], &["10 MX.Example.ORG."]);
        within(agent.replace(&mx)).await.unwrap();
        let lower = change(ZONE, RecordKind::Mx, &["10 mx.example.org."], &[]);
        within(agent.replace(&lower)).await.unwrap();
    }
}

#[tokio::test]
async fn names_outside_the_zone_are_never_asked_for() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        for name in ["example.com", "org", "badexample.org", "a/b.example.org", "*.example.org", "a b.example.org", ""]
        {
            assert_eq!(
                within(agent.list(name, RecordKind::Mx)).await.unwrap_err().kind,
                FailureKind::Invalid,
                "{name}"
            );
        }
        let other = SetChange { zone: "example.com".to_owned(), ..change(ZONE, RecordKind::Mx, &[], &["0 ."]) };
        failed(within(agent.replace(&other)).await, FailureKind::Invalid);
        assert_eq!(world.store(provider).lock().requests, [""; 0]);
    }
}

/// The library itself takes the closest zone above, whose records at the name nothing uses.
#[tokio::test]
async fn a_zone_above_is_not_taken_for_the_zone() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent_of(account(provider, "mail.example.org")).await;
        let mut wanted = change("mail.example.org", RecordKind::Mx, &[], &["10 mx.example."]);
        wanted.zone = "mail.example.org".to_owned();
        failed(within(agent.replace(&wanted)).await, FailureKind::NotFound);
        assert_eq!(within(agent.list(&wanted.name, wanted.kind)).await.unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(world.store(provider).lock().records, []);
    }
}

#[tokio::test]
async fn a_zone_that_is_not_there_is_not_found() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        world.store(provider).lock().zones.clear();
        let mut agent = world.agent(provider).await;
        let wanted = change(ZONE, RecordKind::Mx, &[], &["10 mx.example."]);
        failed(within(agent.replace(&wanted)).await, FailureKind::NotFound);
        assert_eq!(world.store(provider).lock().writes(), 0);
    }
}

#[tokio::test]
async fn route_53_lists_one_set_of_a_long_zone() {
    let world = HostedWorld::start().await;
    let mut agent = world.agent("route53").await;
    {
        let mut state = world.store("route53").lock();
        for name in ["a", "b", "c", "d", "e"] {
            state.add(&format!("{name}.example.org"), "A", 300, "192.0.2.1");
        }
        state.add(ZONE, "A", 300, "192.0.2.1");
        state.add(ZONE, "NS", 300, "ns.example.");
        state.add("*.example.org", "A", 300, "192.0.2.1");
    }
    for name in [ZONE, "c.example.org", "z.example.org"] {
        assert_eq!(within(agent.list(name, RecordKind::Txt)).await.unwrap().records, []);
        let wanted = change(name, RecordKind::Txt, &[], &["\"a\"", "\"b\""]);
        within(agent.replace(&wanted)).await.unwrap();
        within(agent.replace(&undone(&wanted))).await.unwrap();
    }
    assert_eq!(world.store("route53").lock().records.len(), 8);
}

/// The library's client needs the TTL of every set on a page, which an alias does not have.
#[tokio::test]
async fn aliases_of_route_53_stay_and_disturb_no_list() {
    let world = HostedWorld::start().await;
    let mut agent = world.agent("route53").await;
    for name in ["a.example.org", "www.example.org", ZONE] {
        world.store("route53").lock().add(name, "A", 0, "alias d1.cloudfront.net.");
    }
    let wanted = change(ZONE, RecordKind::Mx, &[], &["10 mx.example."]);
    within(agent.replace(&wanted)).await.unwrap();
    within(agent.replace(&undone(&wanted))).await.unwrap();
    assert_eq!(world.store("route53").lock().records.len(), 3);

    world.store("route53").lock().add("old.example.org", "CNAME", 0, "alias d1.cloudfront.net.");
    let error = within(agent.list("old.example.org", RecordKind::Cname)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unsupported, "{error}");
}

#[tokio::test]
async fn private_zones_of_route_53_are_left_alone() {
    let world = HostedWorld::start().await;
    // The longest name and the first zone are those that the library's client takes.
    let private = [format!("{PRIVATE}{ZONE}"), "_dmarc.example.org".to_owned()];
    world.store("route53").lock().zones.splice(0..0, private);
    let mut agent = world.agent("route53").await;
    let wanted = change("_dmarc.example.org", RecordKind::Txt, &[], &["\"v=DMARC1\""]);
    within(agent.replace(&wanted)).await.unwrap();
    within(agent.replace(&undone(&wanted))).await.unwrap();
    let state = world.store("route53").lock();
    let mut of_zones = state.requests.iter().filter(|request| request.contains("/hostedzone/"));
    assert!(of_zones.all(|request| request.contains("/hostedzone/ZEXAMPLEORG/")), "{:?}", state.requests);
}

#[tokio::test]
async fn one_of_several_zones_of_route_53_is_chosen_by_its_id() {
    let world = HostedWorld::start().await;
    world.store("route53").lock().zones.push(ZONE.to_owned());
    let wanted = change(ZONE, RecordKind::Mx, &[], &["10 mx.example."]);
    let mut agent = world.agent("route53").await;
    failed(within(agent.replace(&wanted)).await, FailureKind::Unsupported);

    let of = |id: &str| {
        let id = [("hosted_zone_id".to_owned(), Secret::new(id.to_owned()))];
        HostedAccount::new("route53", credentials("route53").into_iter().chain(id), ZONE).unwrap()
    };
    let mut agent = world.agent_of(of("ZEXAMPLEORG")).await;
    within(agent.replace(&wanted)).await.unwrap();
    let mut agent = world.agent_of(of("../ZEXAMPLEORG")).await;
    failed(within(agent.replace(&wanted)).await, FailureKind::Refused);
}

#[tokio::test]
async fn a_short_ttl_is_raised_where_a_provider_demands_it() {
    let world = HostedWorld::start().await;
    for (provider, ttl) in [("cloudflare", 300), ("desec", 3600), ("route53", 300)] {
        let mut agent = world.agent(provider).await;
        let mut wanted = change(ZONE, RecordKind::Mx, &[], &["10 mx.example."]);
        wanted.after.ttl = 300;
        within(agent.replace(&wanted)).await.unwrap();
        assert_eq!(world.store(provider).lock().records[0].ttl, ttl);
        // The library does not return it.
        let shown = (provider == "route53").then_some(ttl);
        assert_eq!(within(agent.list(ZONE, RecordKind::Mx)).await.unwrap().ttl, shown);
    }
}

#[tokio::test]
async fn lists_of_more_than_a_page_are_not_taken_for_whole() {
    let world = HostedWorld::start().await;
    let mut agent = world.agent("cloudflare").await;
    for number in 0..120 {
        world.store("cloudflare").lock().add(ZONE, "TXT", 300, &format!("\"{number}\""));
    }
    assert_eq!(within(agent.list(ZONE, RecordKind::Txt)).await.unwrap_err().kind, FailureKind::Unsupported);
    let wanted = change(ZONE, RecordKind::Txt, &[], &["\"a\""]);
    failed(within(agent.replace(&wanted)).await, FailureKind::Unsupported);
    assert_eq!(world.store("cloudflare").lock().writes(), 0);
}

#[tokio::test]
async fn an_alias_and_other_records_exclude_each_other() {
    let world = HostedWorld::start().await;
    for provider in PROVIDERS {
        let mut agent = world.agent(provider).await;
        let name = "mail.example.org";
        within(agent.replace(&change(name, RecordKind::Cname, &[], &["mx.example."]))).await.unwrap();
        let wanted = change(name, RecordKind::Mx, &[], &["10 mx.example."]);
        failed(within(agent.replace(&wanted)).await, FailureKind::Refused);
        assert_eq!(world.store(provider).lock().records.len(), 1);
    }
}
