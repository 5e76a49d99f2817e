//! Checks of mail from outside: SPF, DKIM, DMARC and ARC, and what follows from them.
//!
//! Of these, only `dmarc` decides. The author in From is what readers see, so a message is trusted if the author's domain
//! confirms it: by a signature, or by the server that sent it. SPF, DKIM and ARC alone refuse nothing. A spam filter, if
//! there is one, sees what these checks accept.

mod answers;
mod author;
mod body_hash;
mod dmarc;
mod dnsbl;
mod fraud;
mod greylist;
mod key_record;
mod lookups;
mod policy_record;
mod results;
mod signatures;
mod spam;
mod spf;
mod tag_list;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ipnet::IpNet;
use mailapi_backend::mime::header_lines;
use mailapi_backend::{InboundAction, InboundMail, JudgeInbound, Judgement, read_bytes};
use mailapi_model::{AuthenticationResult, Blob, DomainName};
pub use mailapi_rspamd::RspamdAddress;

pub(crate) use answers::Verifier;
pub use dnsbl::MAX_LISTS as MAX_DNSBL;
pub(crate) use greylist::GreylistSize;

use crate::Service;
use crate::mail::LONG_WORK_BYTES;
use answers::Answers;
use author::{Author, Fault};
use body_hash::{BodyHashes, Forms};
use dmarc::{Demand, DmarcCheck};
use lookups::Lookups;
use signatures::Signatures;
use spf::{SpfCheck, is_below};

/// Maximum number of keys that are looked up: eight signatures and twenty-one of ARC.
const MAX_KEYS: usize = 29;

/// Time limit for the keys of signatures.
const KEY_TIME: Duration = Duration::from_secs(10);

/// Maximum length of a header that is read. A listener refuses longer ones of messages that are not in memory.
const MAX_HEADER_BYTES: usize = 1024 * 1024;

/// Headers above this length are verified on a blocking thread.
const LONG_HEADER_BYTES: usize = 64 * 1024;

/// What happens to mail whose author's domain does not confirm it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DmarcAction {
    /// The results are only recorded.
    Off,
    /// It is delivered to the folder for junk.
    #[default]
    Junk,
    /// It is refused if the author's domain asks for that or if it has no valid author, and otherwise delivered to the
    /// folder for junk.
    Reject,
}

/// Settings of the checks of mail from outside.
#[derive(Debug, Clone)]
pub struct InboundSettings {
    /// What happens to mail whose author's domain does not confirm it.
    pub dmarc: DmarcAction,
    /// Clients whose mail is not checked.
    pub trusted_networks: Vec<IpNet>,
    /// Lists in the DNS of clients whose mail is refused, at most [`MAX_DNSBL`].
    pub dnsbl: Vec<DomainName>,
    /// Whether mail of unknown senders is refused for now.
    pub greylist: bool,
    /// The spam filter; `None` if there is none.
    pub rspamd: Option<RspamdAddress>,
}

impl Default for InboundSettings {
    /// This machine is trusted: its programs have no login, and no domain lists its loopback address.
    fn default() -> Self {
        let loopback = [IpNet::new_assert(Ipv4Addr::LOCALHOST.into(), 8), IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST))];
        let trusted_networks = loopback.map(|network| network.trunc()).to_vec();
        Self { dmarc: DmarcAction::default(), trusted_networks, dnsbl: Vec::new(), greylist: false, rspamd: None }
    }
}

/// The results of all checks of one message.
struct Findings {
    spf: SpfCheck,
    signatures: Signatures,
    dmarc: DmarcCheck,
    /// The author's domain; empty if it is missing or ambiguous.
    author: String,
    /// Why the message is not trusted although no policy says so; empty otherwise.
    reason: &'static str,
    demand: Demand,
}

