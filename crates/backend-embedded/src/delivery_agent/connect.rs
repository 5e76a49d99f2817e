//! Connects to the servers of a destination.

use std::net::{IpAddr, SocketAddr};

use mailapi_model::{DomainName, EnhancedCode, Reply};
use mailapi_smtp::client::{Client, ClientConfig, Failure, Stage, TlsPolicy};
use mailapi_smtp::{Credentials, Password};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::next_hop::{loops, not_resolved, servers};
use super::transfer::{Link, bring_up};
use super::{Inner, Relay, RelayTls};
use crate::net::{ClientTls, Stream};
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

impl NoLink {
    const fn without_server(reply: Reply) -> Self {
        Self { reply, relay: None, said_by_server: false }
    }
}

/// A server at one address.
struct Target<'a> {
    host: &'a str,
    address: SocketAddr,
    relay: Option<&'a Relay>,
}

/// TLS settings of a connection.
#[derive(Clone, Copy)]
struct TlsUse<'a> {
    policy: TlsPolicy,
    implicit: bool,
    client: &'a ClientTls,
}

impl Inner {
    /// Connects to the first server of the destination that accepts the connection.
    pub(super) async fn connect(&self, destination: &Destination) -> Result<Link, NoLink> {
        match (destination, &self.settings.relay) {
            (Destination::Domain(domain), _) => self.connect_to_domain(domain).await,
            (_, Some(relay)) => self.connect_to_relay(relay).await.map_err(NoLink::for_now),
            (_, None) => {
                Err(NoLink::without_server(Reply::new(451, EnhancedCode::new(4, 3, 5), "there is no relay any more")))
            }
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
            match self.reach(&Target { host: &relay.host, address, relay: Some(relay) }).await {
                Ok(link) => return Ok(link),
                Err(failure) => failures.add(failure),
            }
        }
        Err(failures.no_link(|| no_address(&relay.host)))
    }

    async fn connect_to_domain(&self, domain: &DomainName) -> Result<Link, NoLink> {
        let entropy = self.message_store.entropy();
        let hosts = servers(domain, &self.hostname, &*self.dns, entropy).await;
        let mut failures = Failures::default();
        // The limit covers all hosts together, so that an attempt ends in reasonable time.
        let mut left = self.settings.max_addresses;
        for host in hosts.map_err(NoLink::without_server)? {
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
                match self.reach(&Target { host: &host, address, relay: None }).await {
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

    /// Connects to one server. If optional TLS fails, retries without it (RFC 7435).
    async fn reach(&self, target: &Target<'_>) -> Result<Link, NoLink> {
        let tls = self.tls_use(target);
        match self.open(target, tls).await {
            Err(Unreached::Handshake(_)) if tls.policy == TlsPolicy::WhenOffered && !tls.implicit => {
                self.open(target, TlsUse { policy: TlsPolicy::Never, ..tls }).await
            }
            reached => reached,
        }
        .map_err(|unreached| unreached.into_failure(target))
    }

    fn tls_use(&self, target: &Target<'_>) -> TlsUse<'_> {
        let how = target.relay.map_or(RelayTls::WhenOffered, |relay| relay.tls);
        let policy = match how {
            RelayTls::Never => TlsPolicy::Never,
            RelayTls::WhenOffered => TlsPolicy::WhenOffered,
            RelayTls::Required | RelayTls::Implicit => TlsPolicy::Required,
        };
        let verified = self.relay_tls.as_ref().filter(|_| how.is_verified());
        TlsUse { policy, implicit: how == RelayTls::Implicit, client: verified.unwrap_or(&self.any_tls) }
    }

    async fn open(&self, target: &Target<'_>, tls: TlsUse<'_>) -> Result<Link, Unreached> {
        let settings = &self.settings;
        let connecting = timeout(settings.connect_timeout, TcpStream::connect(target.address)).await;
        let connected = connecting.map_err(|_| Unreached::Connect("it takes too long".to_owned()))?;
        let mut stream = connected.and_then(Stream::plain).map_err(|error| Unreached::Connect(error.to_string()))?;
        let mut client = Client::new(self.client_config(target, tls.policy));
        if tls.implicit {
            self.handshake(target, tls, &mut stream).await?;
            client.tls_established();
        }
        while bring_up(&mut client, &mut stream, settings).await.map_err(Unreached::Greeting)? {
            self.handshake(target, tls, &mut stream).await?;
            client.tls_established();
        }
        Ok(Link { client, stream, relay: target.label(), used: 0 })
    }

    async fn handshake(&self, target: &Target<'_>, tls: TlsUse<'_>, stream: &mut Stream) -> Result<(), Unreached> {
        let handshake = timeout(self.settings.greeting_timeout, tls.client.upgrade(target.host, stream)).await;
        let done = handshake.map_err(|_| Unreached::Handshake("it takes too long".to_owned()))?;
        done.map_err(|error| Unreached::Handshake(error.to_string()))
    }

    fn client_config(&self, target: &Target<'_>, policy: TlsPolicy) -> ClientConfig {
        let mut config = ClientConfig::new(self.hostname.as_str());
        config.tls = policy;
        config.credentials = target.relay.and_then(|relay| relay.credentials.as_ref()).map(|login| Credentials {
            username: login.username.clone(),
            password: Password::new(login.password.get().into_inner()),
        });
        // On loopback a password is safe without TLS.
        config.auth_without_tls = target.address.ip().is_loopback();
        config
    }
}

impl Target<'_> {
    fn label(&self) -> String {
        format!("{}[{}]:{}", self.host, self.address.ip(), self.address.port())
    }
}

/// Reason why a server was not reached.
enum Unreached {
    Connect(String),
    Handshake(String),
    Greeting(Failure),
}

impl Unreached {
    fn into_failure(self, target: &Target<'_>) -> NoLink {
        let label = target.label();
        let later =
            |code: (u16, u16), text: String| Reply::new(421, EnhancedCode::new(4, code.0, code.1), one_line(&text));
        let (reply, said_by_server) = match self {
            Self::Connect(why) => (later((4, 1), format!("no connection to {label}: {why}")), false),
            Self::Handshake(why) => (later((7, 5), format!("no TLS with {label}: {why}")), false),
            // A refusal of the connection or of EHLO is the server's verdict. Other failures may be caused by our
            // settings.
            Self::Greeting(Failure::Refused { stage: Stage::Greeting | Stage::Hello, reply }) => {
                (from_wire(&reply), true)
            }
            Self::Greeting(failure) => match failure.reply().filter(|reply| reply.is_transient()) {
                Some(reply) => (from_wire(reply), true),
                None => (later((4, 2), format!("{label} does not take us: {failure}")), false),
            },
        };
        NoLink { reply, relay: Some(label), said_by_server }
    }
}

impl NoLink {
    /// Makes a relay failure temporary: a refusal by our own relay is not the message's fault.
    fn for_now(self) -> Self {
        if self.reply.is_transient() {
            return self;
        }
        let text = format!("the relay cannot be used: {}", self.reply);
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
    Reply::new(550, EnhancedCode::new(5, 4, 4), format!("{name} has no address that mail could go to"))
}

fn is_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}
