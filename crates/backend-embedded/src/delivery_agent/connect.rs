//! Connects to the servers of a destination.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mailapi_model::{DomainName, EnhancedCode, Reply};
use mailapi_smtp::client::{Cause, ClientConfig, Failure, Stage, TlsPolicy};
use mailapi_smtp::{Credentials, Password};
use mailapi_smtp_client::Connection;

use super::dane::Dane;
use super::next_hop::{Servers, loops, not_resolved, servers};
use super::sts::{Mode, Policy};
use super::tls_counts::TlsResult;
use super::{Inner, Relay};
use crate::replies::{from_wire, one_line};

/// A common destination of messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Destination {
    /// No server: a success notice of a local delivery.
    Here,
    /// The relay.
    Relay,
    /// The servers of this domain.
    Domain(DomainName),
}

/// A connection to a destination.
pub(super) struct Link {
    pub(super) connection: Connection,
    /// `host[address]:port`.
    pub(super) relay: String,
    /// Number of messages sent over it.
    pub(super) used: usize,
}

impl Link {
    /// Returns whether the server takes no further message over this connection (RFC 9422 section 5).
    pub(super) fn is_used_up(&self) -> bool {
        self.connection.capabilities().limits.transactions.is_some_and(|most| self.used >= most)
    }
}

/// Failure to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoLink {
    /// The server's reply, or our own instead: 4xx to retry, 5xx to give up.
    pub(super) reply: Reply,
    /// The server that was tried last.
    pub(super) relay: Option<String>,
    /// Whether the reply is the server's.
    pub(super) said_by_server: bool,
}

/// A server at one address.
struct Target<'a> {
    host: &'a str,
    address: SocketAddr,
    relay: Option<&'a Relay>,
    demand: &'a Demand<'a>,
}

/// The TLS that a connection to a server requires.
enum Demand<'a> {
    Nothing,
    /// TLS as the domain's MTA-STS policy requires.
    Policy(&'a Applied<'a>),
    /// A certificate that matches the TLSA records. They take precedence over the policy (RFC 8461 section 2).
    Dane(Dane),
}

/// The policy of a domain that demands verified TLS.
struct Applied<'a> {
    domain: &'a DomainName,
    policy: Policy,
}

impl Inner {
    /// Connects to the first server of the destination that accepts the connection.
    pub(super) async fn connect(&self, destination: &Destination) -> Result<Link, NoLink> {
        match (destination, &self.settings.relay) {
            (Destination::Domain(domain), _) => self.connect_to_domain(domain).await,
            (_, Some(relay)) => self.connect_to_relay(relay).await.map_err(NoLink::for_now),
            (_, None) => Err(NoLink::without_server(Reply::new(
                451,
                EnhancedCode::new(4, 3, 5),
                "no relay is configured any more",
            ))),
        }
    }

    async fn connect_to_relay(&self, relay: &Relay) -> Result<Link, NoLink> {
        let addresses = match relay.host.parse() {
            Ok(address) => vec![address],
            Err(_) => self.addresses(&relay.host).await.map_err(NoLink::without_server)?,
        };
        let mut failures = Failures::default();
        for address in addresses.into_iter().take(self.settings.max_addresses) {
            let address = SocketAddr::new(address, relay.port);
            let target = Target { host: &relay.host, address, relay: Some(relay), demand: &Demand::Nothing };
            match self.reach(&target).await {
                Ok(link) => return Ok(link),
                Err(failure) => failures.add(failure),
            }
        }
        Err(failures.no_link(|| no_address(&relay.host)))
    }

