#!/usr/bin/env bash
# dns-update reads and writes a private Route 53 zone where a public one of the same name exists.
#
# Version: dns-update 0.6.1 (Rust).
# Expected: an account may have a public and a private hosted zone of one name (split-view DNS in the developer guide of Amazon
# Route 53). A client that publishes records for the internet uses the public one, or asks which.
# Seen: without `hosted_zone_id` and `private_zone_only`, the first zone of the list is used, private or not. Records are then
# published where nobody outside sees them, and the library reports success. So name the zone by its id.
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
use std::sync::{Arc, Mutex};

use dns_update::providers::route53::Route53Config;
use dns_update::{DnsRecord, DnsRecordType, DnsUpdater, MXRecord};

fn zone(id: &str, is_private: bool) -> String {
    format!(
        "<HostedZone><Id>/hostedzone/{id}</Id><Name>example.org.</Name><CallerReference>{id}</CallerReference>\
         <Config><PrivateZone>{is_private}</PrivateZone></Config><ResourceRecordSetCount>2</ResourceRecordSetCount></HostedZone>"
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 8192];
            let length = stream.read(&mut request).unwrap_or(0);
            let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned();
            let body = match () {
                () if line.contains("hostedzonesbyname") => format!(
                    "<?xml version=\"1.0\"?><ListHostedZonesByNameResponse><HostedZones>{}{}</HostedZones>\
                     <IsTruncated>false</IsTruncated><MaxItems>100</MaxItems></ListHostedZonesByNameResponse>",
                    zone("ZPRIVATE", true),
                    zone("ZPUBLIC", false)
                ),
                () => "<?xml version=\"1.0\"?><ChangeResourceRecordSetsResponse><ChangeInfo><Id>/change/C1</Id>\
                       <Status>PENDING</Status><SubmittedAt>2026-01-01T00:00:00Z</SubmittedAt></ChangeInfo>\
                       </ChangeResourceRecordSetsResponse>"
                    .to_owned(),
            };
            seen.lock().unwrap().push(line);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    let config = Route53Config {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "example".to_owned(),
        session_token: None,
        region: None,
        hosted_zone_id: None,
        private_zone_only: None,
        endpoint: Some(endpoint),
    };
    let updater = DnsUpdater::new_route53(config).unwrap();
    let mx = DnsRecord::MX(MXRecord { exchange: "mx.example.org".to_owned(), priority: 10 });
    let set = updater.set_rrset("example.org", DnsRecordType::MX, 300, vec![mx], "example.org").await;
    let requests = requests.lock().unwrap().clone();
    println!("{set:?}\n{}", requests.join("\n"));
    let is_private = requests.iter().any(|line| line.starts_with("POST") && line.contains("/ZPRIVATE/"));
    std::process::exit(i32::from(!(set.is_ok() && is_private)));
}
RUST
cd "$work"
CARGO_TARGET_DIR="$work/target" cargo run --quiet
