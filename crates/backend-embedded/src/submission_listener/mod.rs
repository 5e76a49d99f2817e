//! Mail from our users (port 587, here 2587; RFC 6409): whoever logs in sends as itself, or as whom its grants allow,
//! to anyone.

mod completion;
mod header;
mod host;
mod mailbox;
mod private;

use std::sync::Arc;

use mailapi_backend::{Login, SignOutgoing};
use mailapi_model::EmailAddress;
use mailapi_smtp::server::{MessageBudget, Role};

use crate::MessageStore;
use crate::net::{Arrival, ConnectionLimits, Listener, ServerTls, Shutdown};
use crate::smtp_session::{BUSY, SessionSetup, SmtpSettings, converse};
use host::SubmissionHost;

/// What the submission listener needs.
#[derive(Clone)]
pub(crate) struct SubmissionSetup {
    pub(crate) hostname: String,
    pub(crate) postmasters: Vec<EmailAddress>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) settings: SmtpSettings,
    pub(crate) limits: ConnectionLimits,
    pub(crate) max_returned_bytes: usize,
    /// What messages under way may take, over all sessions of both SMTP listeners.
    pub(crate) budget: MessageBudget,
    pub(crate) login: Arc<dyn Login>,
    pub(crate) sign: Arc<dyn SignOutgoing>,
}

/// Serves until the signal comes and the last session has ended.
pub(crate) async fn serve(listener: Listener, message_store: MessageStore, setup: SubmissionSetup, shutdown: Shutdown) {
    let (setup, limits) = (Arc::new(setup.clone()), setup.limits);
    let session = move |arrival: Arrival| session(arrival, message_store.clone(), setup.clone());
    listener.serve(limits, shutdown, BUSY, session).await;
}

async fn session(arrival: Arrival, message_store: MessageStore, setup: Arc<SubmissionSetup>) {
    let peer = arrival.peer;
    // Without TLS a password is safe only where nobody is in between.
    let role = Role::Submission { auth_without_tls: arrival.is_loopback() };
    let max_message_bytes = message_store.settings().max_message_bytes;
    let session_setup = SessionSetup {
        session: setup.settings.session(
            &setup.hostname,
            role,
            setup.tls.is_some(),
            max_message_bytes,
            setup.budget.clone(),
        ),
        settings: &setup.settings,
        tls: setup.tls.as_ref(),
        buffer: message_store.buffer(),
        grace: setup.limits.grace,
    };
    let mut host = SubmissionHost::new(message_store.clone(), &setup, peer.ip());
    if let Err(error) = converse(arrival, session_setup, &mut host).await {
        tracing::debug!(%peer, %error, "a submission connection broke");
    }
}
