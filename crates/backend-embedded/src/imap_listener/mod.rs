//! IMAP for mail programs (port 143, here 2143; RFC 3501): log-in, folders and messages of one mailbox.
//!
//! The protocol is `mailapi_imap::server`; here it gets its octets and its time-outs ([`connection`]), and its effects
//! are carried out on the maildrop ([`user`]). A message is never held as a whole to be sent: only its header, or its
//! structure, is read; the octets go from the database to the connection piece by piece.

mod connection;
mod failure;
mod fetch;
mod folders;
mod messages;
mod search;
mod selected;
mod session_limits;
mod settings;
mod structure;
mod user;

use std::sync::Arc;

use mailapi_backend::Login;

use crate::MessageStore;
use crate::net::{Arrival, ConnectionLimits, Listener, ServerTls, Shutdown};
use connection::Connection;
use session_limits::SessionLimits;
pub use settings::ImapSettings;

/// What a client above the limits is told.
const BUSY: &[u8] = b"* BYE [UNAVAILABLE] Too many connections, try again later\r\n";

/// What the IMAP listener needs.
#[derive(Clone)]
pub(crate) struct ImapSetup {
    pub(crate) tls: Option<ServerTls>,
    pub(crate) settings: ImapSettings,
    pub(crate) limits: ConnectionLimits,
    pub(crate) login: Arc<dyn Login>,
}

/// Serves until the signal comes and the last session has ended.
pub(crate) async fn serve(listener: Listener, message_store: MessageStore, setup: ImapSetup, shutdown: Shutdown) {
    let (session_limits, limits) = (SessionLimits::new(setup.settings.max_connections_per_user), setup.limits.clone());
    let setup = Arc::new(setup);
    let session =
        move |arrival: Arrival| session(arrival, message_store.clone(), setup.clone(), session_limits.clone());
    listener.serve(limits, shutdown, BUSY, session).await;
}

async fn session(arrival: Arrival, message_store: MessageStore, setup: Arc<ImapSetup>, session_limits: SessionLimits) {
    let peer = arrival.peer;
    if let Err(error) = Connection::new(arrival, message_store, &setup, session_limits).run().await {
        tracing::debug!(%peer, %error, "an IMAP connection broke");
    }
}
