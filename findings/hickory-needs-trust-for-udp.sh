#!/usr/bin/env bash
# hickory-resolver cannot be created where no certificate is trusted, although all its name servers are asked by UDP.
#
# Version: hickory-resolver 0.26.3 with `tls-ring` and `rustls-platform-verifier`. Cargo unites features, so one dependency
# that wants them turns them on for a program that asks by UDP alone.
# Expected: trust is needed when a name server is asked by TLS. An image without `ca-certificates` resolves names.
# Seen: `build()` fails with "rustls construction error". Without the features it succeeds.
#
# It needs cargo, and some minutes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
cd "$work"
mkdir src no-certificates

cat >src/main.rs <<'END'
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

fn main() {
    let server = NameServerConfig::udp([127, 0, 0, 1].into());
    let config = ResolverConfig::from_name_servers(vec![server]);
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    match builder.build() {
        Ok(_) => println!("created"),
        Err(error) => println!("{error}"),
    }
}
END

# Prints what becomes of a resolver with these features and without trusted certificates.
created() {
    cat >Cargo.toml <<END
[package]
name = "program"
edition = "2024"
[dependencies]
hickory-resolver = { version = "=0.26.3", default-features = false, features = ["tokio"$1] }
END
    cargo build --quiet
    SSL_CERT_FILE=$work/no-certificates/file SSL_CERT_DIR=$work/no-certificates target/debug/program
}

without=$(created '')
with=$(created ', "tls-ring", "rustls-platform-verifier"')
echo "without TLS: $without"
echo "with TLS: $with"
[ "$without" = created ] || { echo "changed" >&2; exit 1; }
case $with in *"rustls construction error"*) ;; *) echo "changed" >&2; exit 1 ;; esac