#[async_trait]
impl JudgeInbound for Service {
    async fn judge(&self, mail: InboundMail<'_>) -> Judgement {
        let client = mail.client.to_canonical();
        let settings = &self.0.settings.inbound;
        if settings.trusted_networks.iter().any(|network| network.contains(&client)) {
            return Judgement::unchecked();
        }
        if let Some(list) = dnsbl::listed(self.0.dns.as_ref(), client, &settings.dnsbl).await {
            let text = format!("The client {client} is in the list {list}");
            return Judgement { action: InboundAction::Refuse(text), ..Judgement::unchecked() };
        }
        match self.findings(client, &mail).await {
            Ok(findings) => {
                let judgement = self.judgement(mail.hostname, &findings);
                if matches!(judgement.action, InboundAction::Refuse(_)) {
                    return judgement;
                }
                let judgement = self.greylisted(judgement, &findings, client, &mail).await;
                if matches!(judgement.action, InboundAction::Defer(_)) {
                    return judgement;
                }
                let judgement = self.filtered(judgement, client, &mail).await;
                self.with_verdict(judgement, client, &mail).await
            }
            Err(error) => {
                // The message is accepted only if it can be read again.
                tracing::error!(%error, "inbound message could not be checked");
                Judgement::unchecked()
            }
        }
    }
}

impl Service {
    fn judgement(&self, hostname: &str, findings: &Findings) -> Judgement {
        let action = match (self.0.settings.inbound.dmarc, findings.demand) {
            (DmarcAction::Off, _) | (_, Demand::None) => InboundAction::Deliver,
            (DmarcAction::Reject, Demand::Reject) => InboundAction::Refuse(results::refusal(findings)),
            (DmarcAction::Junk | DmarcAction::Reject, _) => InboundAction::Junk,
        };
        let authentication = Some(results::summary(findings));
        Judgement { action, authentication, fields: results::field(hostname, findings), ..Judgement::unchecked() }
    }

    async fn findings(&self, client: IpAddr, mail: &InboundMail<'_>) -> io::Result<Findings> {
        let dns = self.0.dns.as_ref();
        let now = u64::try_from(self.0.clock.now().as_seconds()).unwrap_or_default();
        let header = header_of(&mail.message).await?;
        let overview = signatures::overview(&header, now);
        let hashes = match overview.keys.is_empty() {
            true => BodyHashes::default(),
            false => hashes_of(&mail.message, overview.body, overview.forms).await?,
        };
        let lookups = Lookups::new(dns, MAX_KEYS, KEY_TIME);
        let (spf, keys) = tokio::join!(
            spf::check(dns, client, mail.client_name, mail.sender),
            Answers::keys(&lookups, &overview.keys)
        );
        let signatures = self.verified(header, hashes, keys, now).await?;
        Ok(self.concluded(mail, overview.author, spf, signatures).await)
    }

    async fn verified(&self, header: Bytes, hashes: BodyHashes, keys: Answers, now: u64) -> io::Result<Signatures> {
        if header.len() <= LONG_HEADER_BYTES {
            return Ok(signatures::verify(&header, &hashes, &keys, now, self.0.verifier.get()));
        }
        let service = self.clone();
        let verify = move || signatures::verify(&header, &hashes, &keys, now, service.0.verifier.get());
        tokio::task::spawn_blocking(verify).await.map_err(io::Error::other)
    }

    /// Checks the author, and decides what the results mean for the message.
    async fn concluded(
        &self,
        mail: &InboundMail<'_>,
        author: Author,
        spf: SpfCheck,
        signatures: Signatures,
    ) -> Findings {
        let none = DmarcCheck { result: AuthenticationResult::None, policy: Demand::None };
        let mut findings =
            Findings { spf, signatures, dmarc: none, author: String::new(), reason: "", demand: Demand::None };
        match (author.fault, author.domains.as_slice()) {
            (None, [domain]) => {
                let (dns, verifier) = (self.0.dns.as_ref(), self.0.verifier.get());
                let (spf, signed) = (&findings.spf, &findings.signatures.dkim);
                findings.dmarc = dmarc::check(dns, verifier, domain, spf, signed).await;
                findings.author.clone_from(domain);
            }
            (fault, _) => {
                let fault = fault.unwrap_or(Fault::NoAddress);
                findings.dmarc.result = AuthenticationResult::Permerror;
                (findings.reason, findings.demand) = (fault.reason(), demand_of(fault, mail.sender));
            }
        }
        if findings.dmarc.result == AuthenticationResult::Fail {
            findings.demand = findings.dmarc.policy;
        }
        for domain in author.domains {
            self.protect_own_domain(&domain, mail.hostname, &mut findings).await;
        }
        findings
    }

