//! The port to a mail server: everything that mailapi needs from one, kept small.
//!
//! A backend submits mail ([`Submission`]), reads mailboxes ([`Mailboxes`]), reports deliveries
//! ([`DeliveryFeed`]), manages mailboxes ([`Provisioning`]) and shows its queue to the operator ([`Queue`]). It
//! does no authorization: callers have done that.
//!
//! In the other direction, a backend with its own listeners uses [`Login`] to authenticate users,
//! [`SignOutgoing`] to sign mail and [`JudgeInbound`] to check mail from outside. DNS look-ups go through
//! [`Dns`].

mod buffer;
#[cfg(feature = "contract-suite")]
pub mod contract;
mod delivery_feed;
mod dns;
mod fair_permits;
mod inbound_log;
mod judge_inbound;
mod log_in;
mod mailboxes;
pub mod mime;
mod provisioning;
mod queue;
mod record;
mod return_address;
mod rounds;
mod sender_rewriting;
mod sign_outgoing;
mod submission;
mod validator;
mod zone_dns;

use std::sync::Arc;

pub use buffer::{Buffer, BufferError, BufferSettings, BufferWriter, read_bytes};
pub use delivery_feed::{Awaited, DeliveryFeed, Discarded, FeedBatch, FeedError, LostPart, QueueSize, ReturnedNotice};
pub use dns::{Dns, DnsError, MailExchange, Proven, ServiceLocation, TlsaRecords, reverse_name, reversed};
pub use fair_permits::{FairPermit, FairPermits, Shared};
pub use inbound_log::InboundLog;
pub use judge_inbound::{InboundAction, InboundMail, JudgeInbound, Judgement};
pub use log_in::{LoggedIn, Login, LoginError, SendAsError, SendLimitReached};
pub use mailboxes::{
    AttachmentInfo, Backlog, ByteStream, Correspondent, FolderInfo, FolderScope, FullMessage, ImportProgress,
    MailboxError, Mailboxes, MessageSummary, NewDraft, OpenedAttachment, OpenedMessage, PageView, Purged, SavedDraft,
    SearchHit, SearchQuery, SearchText, SearchTextError,
};
pub use provisioning::{KnownMailbox, Provisioning, ProvisioningError, Quarantined};
pub use queue::{Queue, QueueChange, QueueEntry, QueueError, QueueFilter, QueuedFor};
pub use record::{Record, RecordError, Recorded};
pub use return_address::{BounceKey, ReturnAddress, ReturnAddressError};
pub use rounds::Rounds;
pub use sender_rewriting::{RewrittenSenderError, SenderRewriting};
pub use sign_outgoing::{SignError, SignOutgoing};
pub use submission::{Accepted, Attempt, Refusal, Submission, SubmitError};
pub use validator::Validator;
pub use zone_dns::{DnsZone, FoundRecords, UpdateError, ZoneDns};

/// One mail server, as its ports.
#[derive(Clone)]
pub struct Backend {
    /// Submits mail.
    pub submission: Arc<dyn Submission>,
    /// Reads mailboxes.
    pub mailboxes: Arc<dyn Mailboxes>,
    /// Reports deliveries.
    pub delivery_feed: Arc<dyn DeliveryFeed>,
    /// Reports bounces that arrive as mail, if the delivery feed does not include them. Its events may lack
    /// the queue id (empty), the reverse-path (null) and the delay (zero), because the reader has the
    /// message's record.
    pub bounce_feed: Option<Arc<dyn DeliveryFeed>>,
    /// Manages mailboxes.
    pub provisioning: Arc<dyn Provisioning>,
    /// Shows the queue, and changes it for the operator.
    pub queue: Arc<dyn Queue>,
}