    async fn connect_to_domain(&self, domain: &DomainName) -> Result<Link, NoLink> {
        let entropy = self.message_store.entropy();
        let servers = servers(domain, &self.hostname, &*self.dns, entropy).await;
        let applied = self.policy_for(domain).await;
        let mut failures = Failures::default();
        // The limit covers all hosts together, so that an attempt ends in reasonable time.
        let mut left = self.settings.max_addresses;
        let Servers { names, are_proven } = servers.map_err(NoLink::without_server)?;
        for host in names {
            let dane = if are_proven { self.dane_of(&host, domain).await } else { Ok(None) };
            let demand = dane.and_then(|dane| self.demand(&host, dane, applied.as_ref()));
            let demand = match demand {
                Ok(demand) => demand,
                Err(failure) => {
                    failures.add(failure);
                    continue;
                }
            };
            let addresses = match self.addresses(&host).await {
                Ok(addresses) => addresses,
                Err(reply) => {
                    failures.add(NoLink::without_server(reply));
                    continue;
                }
            };
            let tried = addresses.len().min(left);
            left -= tried;
            for address in addresses.into_iter().take(tried) {
                // An address of this machine would be a mail loop.
                if !self.settings.allow_loopback && is_this_machine(address) {
                    failures.add(NoLink::without_server(loops(domain)));
                    continue;
                }
                let address = SocketAddr::new(address, self.settings.port);
                match self.reach(&Target { host: &host, address, relay: None, demand: &demand }).await {
                    Ok(link) => return Ok(link),
                    Err(failure) => failures.add(failure),
                }
            }
        }
        Err(failures.no_link(|| no_address(domain.as_str())))
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Reply> {
        self.dns.addresses(host).await.map_err(|error| not_resolved(&error, host))
    }

    /// Returns the policy of the domain, if it demands anything.
    async fn policy_for<'a>(&self, domain: &'a DomainName) -> Option<Applied<'a>> {
        let now = self.message_store.clock().now();
        let policy = self.sts.policy_of(domain, &*self.dns, &self.tls_counts, now).await?;
        (policy.mode != Mode::None).then_some(Applied { domain, policy })
    }

    /// Returns the TLS that a connection to a host requires. A policy in testing changes nothing but the counts.
    fn demand<'a>(
        &self,
        host: &str,
        dane: Option<Dane>,
        applied: Option<&'a Applied<'a>>,
    ) -> Result<Demand<'a>, NoLink> {
        if let Some(dane) = dane {
            return Ok(Demand::Dane(dane));
        }
        let Some(applied) = applied else { return Ok(Demand::Nothing) };
        if !applied.policy.allows(host) {
            self.tls_counts.count(TlsResult::Invalid);
            if applied.is_enforced() {
                return Err(applied.violated(&format!("it does not allow the server {host}"), None));
            }
        }
        Ok(Demand::Policy(applied))
    }

    /// Connects to one server with the required TLS.
    async fn reach(&self, target: &Target<'_>) -> Result<Link, NoLink> {
        match target.demand {
            Demand::Nothing => self.reach_when_offered(target).await,
            Demand::Policy(applied) => self.reach_by_policy(target, applied).await,
            Demand::Dane(dane) => self.reach_by_dane(target, dane).await,
        }
    }

    /// Connects over TLS and verifies the certificate by the TLSA records. It never falls back to less (RFC 7672 section
    /// 2.2).
    async fn reach_by_dane(&self, target: &Target<'_>, dane: &Dane) -> Result<Link, NoLink> {
        let failure = match self.open_by_dane(target, dane).await {
            Ok(link) => {
                self.tls_counts.count(dane.success());
                return Ok(link);
            }
            Err(failure) => failure,
        };
        match TlsResult::of(&failure) {
            None => Err(NoLink::of(&failure, target.label())),
            Some(result) => {
                self.tls_counts.count(result);
                let text = format!("the DANE records of {} demand verified TLS: {failure}", target.host);
                Err(NoLink { reply: not_protected(&text), relay: Some(target.label()), said_by_server: false })
            }
        }
    }

    /// Connects over TLS. After a failed handshake, a second one asks for signatures that a short RSA key can verify.
    async fn open_by_dane(&self, target: &Target<'_>, dane: &Dane) -> Result<Link, Failure> {
        let opened = self.open(target, TlsPolicy::Required, &dane.tls).await;
        match (opened, &dane.tls_for_short_keys) {
            (Err(failure @ Failure::Handshake(_)), Some(tls)) => {
                self.open(target, TlsPolicy::Required, tls).await.map_err(|_| failure)
            }
            (opened, _) => opened,
        }
    }

    async fn reach_by_policy(&self, target: &Target<'_>, applied: &Applied<'_>) -> Result<Link, NoLink> {
        let failure = match self.open_verified(target).await {
            Ok(link) => {
                self.tls_counts.count(TlsResult::Verified);
                return Ok(link);
            }
            Err(failure) => failure,
        };
        let Some(result) = TlsResult::of(&failure) else { return Err(NoLink::of(&failure, target.label())) };
        self.tls_counts.count(result);
        if applied.is_enforced() {
            return Err(applied.violated(&failure.to_string(), Some(target.label())));
        }
        self.reach_when_offered(target).await
    }

    /// Connects to one server. If optional TLS fails, retries without it (RFC 7435).
    async fn reach_when_offered(&self, target: &Target<'_>) -> Result<Link, NoLink> {
        let policy = target.relay.map_or(TlsPolicy::WhenOffered, |relay| relay.tls);
        let verified = self.relay_tls.as_ref().filter(|_| target.relay.is_some_and(Relay::is_verified));
        let tls = verified.unwrap_or(&self.any_tls);
        let opened = match self.open(target, policy, tls).await {
            Err(Failure::Handshake(_)) if policy == TlsPolicy::WhenOffered => {
                self.open(target, TlsPolicy::Never, tls).await
            }
            opened => opened,
        };
        let link = opened.map_err(|failure| NoLink::of(&failure, target.label()))?;
        self.tls_counts.count(match () {
            () if verified.is_some() => TlsResult::Verified,
            () if link.connection.is_encrypted() => TlsResult::Unverified,
            () => TlsResult::Plain,
        });
        Ok(link)
    }

    async fn open_verified(&self, target: &Target<'_>) -> Result<Link, Failure> {
        let tls = self.sts.verified_tls().map_err(|error| Failure::Handshake(Cause::Io(error.to_string())))?;
        self.open(target, TlsPolicy::Required, &tls).await
    }

    async fn open(
        &self,
        target: &Target<'_>,
        policy: TlsPolicy,
        tls: &Arc<rustls::ClientConfig>,
    ) -> Result<Link, Failure> {
        let login = target.relay.and_then(|relay| relay.credentials.as_ref());
        let credentials = login.map(|login| Credentials {
            username: login.username.clone(),
            password: Password::new(login.password.get().into_inner()),
        });
        let config = ClientConfig { tls: policy, credentials, ..ClientConfig::new(self.hostname.as_str()) };
        let limits = self.settings.time_limits;
        let connection = Connection::open(target.address, target.certificate_name(), config, tls, limits).await?;
        Ok(Link { connection, relay: target.label(), used: 0 })
    }
}

