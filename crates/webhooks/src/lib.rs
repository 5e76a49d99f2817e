//! Webhooks as [Standard Webhooks](https://www.standardwebhooks.com) specifies them: keys and signatures, the schedule
//! of retries, the check of receivers' addresses, and the HTTP exchange with a receiver.
//!
//! This crate stores nothing and decides nothing about endpoints; `service` does.

mod answer;
mod exchange;
mod guard;
mod key;
mod schedule;
mod url;

pub use answer::{Answer, Verdict};
pub use exchange::{Connection, Exchange, ExchangeError, Message, Receiver, TIME_LIMIT};
pub use guard::{AddressGuard, AddressRefused, Registrant};
pub use key::{KeyError, SigningKey, signatures};
pub use mailapi_tls::Trust;
pub use schedule::{ATTEMPTS, wait_after};
pub use url::{ReceiverUrl, UrlError};
