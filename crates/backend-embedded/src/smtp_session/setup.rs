//! The configuration that both SMTP listeners share.

use std::net::IpAddr;

use mailapi_model::{ClientNetwork, EmailAddress};
use mailapi_smtp::server::{MessageBudget, Role};

use super::{Delivery, Postmaster, SessionSetup, SmtpSettings};
use crate::MessageStore;
use crate::accept::Relaying;
use crate::net::{ConnectionLimits, ServerTls};

/// Configuration of an SMTP listener.
#[derive(Clone)]
pub(crate) struct SmtpSetup {
    pub(crate) hostname: String,
    pub(crate) postmasters: Vec<EmailAddress>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) settings: SmtpSettings,
    pub(crate) limits: ConnectionLimits,
    /// Maximum size in bytes of the header block in a failure notice.
    pub(crate) max_returned_bytes: usize,
    /// Memory limit of messages being received, shared by all sessions of both SMTP listeners.
    pub(crate) budget: MessageBudget,
}

impl SmtpSetup {
    /// Returns the resources of a session of this client.
    pub(crate) fn session(&self, role: Role, max_message_bytes: usize, client: ClientNetwork) -> SessionSetup<'_> {
        let Self { hostname, tls, settings, limits, budget, .. } = self;
        let offers_tls = tls.as_ref().is_some_and(ServerTls::is_ready);
        let budget = budget.for_client(&client.subscriber());
        let session = settings.session(hostname, role, offers_tls, max_message_bytes, budget);
        SessionSetup { session, settings, tls: tls.as_ref(), grace: limits.grace }
    }

    /// Returns the parameters of accepting a message from `peer`.
    pub(crate) fn delivery<'a>(
        &'a self,
        message_store: &'a MessageStore,
        postmaster: &'a Postmaster<'_>,
        peer: IpAddr,
        relaying: Relaying,
    ) -> Delivery<'a> {
        Delivery {
            message_store,
            hostname: &self.hostname,
            postmaster: postmaster.found(),
            peer,
            relaying,
            max_returned_bytes: self.max_returned_bytes,
        }
    }
}
