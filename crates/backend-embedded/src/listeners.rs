//! The mail server's doors: bound before anything is promised, opened together, closed together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mailapi_backend::{InboundLog, Login, SignOutgoing};
use mailapi_model::EmailAddress;
use mailapi_smtp::server::MessageBudget;
use tokio::task::JoinSet;

use crate::Embedded;
use crate::dsn::RETURNED_HEADER_BYTES;
use crate::imap_listener::{self, ImapSettings, ImapSetup};
use crate::net::{ConnectionLimits, Listener, ServerTls, Shutdown};
use crate::smtp_listener::{self, InboundSetup};
use crate::smtp_session::SmtpSettings;
use crate::submission_listener::{self, SubmissionSetup};

/// Where to listen; a door without an address stays shut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenAddresses {
    /// Mail from outside.
    pub smtp: Option<SocketAddr>,
    /// Mail from our users.
    pub submission: Option<SocketAddr>,
    /// Mail programs that read.
    pub imap: Option<SocketAddr>,
}

/// A door that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{listener}: cannot listen on {address}: {error}")]
pub struct BindError {
    /// Which: `smtp`, `submission` or `imap`.
    pub listener: &'static str,
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub error: io::Error,
}

/// How the doors behave. [`ListenerSettings::new`] gives the defaults named at each field.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Our name: in greetings, in Received headers, in reports.
    pub hostname: String,
    /// Who gets mail for `postmaster` without a domain: the first of these that is a mailbox here. Default: that name at
    /// our own.
    pub postmasters: Vec<EmailAddress>,
    /// Certificate and key. Default: none, TLS is not offered, and passwords are taken from loopback only.
    pub tls: Option<ServerTls>,
    /// Sessions with mail from outside.
    pub smtp: SmtpSettings,
    /// Connections with mail from outside.
    pub smtp_connections: ConnectionLimits,
    /// Sessions with mail from our users.
    pub submission: SmtpSettings,
    /// Connections with mail from our users.
    pub submission_connections: ConnectionLimits,
    /// Sessions of mail programs that read.
    pub imap: ImapSettings,
    /// Connections of mail programs that read.
    pub imap_connections: ConnectionLimits,
    /// How much of a header block a notice of failure returns, in octets. Default 64 KiB.
    pub max_returned_header_bytes: usize,
    /// Octets that the messages which SMTP clients are sending may take in memory together; further ones are told to
    /// come again. Must be more than the longest message. Default 256 MiB.
    pub max_message_memory_bytes: usize,
}

impl ListenerSettings {
    /// The defaults for a host of this name.
    #[must_use]
    pub fn new(hostname: impl Into<String>) -> Self {
        let hostname = hostname.into();
        Self {
            postmasters: postmaster_at(&hostname).into_iter().collect(),
            hostname,
            tls: None,
            smtp: SmtpSettings::default(),
            smtp_connections: ConnectionLimits::default(),
            submission: SmtpSettings::default(),
            submission_connections: ConnectionLimits::default(),
            imap: ImapSettings::default(),
            imap_connections: ConnectionLimits::default(),
            max_returned_header_bytes: RETURNED_HEADER_BYTES,
            max_message_memory_bytes: 256 * 1024 * 1024,
        }
    }
}

/// The postmaster at a host, where a mailbox can be there at all.
#[must_use]
pub fn postmaster_at(hostname: &str) -> Option<EmailAddress> {
    format!("postmaster@{hostname}").parse().ok()
}

/// Whom the doors ask.
#[derive(Clone)]
pub struct Authenticators {
    /// Who may log in.
    pub login: Arc<dyn Login>,
    /// Who may send, and with which signature.
    pub sign: Arc<dyn SignOutgoing>,
    /// Who counts the mail from outside.
    pub inbound: Arc<dyn InboundLog>,
}

/// Sockets that are bound: whoever connects waits until they are opened.
#[derive(Debug)]
pub struct Listeners {
    smtp: Option<Listener>,
    submission: Option<Listener>,
    imap: Option<Listener>,
}

impl Listeners {
    /// Binds every door that has an address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`BindError`] for the first that cannot be bound.
    pub async fn bind(addresses: &ListenAddresses) -> Result<Self, BindError> {
        Ok(Self {
            smtp: bind("smtp", addresses.smtp).await?,
            submission: bind("submission", addresses.submission).await?,
            imap: bind("imap", addresses.imap).await?,
        })
    }

    /// Where they can be reached; a port 0 has become a real one.
    #[must_use]
    pub fn addresses(&self) -> ListenAddresses {
        let address = |listener: &Option<Listener>| listener.as_ref().map(Listener::local_addr);
        ListenAddresses { smtp: address(&self.smtp), submission: address(&self.submission), imap: address(&self.imap) }
    }

    /// Lets everybody in, until `shutdown`. The tasks end when what was in flight is finished, or after the grace.
    #[must_use]
    pub fn open(
        self,
        embedded: &Embedded,
        settings: ListenerSettings,
        authenticators: Authenticators,
        shutdown: &Shutdown,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let message_store = embedded.message_store();
        let budget = MessageBudget::new(settings.max_message_memory_bytes);
        if let Some(listener) = self.smtp {
            let setup = InboundSetup {
                hostname: settings.hostname.clone(),
                postmasters: settings.postmasters.clone(),
                tls: settings.tls.clone(),
                settings: settings.smtp,
                limits: settings.smtp_connections,
                max_returned_bytes: settings.max_returned_header_bytes,
                log: authenticators.inbound.clone(),
                budget: budget.clone(),
            };
            tasks.spawn(smtp_listener::serve(listener, message_store.clone(), setup, shutdown.clone()));
        }
        if let Some(listener) = self.imap {
            let setup = ImapSetup {
                tls: settings.tls.clone(),
                settings: settings.imap,
                limits: settings.imap_connections,
                login: authenticators.login.clone(),
            };
            tasks.spawn(imap_listener::serve(listener, message_store.clone(), setup, shutdown.clone()));
        }
        if let Some(listener) = self.submission {
            let setup = SubmissionSetup {
                hostname: settings.hostname,
                postmasters: settings.postmasters,
                tls: settings.tls,
                settings: settings.submission,
                limits: settings.submission_connections,
                max_returned_bytes: settings.max_returned_header_bytes,
                login: authenticators.login,
                budget,
                sign: authenticators.sign,
            };
            tasks.spawn(submission_listener::serve(listener, message_store.clone(), setup, shutdown.clone()));
        }
        tasks
    }
}

async fn bind(listener: &'static str, address: Option<SocketAddr>) -> Result<Option<Listener>, BindError> {
    let Some(address) = address else { return Ok(None) };
    let bound = Listener::bind(address).await;
    bound.map(Some).map_err(|error| BindError { listener, address, error })
}
