//! Functions shared by all listeners: connection limits, proxies, TLS and graceful shutdown.
//!
//! This module contains no mail protocol. A listener passes each accepted connection to its protocol with the
//! [`Shutdown`] signal; the protocol decides which work it still finishes.

mod first_bytes;
mod knock;
mod limits;
mod listener;
mod server_tls;
mod shutdown;
mod stream;

pub(crate) use first_bytes::FirstBytes;
pub use knock::ClosingWords;
pub use limits::ConnectionLimits;
pub use listener::{Arrival, Listener, Socket};
pub use server_tls::ServerTls;
pub(crate) use server_tls::encrypt;
pub use shutdown::Shutdown;
pub use stream::Stream;
