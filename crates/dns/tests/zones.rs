//! Reads and dynamic updates at real name servers: BIND, Knot and PowerDNS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{DnsError, DnsZone, UpdateError, ZoneDns};
use mailapi_dns::{DnsSettings, NetworkDns, ZoneClient};
use mailapi_model::{RecordData, RecordKind, RecordSet, Secret, SetChange, TlsaRecord, TsigAlgorithm, TsigKey};
use mailapi_testkit::{FakeClock, NameServerProgram, RealClock, RealNameServer};

const ZONE: &str = "example.test";
const RECORDS: &str = "\
@ IN TXT \"other\"
mx IN A 192.0.2.1
*.wild IN TXT \"wild\"
alias IN CNAME mx
sub IN NS ns.elsewhere.test.
";

fn resolver(server: SocketAddr) -> Arc<NetworkDns> {
    let timeout = Duration::from_secs(5);
    let settings = DnsSettings { servers: vec![server], timeout, retries: 5, ..DnsSettings::default() };
    Arc::new(NetworkDns::new(&settings.without_cache()).unwrap())
}

fn client(server: &RealNameServer) -> ZoneClient {
    ZoneClient::new(resolver(server.address()), Arc::new(RealClock))
}

fn key(name: &str) -> TsigKey {
    let secret = b"secret of the tests, 32 bytes...".to_vec();
    TsigKey { name: name.to_owned(), algorithm: TsigAlgorithm::HmacSha256, secret: Secret::new(secret) }
}

fn ours() -> TsigKey {
    key(RealNameServer::KEY)
}

fn set(records: &[&RecordData]) -> RecordSet {
    RecordSet { ttl: 3600, records: records.iter().copied().cloned().collect() }
}

fn change(name: &str, kind: RecordKind, before: &[&RecordData], after: &[&RecordData]) -> SetChange {
    let (zone, name) = (ZONE.to_owned(), name.to_owned());
    SetChange { zone, name, kind, before: set(before), after: set(after) }
}

fn mx() -> RecordData {
    RecordData::Mx { preference: 10, exchange: format!("mx.{ZONE}") }
}

async fn texts(client: &ZoneClient, server: &RealNameServer, name: &str) -> Vec<RecordData> {
    client.records_at(server.address(), name, RecordKind::Txt).await.unwrap().set.records
}

/// Runs a test at each server.
async fn at_each(test: impl AsyncFn(NameServerProgram, &RealNameServer, ZoneClient)) {
    for program in RealNameServer::ALL {
        let server = RealNameServer::start(program, &[(ZONE, RECORDS)]);
        let client = client(&server);
        test(program, &server, client).await;
    }
}

#[tokio::test]
async fn a_zone_and_its_servers_are_found_from_each_name() {
    at_each(async |program, _, client| {
        for name in [ZONE, "mx.example.test", "_dmarc.a.b.example.test."] {
            let zone = DnsZone { apex: ZONE.to_owned(), servers: vec![format!("ns.{ZONE}")] };
            assert_eq!(client.zone_of(name).await, Ok(zone), "{program:?} {name}");
        }
        assert_eq!(client.addresses_of("ns.example.test").await, Ok(vec!["127.0.0.1".parse().unwrap()]));
    })
    .await;
}

#[tokio::test]
async fn records_are_added_replaced_and_removed_as_sets() {
    at_each(async |program, server, client| {
        let address = server.address();
        let long = RecordData::text(&format!("v=DKIM1; k=rsa; p={}", "A".repeat(400)));
        let name = "m1._domainkey.example.test";
        let [a, b] = ["a", "b \"\\ é"].map(RecordData::text);
        let steps: [&[&RecordData]; 4] = [&[&long], &[&a, &b], &[], &[]];
        let mut before: &[&RecordData] = &[];
        for after in steps {
            client.replace(address, &ours(), &change(name, RecordKind::Txt, before, after)).await.unwrap();
            let found = client.records_at(address, name, RecordKind::Txt).await.unwrap();
            assert!(found.set.has_records_of(&set(after)), "{program:?}: {found:?}");
            before = after;
        }
        let service = RecordData::Srv { priority: 0, weight: 1, port: 993, target: format!("mx.{ZONE}") };
        let alias = RecordData::Cname(format!("mx.{ZONE}"));
        for (name, kind, data) in [
            (ZONE, RecordKind::Mx, mx()),
            ("_imaps._tcp.example.test", RecordKind::Srv, service),
            ("autoconfig.example.test", RecordKind::Cname, alias),
            ("_25._tcp.mx.example.test", RecordKind::Tlsa, RecordData::Tlsa(TlsaRecord::of_key([7; 32]))),
        ] {
            client.replace(address, &ours(), &change(name, kind, &[], &[&data])).await.unwrap();
            let found = client.records_at(address, name, kind).await.unwrap();
            assert_eq!((found.set.records, found.set.ttl), (vec![data], 3600), "{program:?}");
        }
        assert_eq!(texts(&client, server, ZONE).await, [RecordData::text("other")], "others' records stay");
    })
    .await;
}

