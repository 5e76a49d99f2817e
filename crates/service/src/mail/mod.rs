//! Sending, and what became of it.

mod compose;
mod delivery_log;
mod dkim;
mod list_inbox;
mod list_sent;
mod returned_mail;
mod send;
mod status;

pub use compose::{ComposeError, compose};
pub use delivery_log::{DeliveryLogError, Synced};
pub use dkim::{DkimError, Signer, generate_key};
pub use list_inbox::ListInboxError;
pub use list_sent::{ListSentError, SentQuery};
pub use mailapi_store::{DeliveryLogFilter, SentRecord};
pub use send::{IdempotencyKey, IdempotencyKeyError, SendError, SendRequest, Submitted};
pub(crate) use status::AccountAges;
pub use status::StatusError;
