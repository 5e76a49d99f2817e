//! Authentication.

mod app_password;
mod authenticate;
mod change_password;
mod confirm;
mod failures;
mod hash_fault;
mod hashing;
mod imported_hash;
mod lockouts;
mod log_in;
mod login;
mod logout;
mod me;
mod password;
mod refresh;
mod signup;

pub use authenticate::AuthenticateError;
pub(crate) use authenticate::{CallerCache, LastUsed};
pub use change_password::ChangePasswordError;
pub(crate) use failures::FailedLogins;
pub(crate) use hash_fault::hash_fault;
pub(crate) use hashing::{HashingThreads, Share};
pub use imported_hash::{ImportedHash, NewCredential};
pub use lockouts::{Lockout, Unlock};
pub use log_in::CredentialsError;
pub use login::Session;
pub use logout::NotASession;
pub use me::Me;
pub use password::PASSWORD_ROUNDS;
pub(crate) use signup::SignUpWindows;
pub use signup::{SignUp, SignUpError, SignedUp};
