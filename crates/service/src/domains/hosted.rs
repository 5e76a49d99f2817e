//! The pages that this server shows over HTTP for its domains: the policy for other mail servers (MTA-STS, RFC 8461),
//! and the settings for mail programs.

use mailapi_backend::DnsError;
use mailapi_model::DomainName;
use sha2::{Digest, Sha256};

use crate::{MailPrograms, Service, Unavailable};

/// The first labels of the hosts that have pages.
const LABELS: [&str; 3] = [STS, AUTOCONFIG, AUTODISCOVER];
/// The host of the policy (RFC 8461 section 3.3).
pub(super) const STS: &str = "mta-sts";
/// The host at which Thunderbird and others ask.
pub(super) const AUTOCONFIG: &str = "autoconfig";
/// The host at which Outlook asks.
const AUTODISCOVER: &str = "autodiscover";

/// Time for which other servers keep a policy: a week, so that a mistake does not stop mail for longer than most servers
/// try (RFC 8461 section 3.2 recommends weeks).
const ENFORCED_SECONDS: u32 = 7 * 24 * 60 * 60;
/// Of a policy that only asks for reports.
const TESTING_SECONDS: u32 = 24 * 60 * 60;

/// A domain's policy for servers that send to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StsPolicy {
    /// Whether senders must not deliver without verified TLS. Otherwise they only report failures.
    pub is_enforced: bool,
    /// The mail server.
    pub host: String,
}

impl StsPolicy {
    /// Formats the policy (RFC 8461 section 3.2).
    #[must_use]
    pub fn text(&self) -> String {
        let Self { is_enforced, host } = self;
        let (mode, age) = if *is_enforced { ("enforce", ENFORCED_SECONDS) } else { ("testing", TESTING_SECONDS) };
        format!("version: STSv1\r\nmode: {mode}\r\nmx: {host}\r\nmax_age: {age}\r\n")
    }
}

/// Returns the identifier of the policies for this mail server: another server has another one (RFC 8461 section 3.1).
pub(super) fn policy_id(host: &str) -> String {
    Sha256::digest(host).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Where mail programs of a domain log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSettings {
    /// The mail server.
    pub host: String,
    /// Where they read, best first.
    pub imap: Vec<ProgramPort>,
    /// Where they send, best first.
    pub submission: Vec<ProgramPort>,
}

/// A port for mail programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramPort {
    /// Its number.
    pub port: u16,
    /// Whether TLS begins at once. Otherwise it is STARTTLS.
    pub is_implicit: bool,
}

/// The hosts of a domain's pages that lead here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedPages {
    /// The domain.
    pub domain: DomainName,
    /// Their names.
    pub hosts: Vec<String>,
    /// Whether all look-ups had an answer.
    pub is_certain: bool,
}

impl Service {
    /// Returns the policy of a domain, or `None` if this server does not have the domain. `is_verifiable` is whether
    /// the listeners show a certificate that senders can verify; without one, the policy must not stop mail.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sts_policy(&self, domain: &DomainName, is_verifiable: bool) -> Result<Option<StsPolicy>, Unavailable> {
        let settings = &self.0.settings;
        // The certificate of the operator's own mail server is not known here.
        let is_enforced = is_verifiable && settings.mail_programs != MailPrograms::Elsewhere;
        let policy = StsPolicy { is_enforced, host: settings.mail_host.clone() };
        Ok(self.has_pages(domain).await?.then_some(policy))
    }

    /// Returns where mail programs of a domain log in, or `None` if this server does not have the domain or its ports
    /// are not known. The answer is the same for every mailbox, so it does not show which exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn program_settings(&self, domain: &DomainName) -> Result<Option<ProgramSettings>, Unavailable> {
        let MailPrograms::BuiltIn { submission, submissions, imap, imaps } = self.0.settings.mail_programs else {
            return Ok(None);
        };
        let (imap, submission) = (ports(imaps, imap), ports(submissions, submission));
        if imap.is_empty() || submission.is_empty() || !self.has_pages(domain).await? {
            return Ok(None);
        }
        Ok(Some(ProgramSettings { host: self.0.settings.mail_host.clone(), imap, submission }))
    }

    /// Returns the name of the mail server.
    #[must_use]
    pub fn mail_host(&self) -> &str {
        &self.0.settings.mail_host
    }

    /// Returns whether a host shows pages for every domain: the mail server itself, and the host of HTTPS.
    #[must_use]
    pub fn is_own_host(&self, host: &str) -> bool {
        let settings = &self.0.settings;
        settings.mail_host == host || settings.web_host.as_deref() == Some(host)
    }

    async fn has_pages(&self, domain: &DomainName) -> Result<bool, Unavailable> {
        let found = self.0.store.domains().get(domain).await?;
        Ok(found.is_some_and(|domain| domain.active && domain.approved))
    }

    /// Returns the hosts that need a certificate: those of verified domains with an address of this server.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn hosted_pages(&self) -> Result<Vec<HostedPages>, Unavailable> {
        let Some(web_host) = &self.0.settings.web_host else { return Ok(Vec::new()) };
        let ours = self.0.dns.addresses(web_host).await.unwrap_or_default();
        let mut pages = Vec::new();
        for domain in self.0.store.domains().verified_names().await? {
            let (mut hosts, mut is_certain) = (Vec::new(), !ours.is_empty());
            for label in LABELS {
                let host = format!("{label}.{domain}");
                match self.0.dns.addresses(&host).await {
                    // An authority may ask any of the addresses.
                    Ok(theirs) if !theirs.is_empty() && theirs.iter().all(|address| ours.contains(address)) => {
                        hosts.push(host);
                    }
                    Ok(_) | Err(DnsError::NoSuchName) => {}
                    Err(_) => is_certain = false,
                }
            }
            pages.push(HostedPages { domain, hosts, is_certain });
        }
        Ok(pages)
    }
}

/// TLS from the beginning is preferred (RFC 8314 section 3).
fn ports(implicit: Option<u16>, with_starttls: Option<u16>) -> Vec<ProgramPort> {
    let implicit = implicit.map(|port| ProgramPort { port, is_implicit: true });
    implicit.into_iter().chain(with_starttls.map(|port| ProgramPort { port, is_implicit: false })).collect()
}
