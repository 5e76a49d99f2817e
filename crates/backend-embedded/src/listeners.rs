//! The mail server's listeners: bound before the server reports that it is ready, then opened and closed
//! together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mailapi_backend::{InboundLog, JudgeInbound, Login, SignOutgoing};
use mailapi_model::EmailAddress;
use mailapi_proxy::{AnnouncingProxies, ProxiedListener, TrustedProxy};
use mailapi_smtp::server::MessageBudget;
use tokio::task::JoinSet;

use crate::Embedded;
use crate::dsn::RETURNED_HEADER_BYTES;
use crate::imap_listener::{self, ImapSettings, ImapSetup};
use crate::net::{ConnectionLimits, Listener, ServerTls, Shutdown, Socket};
use crate::smtp_listener::{self, InboundSetup};
use crate::smtp_session::{SmtpSettings, SmtpSetup};
use crate::submission_listener::{self, SubmissionSetup};

/// Addresses to listen on; a listener without an address is disabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenAddresses {
    /// Inbound mail.
    pub smtp: Option<SocketAddr>,
    /// Submission by our users.
    pub submission: Option<SocketAddr>,
    /// Submission over TLS from the beginning; needs a certificate.
    pub submissions: Option<SocketAddr>,
    /// IMAP clients.
    pub imap: Option<SocketAddr>,
    /// IMAP over TLS from the beginning; needs a certificate.
    pub imaps: Option<SocketAddr>,
}

/// A listener could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("{listener}: cannot listen on {address}: {error}")]
pub struct BindError {
    /// The listener: `smtp`, `submission`, `submissions`, `imap` or `imaps`.
    pub listener: &'static str,
    /// Its address.
    pub address: SocketAddr,
    /// The cause.
    pub error: io::Error,
}

/// Settings of the listeners. [`ListenerSettings::new`] sets the defaults named at each field.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Our host name in greetings, Received header fields and reports.
    pub hostname: String,
    /// Recipients of mail for `postmaster` without a domain: the first address that is a local mailbox or
    /// alias, otherwise the oldest mailbox. Default: postmaster at our host name.
    pub postmasters: Vec<EmailAddress>,
    /// Certificate and key. Default: none. Without one, or while it is empty, TLS is not offered, and passwords are
    /// accepted from loopback only.
    pub tls: Option<ServerTls>,
    /// Proxies that announce the clients of their connections. Default: none.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// SMTP sessions of inbound mail.
    pub smtp: SmtpSettings,
    /// Connection limits of inbound mail.
    pub smtp_connections: ConnectionLimits,
    /// SMTP sessions of submission.
    pub submission: SmtpSettings,
    /// Connection limits of submission, with and without TLS from the beginning together.
    pub submission_connections: ConnectionLimits,
    /// IMAP sessions.
    pub imap: ImapSettings,
    /// Connection limits of IMAP, with and without TLS from the beginning together.
    pub imap_connections: ConnectionLimits,
    /// Maximum size in bytes of the header block that a failure notice returns. Default 64 KiB.
    pub max_returned_header_bytes: usize,
    /// Memory limit in bytes for all messages being received by SMTP; further messages get a temporary failure. A long
    /// message needs room for one piece. Default 96 MiB, so that 200 senders of large messages take less than 300 MiB.
    pub max_message_memory_bytes: usize,
}

impl ListenerSettings {
    /// Returns the defaults for this host name.
    #[must_use]
    pub fn new(hostname: impl Into<String>) -> Self {
        let hostname = hostname.into();
        Self {
            postmasters: postmaster_at(&hostname).into_iter().collect(),
            hostname,
            tls: None,
            trusted_proxies: Vec::new(),
            smtp: SmtpSettings::default(),
            smtp_connections: ConnectionLimits::default(),
            submission: SmtpSettings::default(),
            submission_connections: ConnectionLimits::default(),
            imap: ImapSettings::default(),
            imap_connections: ConnectionLimits::default(),
            max_returned_header_bytes: RETURNED_HEADER_BYTES,
            max_message_memory_bytes: 96 * 1024 * 1024,
        }
    }
}

/// Returns the postmaster address at a host, if the host name allows an address.
#[must_use]
pub fn postmaster_at(hostname: &str) -> Option<EmailAddress> {
    format!("postmaster@{hostname}").parse().ok()
}

