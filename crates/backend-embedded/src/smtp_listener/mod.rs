//! Mail from outside (port 25, here 2525): for mailboxes of this server only. Nobody logs in, nothing is relayed.

mod forged;
mod host;

use std::sync::Arc;

use mailapi_backend::InboundLog;
use mailapi_model::EmailAddress;
use mailapi_smtp::server::{MessageBudget, Role};

use crate::Maildrop;
use crate::net::{Arrival, ConnectionLimits, Listener, ServerTls, Shutdown};
use crate::smtp_session::{BUSY, Doorway, SmtpSettings, converse};
use host::InboundHost;

/// What the listener for mail from outside needs.
#[derive(Clone)]
pub(crate) struct InboundSetup {
    pub(crate) hostname: String,
    pub(crate) postmasters: Vec<EmailAddress>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) settings: SmtpSettings,
    pub(crate) limits: ConnectionLimits,
    pub(crate) max_returned_bytes: usize,
    /// What messages under way may take, over all sessions of both SMTP listeners.
    pub(crate) budget: MessageBudget,
    pub(crate) log: Arc<dyn InboundLog>,
}

/// Serves until the signal comes and the last session has ended.
pub(crate) async fn serve(listener: Listener, maildrop: Maildrop, setup: InboundSetup, shutdown: Shutdown) {
    let (setup, limits) = (Arc::new(setup.clone()), setup.limits);
    let session = move |arrival: Arrival| session(arrival, maildrop.clone(), setup.clone());
    listener.serve(limits, shutdown, BUSY, session).await;
}

async fn session(arrival: Arrival, maildrop: Maildrop, setup: Arc<InboundSetup>) {
    let peer = arrival.peer;
    let max_message_bytes = maildrop.settings().max_message_bytes;
    let spool = maildrop.spool().for_strangers();
    let doorway = Doorway {
        session: setup.settings.session(
            &setup.hostname,
            Role::Inbound,
            setup.tls.is_some(),
            max_message_bytes,
            setup.budget.clone(),
        ),
        settings: &setup.settings,
        tls: setup.tls.as_ref(),
        spool: &spool,
        grace: setup.limits.grace,
    };
    let mut host = InboundHost::new(maildrop.clone(), &setup, peer.ip());
    if let Err(error) = converse(arrival, doorway, &mut host).await {
        tracing::debug!(%peer, %error, "an SMTP connection broke");
    }
}
