//! Sending, and the status of sent mail.

mod arrived_mail;
mod compose;
mod delivery_log;
mod discarded;
mod dkim;
mod inbound;
mod list_inbox;
mod list_sent;
mod new_record;
mod notice;
mod received_mail;
mod returned_mail;
mod send;
mod sent_today;
mod status;

pub use arrived_mail::ArrivedMail;
pub(crate) use compose::message_id;
pub use compose::{ComposeError, Form, compose, compose_large};
pub(crate) use delivery_log::LossesStored;
pub use delivery_log::{DeliveryLogError, Synced};
pub(crate) use dkim::generate_key;
pub use dkim::{DkimError, Signer};
pub use inbound::{DmarcAction, InboundSettings, MAX_DNSBL, RspamdAddress};
pub(crate) use inbound::{GreylistSize, Verifier};
pub use list_inbox::ListInboxError;
pub use list_sent::{ListSentError, SentQuery};
pub use mailapi_backend::SendLimitReached;
pub use mailapi_store::{DeliveryLogFilter, SentRecord};
pub(crate) use notice::{Notice, NoticeSent};
pub use send::{BodyHash, IdempotencyKey, IdempotencyKeyError, SendError, SendRequest, Submitted};
pub(crate) use send::{LONG_WORK_BYTES, NotComposed};
pub(crate) use sent_today::SentToday;
pub(crate) use status::AccountAges;
pub use status::StatusError;