/// Services that the listeners query.
#[derive(Clone)]
pub struct Authenticators {
    /// Authenticates users.
    pub login: Arc<dyn Login>,
    /// Authorizes senders and signs their mail.
    pub sign: Arc<dyn SignOutgoing>,
    /// Checks mail from outside.
    pub judge: Arc<dyn JudgeInbound>,
    /// Counts inbound mail.
    pub inbound: Arc<dyn InboundLog>,
}

/// Bound sockets. Clients that connect wait until the listeners open.
#[derive(Debug)]
pub struct Listeners {
    smtp: Option<Listener>,
    submission: Option<Listener>,
    imap: Option<Listener>,
}

impl Listeners {
    /// Binds every listener that has an address; port 0 selects a free port.
    ///
    /// # Errors
    /// [`BindError`] for the first listener that cannot be bound.
    pub async fn bind(addresses: &ListenAddresses) -> Result<Self, BindError> {
        Ok(Self {
            smtp: Listener::of(bind("smtp", addresses.smtp)?, None),
            submission: Listener::of(
                bind("submission", addresses.submission)?,
                bind("submissions", addresses.submissions)?,
            ),
            imap: Listener::of(bind("imap", addresses.imap)?, bind("imaps", addresses.imaps)?),
        })
    }

    /// Returns the bound addresses, with the selected port instead of port 0.
    #[must_use]
    pub fn addresses(&self) -> ListenAddresses {
        let addresses = |listener: &Option<Listener>| listener.as_ref().map(Listener::addresses).unwrap_or_default();
        let [smtp, _] = addresses(&self.smtp);
        let [submission, submissions] = addresses(&self.submission);
        let [imap, imaps] = addresses(&self.imap);
        ListenAddresses { smtp, submission, submissions, imap, imaps }
    }

    /// Accepts clients until `shutdown`. The tasks end when open work is finished, or after the grace period.
    #[must_use]
    pub fn open(
        mut self,
        embedded: &Embedded,
        settings: ListenerSettings,
        authenticators: Authenticators,
        shutdown: &Shutdown,
    ) -> JoinSet<()> {
        self.announce(&settings.trusted_proxies);
        let mut tasks = JoinSet::new();
        let message_store = embedded.message_store();
        let budget = MessageBudget::new(settings.max_message_memory_bytes);
        let smtp = |of_listener: SmtpSettings, limits| SmtpSetup {
            hostname: settings.hostname.clone(),
            postmasters: settings.postmasters.clone(),
            tls: settings.tls.clone(),
            settings: of_listener,
            limits,
            max_returned_bytes: settings.max_returned_header_bytes,
            budget: budget.clone(),
        };
        if let Some(listener) = self.smtp {
            let smtp = smtp(settings.smtp, settings.smtp_connections);
            let setup = InboundSetup { smtp, judge: authenticators.judge, log: authenticators.inbound };
            tasks.spawn(smtp_listener::serve(listener, message_store.clone(), setup, shutdown.clone()));
        }
        if let Some(listener) = self.imap {
            let setup = ImapSetup {
                tls: settings.tls.clone(),
                settings: settings.imap,
                limits: settings.imap_connections,
                login: authenticators.login.clone(),
                sessions: embedded.imap_sessions.clone(),
            };
            tasks.spawn(imap_listener::serve(listener, message_store.clone(), setup, shutdown.clone()));
        }
        if let Some(listener) = self.submission {
            let smtp = smtp(settings.submission, settings.submission_connections);
            let setup = SubmissionSetup { smtp, login: authenticators.login, sign: authenticators.sign };
            tasks.spawn(submission_listener::serve(listener, message_store.clone(), setup, shutdown.clone()));
        }
        tasks
    }

    /// From now on, connections of these proxies begin with a PROXY header, at the listeners that each of them names.
    fn announce(&mut self, trusted: &[TrustedProxy]) {
        let listeners = [
            (&mut self.smtp, ProxiedListener::Smtp, None),
            (&mut self.submission, ProxiedListener::Submission, Some(ProxiedListener::Submissions)),
            (&mut self.imap, ProxiedListener::Imap, Some(ProxiedListener::Imaps)),
        ];
        for (listener, plain, encrypted) in listeners {
            let proxies = |listener| AnnouncingProxies::at(listener, trusted);
            if let Some(listener) = listener {
                listener.announce(proxies(plain), encrypted.map(proxies).unwrap_or_default());
            }
        }
    }
}

fn bind(listener: &'static str, address: Option<SocketAddr>) -> Result<Option<Socket>, BindError> {
    let Some(address) = address else { return Ok(None) };
    let bound = Socket::bind(address);
    bound.map(Some).map_err(|error| BindError { listener, address, error })
}
