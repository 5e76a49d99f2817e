//! IMAP for mail clients (ports 143 and 993, here 2143; RFC 3501): login, folders and messages of one mailbox.
//!
//! `mailapi_imap::server` implements the protocol. [`connection`] supplies its bytes and time-outs, and
//! [`user`] executes its commands on the message store. No whole message is loaded for sending: only its
//! header or structure is read, and the bytes are streamed from the database to the connection.

mod compression;
mod connection;
mod failure;
mod fetch;
mod folders;
mod messages;
mod order_facts;
mod search;
mod selected;
mod session_limits;
mod settings;
mod structure;
mod user;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mailapi_backend::Login;

use crate::MessageStore;
use crate::net::{Arrival, ClosingWords, ConnectionLimits, Listener, ServerTls, Shutdown};
use connection::Connection;
use session_limits::SessionLimits;
pub use settings::ImapSettings;

/// Sent to clients without a session.
const CLOSING_WORDS: ClosingWords = ClosingWords {
    busy: b"* BYE [UNAVAILABLE] Too many connections, try again later\r\n",
    not_announced: b"* BYE [UNAVAILABLE] A PROXY header is required from this address\r\n",
};

/// Configuration of the IMAP listener.
#[derive(Clone)]
pub(crate) struct ImapSetup {
    pub(crate) tls: Option<ServerTls>,
    pub(crate) settings: ImapSettings,
    pub(crate) limits: ConnectionLimits,
    pub(crate) login: Arc<dyn Login>,
    /// Number of connections.
    pub(crate) sessions: Arc<AtomicUsize>,
}

/// Counts a connection until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(sessions: &Arc<AtomicUsize>) -> Self {
        sessions.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(sessions))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves clients until the shutdown signal and the end of the last session.
pub(crate) async fn serve(listener: Listener, message_store: MessageStore, setup: ImapSetup, shutdown: Shutdown) {
    let (session_limits, limits) = (SessionLimits::new(setup.settings.max_connections_per_user), setup.limits.clone());
    let (tls, setup) = (setup.tls.clone(), Arc::new(setup));
    let session =
        move |arrival: Arrival| session(arrival, message_store.clone(), setup.clone(), session_limits.clone());
    listener.serve(limits, tls, shutdown, CLOSING_WORDS, session).await;
}

async fn session(arrival: Arrival, message_store: MessageStore, setup: Arc<ImapSetup>, session_limits: SessionLimits) {
    let (peer, _counted) = (arrival.peer, Counted::new(&setup.sessions));
    if let Err(error) = Connection::new(arrival, message_store, &setup, session_limits).run().await {
        tracing::debug!(%peer, %error, "IMAP connection failed");
    }
}
