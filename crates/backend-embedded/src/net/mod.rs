//! What all listeners share: accepting connections within limits, TLS, and coming to an end in good order.
//!
//! Nothing here knows a mail protocol. A listener hands each accepted connection to its protocol, together with the
//! [`Shutdown`] signal; the protocol decides what it still finishes.

mod client_tls;
mod connection_slots;
mod limits;
mod listener;
mod server_tls;
mod shutdown;
mod stream;

pub use client_tls::ClientTls;
pub use limits::ConnectionLimits;
pub use listener::{Arrival, Listener};
pub use server_tls::ServerTls;
pub use shutdown::Shutdown;
pub use stream::Stream;
