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
mod seats;
mod selected;
mod settings;
mod structure;
mod user;

use std::sync::Arc;

use mailapi_backend::LogIn;

use crate::Maildrop;
use crate::net::{Arrival, ConnectionLimits, Listener, ServerTls, Shutdown};
use connection::Connection;
use seats::Seats;
pub use settings::ImapSettings;

/// What a client above the limits is told.
const BUSY: &[u8] = b"* BYE [UNAVAILABLE] Too many connections, try again later\r\n";

/// What the IMAP listener needs.
#[derive(Clone)]
pub(crate) struct ImapSetup {
    pub(crate) tls: Option<ServerTls>,
    pub(crate) settings: ImapSettings,
    pub(crate) limits: ConnectionLimits,
    pub(crate) log_in: Arc<dyn LogIn>,
}

/// Serves until the signal comes and the last session has ended.
pub(crate) async fn serve(listener: Listener, maildrop: Maildrop, setup: ImapSetup, shutdown: Shutdown) {
    let (seats, limits) = (Seats::new(setup.settings.max_connections_per_user), setup.limits.clone());
    let setup = Arc::new(setup);
    let session = move |arrival: Arrival| session(arrival, maildrop.clone(), setup.clone(), seats.clone());
    listener.serve(limits, shutdown, BUSY, session).await;
}

async fn session(arrival: Arrival, maildrop: Maildrop, setup: Arc<ImapSetup>, seats: Seats) {
    let peer = arrival.peer;
    if let Err(error) = Connection::new(arrival, maildrop, &setup, seats).run().await {
        tracing::debug!(%peer, %error, "an IMAP connection broke");
    }
}