#[tokio::test]
async fn a_change_of_records_that_moved_meanwhile_changes_nothing() {
    at_each(async |program, server, client| {
        let address = server.address();
        let [other, ours_now, second] = ["other", "ours", "second"].map(RecordData::text);
        let both = [&other, &ours_now];
        let first = change(ZONE, RecordKind::Txt, &[&other], &both);
        client.replace(address, &ours(), &first).await.unwrap();
        for wrong in [
            change(ZONE, RecordKind::Txt, &[&other], &[&second]),
            change(ZONE, RecordKind::Txt, &[], &[&second]),
            change(ZONE, RecordKind::Txt, &[&other, &second], &[&second]),
            change("new.example.test", RecordKind::Txt, &[&second], &[&ours_now]),
            // A check alone.
            change(ZONE, RecordKind::Txt, &[&other], &[&other]),
        ] {
            let refused = client.replace(address, &ours(), &wrong).await;
            assert_eq!(refused, Err(UpdateError::Moved), "{program:?} {wrong:?}");
        }
        let mut found = texts(&client, server, ZONE).await;
        found.sort();
        assert_eq!(found.iter().collect::<Vec<_>>(), both, "{program:?}");
        assert_eq!(texts(&client, server, "new.example.test").await, []);
        client.replace(address, &ours(), &change(ZONE, RecordKind::Txt, &both, &both)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn of_two_writers_at_once_one_wins() {
    at_each(async |program, server, client| {
        let name = "race.example.test";
        let write = |number: u32| {
            let own = change(name, RecordKind::Txt, &[], &[&RecordData::text(&number.to_string())]);
            let (client, address) = (&client, server.address());
            async move { client.replace(address, &ours(), &own).await }
        };
        let results = futures_util::future::join_all((0..8).map(write)).await;
        let won = results.iter().filter(|result| result.is_ok()).count();
        let lost = results.iter().filter(|result| **result == Err(UpdateError::Moved)).count();
        assert_eq!((won, lost), (1, 7), "{program:?} {results:?}");
        assert_eq!(texts(&client, server, name).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn aliases_and_wildcards_are_in_nobodys_way_unseen() {
    at_each(async |program, server, client| {
        let (address, text) = (server.address(), RecordData::text("ours"));
        // Beside an alias, servers would answer that all is well and store nothing.
        let beside = change("alias.example.test", RecordKind::Txt, &[], &[&text]);
        assert_eq!(client.replace(address, &ours(), &beside).await, Err(UpdateError::Moved), "{program:?}");
        let found = client.records_at(address, "alias.example.test", RecordKind::Txt).await.unwrap();
        assert_eq!(found.alias, Some(format!("mx.{ZONE}")), "{program:?}");
        let alias = RecordData::Cname(format!("ns.{ZONE}"));
        let over = change("mx.example.test", RecordKind::Cname, &[], &[&alias]);
        assert_eq!(client.replace(address, &ours(), &over).await, Err(UpdateError::Moved), "{program:?}");
        // A wildcard answers for the name, which has no records itself.
        let name = "a.wild.example.test";
        let wild = RecordData::text("wild");
        assert_eq!(texts(&client, server, name).await, std::slice::from_ref(&wild), "{program:?}");
        let of_wildcard = change(name, RecordKind::Txt, &[&wild], &[&wild]);
        assert_eq!(client.replace(address, &ours(), &of_wildcard).await, Err(UpdateError::Moved), "{program:?}");
        client.replace(address, &ours(), &change(name, RecordKind::Txt, &[], &[&text])).await.unwrap();
        assert_eq!(texts(&client, server, name).await, [text], "{program:?}");
    })
    .await;
}

#[tokio::test]
async fn each_refusal_has_its_own_error() {
    at_each(async |program, server, client| {
        use NameServerProgram::PowerDns;
        let address = server.address();
        let add = change("x.example.test", RecordKind::Txt, &[], &[&RecordData::text("x")]);
        let unknown = key("unknown");
        let wrong = TsigKey { secret: Secret::new(b"another".to_vec()), ..ours() };
        let refusal = if program == PowerDns { UpdateError::RefusedUnsigned } else { UpdateError::BadKey };
        for bad in [unknown, wrong] {
            assert_eq!(client.replace(address, &bad, &add).await, Err(refusal.clone()), "{program:?} {bad:?}");
        }
        let clock = FakeClock::at("2026-11-21T10:00:00Z");
        let late = ZoneClient::new(resolver(address), Arc::new(clock));
        let refusal = if program == PowerDns { UpdateError::RefusedUnsigned } else { UpdateError::Clock };
        assert_eq!(late.replace(address, &ours(), &add).await, Err(refusal), "{program:?}");
        let elsewhere = SetChange { zone: "elsewhere.test".into(), name: "x.elsewhere.test".into(), ..add.clone() };
        let not_served = client.replace(address, &ours(), &elsewhere).await.unwrap_err();
        let expected = [UpdateError::NotServed("elsewhere.test".into()), UpdateError::BadKey];
        assert!(expected.contains(&not_served), "{program:?} {not_served:?}");
        let outside = SetChange { name: "x.elsewhere.test".into(), ..add };
        let refused = client.replace(address, &ours(), &outside).await;
        assert_eq!(refused, Err(UpdateError::NotServed(ZONE.into())), "{program:?}");
        assert_eq!(texts(&client, server, "x.example.test").await, [], "{program:?}");
        let foreign = client.records_at(address, "x.elsewhere.test", RecordKind::Txt).await;
        assert!(matches!(foreign, Err(DnsError::Failed(_))), "{program:?} {foreign:?}");
    })
    .await;
}

#[tokio::test]
async fn bind_refuses_other_names_and_an_exchange_without_address() {
    let server = RealNameServer::start(NameServerProgram::Bind, &[(ZONE, RECORDS)]);
    let (client, address) = (client(&server), server.address());
    let (narrow, text) = (key(RealNameServer::NARROW_KEY), RecordData::text("v=DMARC1; p=none"));
    let other = change("x.example.test", RecordKind::Txt, &[], &[&text]);
    assert_eq!(client.replace(address, &narrow, &other).await, Err(UpdateError::Refused));
    let allowed = change("_dmarc.example.test", RecordKind::Txt, &[], &[&text]);
    client.replace(address, &narrow, &allowed).await.unwrap();
    let nowhere = RecordData::Mx { preference: 10, exchange: "nowhere.example.test".into() };
    let added = client.replace(address, &ours(), &change(ZONE, RecordKind::Mx, &[], &[&nowhere])).await;
    assert_eq!(added, Err(UpdateError::Refused));
}

#[tokio::test]
async fn a_signed_zone_is_updated_and_a_silent_server_proves_nothing() {
    let zone = "signed.test";
    let mut server = RealNameServer::start(NameServerProgram::Bind, &[(zone, "")]);
    let (client, address) = (client(&server), server.address());
    let add =
        SetChange { zone: zone.into(), ..change("x.signed.test", RecordKind::Txt, &[], &[&RecordData::text("x")]) };
    client.replace(address, &ours(), &add).await.unwrap();
    // The signed copy follows some milliseconds later.
    while texts(&client, &server, "x.signed.test").await.is_empty() {}
    server.stop();
    let unanswered = client.replace(address, &ours(), &add).await;
    assert!(matches!(unanswered, Err(UpdateError::Unanswered(_))), "{unanswered:?}");
}
