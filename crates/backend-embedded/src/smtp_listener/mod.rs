//! Inbound mail (port 25, here 2525): for local mailboxes only, without authentication and relaying.

mod host;

use std::sync::Arc;

use mailapi_backend::{InboundLog, JudgeInbound};
use mailapi_model::ClientNetwork;
use mailapi_smtp::server::Role;

use crate::MessageStore;
use crate::net::{Arrival, Listener, Shutdown};
use crate::smtp_session::{CLOSING_WORDS, SmtpSetup, converse};
use host::InboundHost;

/// Configuration of the inbound listener.
#[derive(Clone)]
pub(crate) struct InboundSetup {
    pub(crate) smtp: SmtpSetup,
    pub(crate) judge: Arc<dyn JudgeInbound>,
    pub(crate) log: Arc<dyn InboundLog>,
}

/// Serves clients until the shutdown signal and the end of the last session.
pub(crate) async fn serve(listener: Listener, message_store: MessageStore, setup: InboundSetup, shutdown: Shutdown) {
    let (tls, limits, setup) = (setup.smtp.tls.clone(), setup.smtp.limits.clone(), Arc::new(setup));
    let session = move |arrival: Arrival| session(arrival, message_store.clone(), setup.clone());
    listener.serve(limits, tls, shutdown, CLOSING_WORDS, session).await;
}

async fn session(arrival: Arrival, message_store: MessageStore, setup: Arc<InboundSetup>) {
    let peer = arrival.peer;
    let max_message_bytes = message_store.settings().max_message_bytes;
    let session_setup = setup.smtp.session(Role::Inbound, max_message_bytes, ClientNetwork::of(peer.ip()));
    let mut host = InboundHost::new(message_store.clone(), &setup, peer.ip());
    if let Err(error) = converse(arrival, session_setup, &mut host).await {
        tracing::debug!(%peer, %error, "SMTP connection failed");
    }
}
