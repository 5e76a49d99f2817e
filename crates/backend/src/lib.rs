//! The port to a mail server: what mailapi asks of one, small enough to read at once.
//!
//! A backend hands mail over ([`Submission`]), reads mailboxes ([`Mailboxes`]), reports what became of messages
//! ([`DeliveryFeed`]) and knows who has a mailbox ([`Provisioning`]). It knows no caller and no rights: whoever calls
//! has already asked. In the other direction a backend with listeners of its own asks the product who may log in
//! ([`Login`]) and how a domain signs ([`SignOutgoing`]). Whoever needs the domain name system asks it
//! through [`Dns`].

mod buffer;
mod commit_gate;
#[cfg(feature = "contract-suite")]
pub mod contract;
mod delivery_feed;
mod dns;
mod inbound_log;
mod log_in;
mod mailboxes;
pub mod mime;
mod provisioning;
mod return_address;
mod rounds;
mod sign_outgoing;
mod submission;

use std::sync::Arc;

pub use buffer::{Buffer, BufferError, BufferSettings, BufferWriter, read_octets};
pub use commit_gate::{CommitGate, GateOpener};
pub use delivery_feed::{DeliveryFeed, Discarded, FeedBatch, FeedError};
pub use dns::{Dns, DnsError, MailExchange};
pub use inbound_log::InboundLog;
pub use log_in::{LoggedIn, Login, LoginError, LoginMark, SendAsError, SendLimitReached};
pub use mailboxes::{
    AttachmentInfo, ByteStream, Correspondent, FolderInfo, FolderScope, FullMessage, MailboxError, Mailboxes,
    MessageSummary, OpenedAttachment, OpenedMessage, PageView, Purged, SearchHit, SearchQuery, SearchText,
    SearchTextError, Validator,
};
pub use provisioning::{KnownMailbox, Provisioning, ProvisioningError, Quarantined};
pub use return_address::{BounceKey, ReturnAddress, ReturnAddressError};
pub use rounds::Rounds;
pub use sign_outgoing::{SignError, SignOutgoing};
pub use submission::{Accepted, Attempt, Refusal, Submission, SubmitError};

/// One mail server, behind its four faces.
#[derive(Clone)]
pub struct Backend {
    /// Takes mail over.
    pub submission: Arc<dyn Submission>,
    /// Reads mailboxes.
    pub mailboxes: Arc<dyn Mailboxes>,
    /// Reports deliveries.
    pub delivery_feed: Arc<dyn DeliveryFeed>,
    /// Reports what came back as mail, where that does not come with the other reports. An event of it may leave out
    /// the queue id (empty), the reverse-path (null) and the delay (zero): its reader knows the message.
    pub bounce_feed: Option<Arc<dyn DeliveryFeed>>,
    /// Knows who has a mailbox.
    pub provisioning: Arc<dyn Provisioning>,
}
