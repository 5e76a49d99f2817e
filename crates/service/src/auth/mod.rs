//! Who is asking.

mod authenticate;
mod log_in;
mod password;

pub use authenticate::AuthenticateError;
pub(crate) use authenticate::{CallerCache, LastUsed};
pub(crate) use log_in::FailedLogIns;
