#!/usr/bin/env bash
# dns-update cannot list the records of a Route 53 zone that has an alias set on the page.
#
# Version: dns-update 0.6.1 (Rust).
# Expected: `TTL` is optional in the type ResourceRecordSet of the API reference of Amazon Route 53, and alias sets have none. A
# list of the MX records of a name should return them, whatever other sets the answer contains.
# Seen: the answer is refused as a whole: "XML parsing error: … missing field `TTL`". So no record of such a zone can be listed,
# and none can be removed, since the library lists before it removes. Zones of web sites usually have alias sets at their apex.
#
# It needs Rust with cargo, and compiles for some minutes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

mkdir -p "$work/src"
cat >"$work/Cargo.toml" <<'TOML'
[package]
name = "try"
version = "0.0.0"
edition = "2024"

[dependencies]
dns-update = "=0.6.1"
tokio = { version = "1", features = ["macros", "rt"] }
TOML
cat >"$work/src/main.rs" <<'RUST'
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use dns_update::providers::route53::Route53Config;
use dns_update::{DnsRecordType, DnsUpdater};

const MX: &str = "<ResourceRecordSet><Name>example.org.</Name><Type>MX</Type><TTL>300</TTL><ResourceRecords>\
    <ResourceRecord><Value>10 mx.example.org.</Value></ResourceRecord></ResourceRecords></ResourceRecordSet>";
const ALIAS: &str = "<ResourceRecordSet><Name>www.example.org.</Name><Type>A</Type><AliasTarget>\
    <HostedZoneId>Z2</HostedZoneId><DNSName>site.example.net.</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth>\
    </AliasTarget></ResourceRecordSet>";

/// Answers every request with these sets, until the program ends.
fn serve(sets: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 8192];
            let _ = stream.read(&mut request);
            let body = format!(
                "<?xml version=\"1.0\"?><ListResourceRecordSetsResponse><ResourceRecordSets>{sets}</ResourceRecordSets>\
                 <IsTruncated>false</IsTruncated><MaxItems>300</MaxItems></ListResourceRecordSetsResponse>"
            );
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    format!("http://{address}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let list = async |sets: String| {
        let config = Route53Config {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "example".to_owned(),
            session_token: None,
            region: None,
            hosted_zone_id: Some("Z1".to_owned()),
            private_zone_only: None,
            endpoint: Some(serve(sets)),
        };
        let updater = DnsUpdater::new_route53(config).unwrap();
        updater.list_rrset("example.org", DnsRecordType::MX, "example.org").await.map_err(|error| error.to_string())
    };
    let alone = list(MX.to_owned()).await;
    let beside = list(format!("{MX}{ALIAS}")).await;
    println!("alone: {alone:?}\nbeside an alias set: {beside:?}");
    let is_refused = beside.is_err_and(|error| error.contains("TTL"));
    std::process::exit(i32::from(!(alone.is_ok_and(|records| records.len() == 1) && is_refused)));
}
RUST
cd "$work"
CARGO_TARGET_DIR="$work/target" cargo run --quiet