    /// Treats mail from an author in a domain of this server as if the domain asked to refuse what it does not
    /// confirm: its users log in to send.
    async fn protect_own_domain(&self, author: &str, hostname: &str, findings: &mut Findings) {
        let confirmed = match findings.dmarc.result {
            AuthenticationResult::Pass | AuthenticationResult::Temperror => true,
            AuthenticationResult::None | AuthenticationResult::Permerror => findings.confirms(author),
            _ => false,
        };
        if confirmed || !self.is_own_domain(author, hostname).await {
            return;
        }
        findings.author = author.to_owned();
        findings.dmarc = DmarcCheck { result: AuthenticationResult::Fail, policy: Demand::Reject };
        (findings.reason, findings.demand) = ("author in a domain of this server", Demand::Reject);
    }

    /// Returns whether the domain is this server's name, the author of its notices, or whether an admin made or
    /// approved it: a sign-up alone must not affect the mail of others.
    async fn is_own_domain(&self, domain: &str, hostname: &str) -> bool {
        if domain.eq_ignore_ascii_case(hostname) {
            return true;
        }
        let Ok(domain) = domain.parse::<DomainName>() else { return false };
        let found = self.0.store.domains().get(&domain).await;
        found.map(|found| found.is_some_and(|domain| domain.approved)).unwrap_or_else(|error| {
            tracing::error!(%domain, %error, "could not look up the author's domain");
            false
        })
    }
}

impl Findings {
    /// Returns whether a check passed, or may pass later, for the author's domain or below it. That is the relaxed
    /// alignment of a domain without a DMARC policy.
    fn confirms(&self, author: &str) -> bool {
        let may_pass = |result| matches!(result, AuthenticationResult::Pass | AuthenticationResult::Temperror);
        let signed = self.signatures.dkim.iter().any(|one| may_pass(one.result) && is_below(&one.domain, author));
        signed || (may_pass(self.spf.result) && is_below(&self.spf.domain, author))
    }
}

/// Returns what happens to a message without a single author domain, which DMARC does not cover (RFC 9989 section
/// 5.3). Readers show only one of several authors, so the others could hide it. Old servers return mail without an
/// author, and a refused bounce would be lost.
const fn demand_of(fault: Fault, sender: &str) -> Demand {
    match fault {
        Fault::SeveralDomains => Demand::Quarantine,
        Fault::NoAddress if sender.is_empty() => Demand::Quarantine,
        Fault::NoAddress | Fault::SeveralFields => Demand::Reject,
    }
}

/// Returns the header with its final empty line.
async fn header_of(message: &Blob) -> io::Result<Bytes> {
    let beginning = match message.in_memory() {
        Some(bytes) => bytes.clone(),
        None => read_bytes(message, 0..MAX_HEADER_BYTES).await?,
    };
    let fields: usize = header_lines(&beginning).map(<[u8]>::len).sum();
    let empty_line = beginning[fields..].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(beginning.slice(..fields + empty_line))
}

async fn hashes_of(message: &Blob, begin: usize, forms: Forms) -> io::Result<BodyHashes> {
    let body = message.slice(begin..message.len());
    if body.in_memory().is_some_and(|bytes| bytes.len() <= LONG_WORK_BYTES) {
        return BodyHashes::of(&body, forms);
    }
    tokio::task::spawn_blocking(move || BodyHashes::of(&body, forms)).await.map_err(io::Error::other)?
}