impl Applied<'_> {
    fn is_enforced(&self) -> bool {
        self.policy.mode == Mode::Enforce
    }

    fn violated(&self, why: &str, relay: Option<String>) -> NoLink {
        let text = format!("the MTA-STS policy of {} demands verified TLS: {why}", self.domain);
        NoLink { reply: not_protected(&text), relay, said_by_server: false }
    }
}

/// Returns the reply if a connection lacks the required protection. It is temporary: the domain's owner may correct the
/// server, the policy or the records (RFC 8461 section 5, RFC 7672 section 2.2).
fn not_protected(text: &str) -> Reply {
    Reply::new(451, EnhancedCode::new(4, 7, 5), one_line(text))
}

impl Target<'_> {
    fn label(&self) -> String {
        format!("{}[{}]:{}", self.host, self.address.ip(), self.address.port())
    }

    /// Returns the name that the certificate must be for, if it is verified.
    fn certificate_name(&self) -> &str {
        match self.demand {
            Demand::Dane(dane) => &dane.base,
            Demand::Nothing | Demand::Policy(_) => self.host,
        }
    }
}

impl NoLink {
    pub(super) const fn without_server(reply: Reply) -> Self {
        Self { reply, relay: None, said_by_server: false }
    }

    fn of(failure: &Failure, label: String) -> Self {
        let later = |subject, detail, text: String| {
            (Reply::new(421, EnhancedCode::new(4, subject, detail), one_line(&text)), false)
        };
        let (reply, said_by_server) = match failure {
            Failure::Connect(cause) => later(4, 1, format!("cannot connect to {label}: {cause}")),
            Failure::Handshake(cause) => later(7, 5, format!("TLS handshake with {label} failed: {cause}")),
            // A refusal of the connection or of EHLO is the server's verdict. Other failures may be caused by our
            // settings.
            Failure::Refused { stage: Stage::Greeting | Stage::Hello, reply } => (from_wire(reply), true),
            failure => match failure.reply().filter(|reply| reply.is_transient()) {
                Some(reply) => (from_wire(reply), true),
                None => later(4, 2, format!("no SMTP session with {label}: {failure}")),
            },
        };
        Self { reply, relay: Some(label), said_by_server }
    }

    /// Makes a relay failure temporary: a refusal by our own relay is not the message's fault.
    fn for_now(self) -> Self {
        if self.reply.is_transient() {
            return self;
        }
        let text = format!("relay unavailable: {}", self.reply);
        let reply = Reply::new(451, EnhancedCode::new(4, 4, 0), text);
        Self { reply, relay: self.relay, said_by_server: false }
    }
}

/// Failures of a destination's servers. The result is temporary if any of them is.
#[derive(Default)]
struct Failures {
    transient: Option<NoLink>,
    permanent: Option<NoLink>,
}

impl Failures {
    fn add(&mut self, failure: NoLink) {
        let kept = if failure.reply.is_transient() { &mut self.transient } else { &mut self.permanent };
        *kept = Some(failure);
    }

    fn no_link(self, none: impl FnOnce() -> Reply) -> NoLink {
        self.transient.or(self.permanent).unwrap_or_else(|| NoLink::without_server(none()))
    }
}

fn no_address(name: &str) -> Reply {
    Reply::new(550, EnhancedCode::new(5, 4, 4), format!("host {name} has no IP address for mail"))
}

/// Returns whether an address leads to this machine.
pub(super) fn is_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}
