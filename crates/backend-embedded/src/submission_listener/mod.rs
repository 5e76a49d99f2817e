//! Submission by our users (ports 587 and 465, here 2587; RFC 6409, RFC 8314). A user sends as itself, or as its grants allow,
//! to any recipient.

mod completion;
mod header;
mod host;
mod mailbox;
mod private;

use std::sync::Arc;

use mailapi_backend::{Login, SignOutgoing};
use mailapi_model::ClientNetwork;
use mailapi_smtp::server::Role;

use crate::MessageStore;
use crate::net::{Arrival, Listener, Shutdown};
use crate::smtp_session::{CLOSING_WORDS, SmtpSetup, converse};
use host::SubmissionHost;

/// Configuration of the submission listener.
#[derive(Clone)]
pub(crate) struct SubmissionSetup {
    pub(crate) smtp: SmtpSetup,
    pub(crate) login: Arc<dyn Login>,
    pub(crate) sign: Arc<dyn SignOutgoing>,
}

/// Serves clients until the shutdown signal and the end of the last session.
pub(crate) async fn serve(listener: Listener, message_store: MessageStore, setup: SubmissionSetup, shutdown: Shutdown) {
    let (tls, limits, setup) = (setup.smtp.tls.clone(), setup.smtp.limits.clone(), Arc::new(setup));
    let session = move |arrival: Arrival| session(arrival, message_store.clone(), setup.clone());
    listener.serve(limits, tls, shutdown, CLOSING_WORDS, session).await;
}

async fn session(arrival: Arrival, message_store: MessageStore, setup: Arc<SubmissionSetup>) {
    let peer = arrival.peer;
    // Without TLS a password is safe on loopback only.
    let role = Role::Submission { auth_without_tls: arrival.is_loopback() };
    let max_message_bytes = message_store.settings().max_message_bytes;
    let session_setup = setup.smtp.session(role, max_message_bytes, ClientNetwork::of(peer.ip()));
    let mut host = SubmissionHost::new(message_store.clone(), &setup, peer.ip());
    if let Err(error) = converse(arrival, session_setup, &mut host).await {
        tracing::debug!(%peer, %error, "submission connection failed");
    }
}
