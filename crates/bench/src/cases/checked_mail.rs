//! Mail from outside with all checks, beside the same mail without them.
//!
//! The checks are SPF, DKIM, DMARC and a list in the DNS. dnsmasq answers for the sender's domain. Greylisting refuses the
//! first attempt, and rspamd's own work would be measured, so both stay off.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::KeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail_auth::common::crypto::{RsaKey, Sha256};
use mail_auth::common::headers::HeaderWriter;
use mail_auth::dkim::{DkimSigner, Done};
use rustls_pki_types::PrivatePkcs8KeyDer;

use super::smtp_in::{MESSAGES, SENDER, SmtpClient, smtp};
use crate::client::smtp::Mail;
use crate::load::Clients;
use crate::mail::{Author, RECEIVER};
use crate::mail_site::MailSite;
use crate::measure::compare;
use crate::outcome::{Failure, Outcome, same};
use crate::report::{Goal, Row};
use crate::scale::Scale;
use crate::server::Product;
use crate::settled::Settled;

const SENDING_DOMAIN: &str = "outside.example";
const SELECTOR: &str = "bench";
const VERDICTS: [&str; 3] = ["spf=pass", "dkim=pass", "dmarc=pass"];
/// A text in the DNS consists of strings of at most 255 bytes (RFC 1035 section 3.3).
const LONGEST_STRING: usize = 250;

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let (signer, public_key) = signer()?;
    let dns = NameServer::start(&public_key)?;
    let checked = dns.in_use_by(product);
    let author = Author::new();
    let signed = |number| signed(&signer, &author.outside_message(number, RECEIVER));
    let mails: Arc<[Mail]> = (0..MESSAGES).map(signed).collect::<Outcome<Vec<_>>>()?.into();
    let mut rows = Vec::new();
    for &concurrency in scale.concurrency {
        let (with, without) = (MailSite::with_people(&checked).await?, MailSite::with_people(product).await?);
        let mut load = senders(&with, concurrency, &mails).await?;
        let mut floor = senders(&without, concurrency, &mails).await?;
        let comparison = compare(&scale.plan, &mut load, &mut floor).await?;
        for (site, clients) in [(&with, &load), (&without, &floor)] {
            same("messages in the receiver's INBOX", site.inbox_total(RECEIVER).await?, clients.begun() as u64)?;
        }
        for (site, is_checked) in [(&with, true), (&without, false)] {
            same(&format!("verdicts {VERDICTS:?}"), verdicts(site).await?, [is_checked; VERDICTS.len()])?;
        }
        with.stop().await?;
        without.stop().await?;
        let case = "SMTP in with SPF, DKIM, DMARC and a DNS list, beside the same without".to_owned();
        let goal = Goal { ratio: (concurrency == 16).then_some(0.9), ..Goal::default() };
        rows.push(Row::Compared { case, concurrency, comparison, goal });
    }
    Ok(rows)
}

async fn senders<'a>(site: &'a MailSite, count: usize, mails: &Arc<[Mail]>) -> Outcome<Settled<'a, SmtpClient>> {
    let connections = SmtpClient::connect(count, smtp(site)?, Arc::clone(mails)).await?;
    Ok(Settled::new(&site.server, Clients::new(connections, site.server.process())))
}

/// Which of the verdicts the latest message has.
async fn verdicts(site: &MailSite) -> Outcome<[bool; VERDICTS.len()]> {
    let list = site.get(&format!("/mailbox/{RECEIVER}/messages?limit=1")).await?;
    let uid = list["messages"][0]["uid"].as_u64().ok_or_else(|| Failure::new("the INBOX has no message"))?;
    let message = site.get(&format!("/mailbox/{RECEIVER}/messages/{uid}")).await?;
    let results = message["headers"]["Authentication-Results"].to_string();
    Ok(VERDICTS.map(|verdict| results.contains(verdict)))
}

/// Returns a signer with a new key, and its public key for the DNS.
fn signer() -> Outcome<(DkimSigner<RsaKey<Sha256>, Done>, String)> {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048)?;
    let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair)?;
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key())?;
    let key = RsaKey::<Sha256>::from_key_der(PrivatePkcs8KeyDer::from(private.as_ref()).into())?;
    let signer = DkimSigner::from_key(key).domain(SENDING_DOMAIN).selector(SELECTOR);
    Ok((signer.headers(["From", "To", "Subject", "Date", "Message-ID"]), STANDARD.encode(public.as_ref())))
}

fn signed(signer: &DkimSigner<RsaKey<Sha256>, Done>, message: &str) -> Outcome<Mail> {
    let signature = signer.sign(message.as_bytes())?.to_header();
    Ok(Mail::new(SENDER, RECEIVER, &format!("{signature}{message}")))
}

/// Returns an address for a name server. Connections of the measurements before may still have its port of TCP.
fn free_address() -> Outcome<SocketAddr> {
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(Failure::new("no port is free for a name server"))
}

/// A private dnsmasq with the records of the sending domain; other names do not exist.
struct NameServer {
    process: Child,
    address: SocketAddr,
}

impl NameServer {
    fn start(public_key: &str) -> Outcome<Self> {
        let address = free_address()?;
        let key = format!("v=DKIM1; k=rsa; p={public_key}");
        let (first, rest) = key.split_at(LONGEST_STRING);
        let process = Command::new("dnsmasq")
            .args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces", "--user="])
            .args(["--listen-address=127.0.0.1", &format!("--port={}", address.port())])
            // A resolver caches that a name does not exist only with an SOA (RFC 2308 section 5), which dnsmasq adds for a
            // zone of its own.
            .args(["--local=/arpa/", "--auth-server=ns.example,127.0.0.1", "--auth-zone=example", "--auth-ttl=3600"])
            .arg(format!("--txt-record={SENDING_DOMAIN},v=spf1 ip4:127.0.0.1 -all"))
            .arg(format!("--txt-record=_dmarc.{SENDING_DOMAIN},v=DMARC1; p=reject"))
            .arg(format!("--txt-record={SELECTOR}._domainkey.{SENDING_DOMAIN},{first},{rest}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failure::new(format!("dnsmasq (Debian package dnsmasq-base): {error}")))?;
        Ok(Self { process, address })
    }

    /// The product with this name server and all checks.
    fn in_use_by(&self, product: &Product) -> Product {
        product
            .with("MAILAPI_DNS__SERVERS", &self.address.to_string())
            .with("MAILAPI_DNS__DNSSEC", "false")
            .with("MAILAPI_MAIL__EMBEDDED__INBOUND__TRUSTED_NETWORKS", "192.0.2.0/24")
            .with("MAILAPI_MAIL__EMBEDDED__INBOUND__DMARC", "reject")
            .with("MAILAPI_MAIL__EMBEDDED__INBOUND__DNSBL", "list.example")
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
