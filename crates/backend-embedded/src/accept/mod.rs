//! Taking mail over: the one place where a message enters the maildrop and the queue.
//!
//! [`MessageStore::accept`] parses outside of the database and then writes everything in one transaction: the octets
//! once, an INBOX entry for each local recipient, a queue row for each remote one, a delivery event for each local
//! delivery, and the memory of what was taken over from the API. So a message is never lost after the answer, and
//! never delivered twice: either all of it is on disk, or nothing.

mod returned;
mod routing;
mod submission;
mod transaction;

use std::borrow::Cow;
use std::sync::Arc;

use mailapi_backend::Refusal;
use mailapi_backend::mime::ReturnedReport;
use mailapi_model::{DomainName, EmailAddress, Entropy, MessageId, Octets, QueueId, Reply, ReversePath, Timestamp};
use mailapi_smtp::{Notify, Ret};
use mailapi_store::StoreError;

use crate::MessageStore;
use crate::message_store::{NewContent, unreadable};

pub(crate) use returned::give_up;
pub(crate) use returned::sender_of;
pub use routing::RecipientCheck;
pub(crate) use routing::to_client;
pub(crate) use transaction::accept as accept_in_transaction;

/// A message that comes in, whichever door it comes through.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The reverse-path.
    pub sender: ReversePath,
    /// A reverse-path from outside that is not a valid address here, such as `u@[192.0.2.1]`; `sender` is then `None`.
    /// It is written to Return-Path, and receives no notices.
    pub unanswerable: Option<String>,
    /// For whom; one named twice gets the message once.
    pub recipients: Vec<Recipient>,
    /// The message with CRLF line ends and the trace fields of who took it.
    pub message: Octets,
    /// Our identifier, when it came through the API. A message whose identifier was taken over before is not taken
    /// again; the answer is then that of the first time.
    pub message_id: Option<MessageId>,
    /// When it came.
    pub received_at: Timestamp,
    /// Whether it may go on to other servers.
    pub relaying: Relaying,
    /// How much of the message a failure notice returns (RFC 3461 section 4.3).
    pub ret: Option<Ret>,
    /// The sender's name for the envelope (RFC 3461 section 4.4).
    pub envid: Option<String>,
    /// Our name for it, when its trace fields hold one already ([`MessageStore::new_queue_id`]).
    pub queue_id: Option<QueueId>,
}

impl Incoming {
    /// A message without wishes about notices.
    #[must_use]
    pub fn new(
        sender: ReversePath,
        recipients: impl IntoIterator<Item = EmailAddress>,
        message: impl Into<Octets>,
        received_at: Timestamp,
        relaying: Relaying,
    ) -> Self {
        let recipients = recipients.into_iter().map(Recipient::from).collect();
        Self {
            sender,
            unanswerable: None,
            recipients,
            message: message.into(),
            message_id: None,
            received_at,
            relaying,
            ret: None,
            envid: None,
            queue_id: None,
        }
    }
}

/// One recipient of a message that comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// Who.
    pub address: EmailAddress,
    /// Which notices the sender wants; none leaves it to us.
    pub notify: Option<Notify>,
    /// The ORCPT parameter as it was written.
    pub orcpt: Option<String>,
    /// The message whose return address was used to reach this mailbox; bounces of that message are accepted.
    pub returned: Option<MessageId>,
}

impl From<EmailAddress> for Recipient {
    fn from(address: EmailAddress) -> Self {
        Self { address, notify: None, orcpt: None, returned: None }
    }
}

/// Whether mail for other servers is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relaying {
    /// From the API, from who has logged in, and from ourselves.
    Allowed,
    /// From anyone else: no open relay.
    Denied,
}

/// The message is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Our name for it.
    pub queue_id: QueueId,
    /// Whose mailboxes it lies in.
    pub delivered: Vec<EmailAddress>,
    /// For whom it waits in the queue.
    pub queued: Vec<EmailAddress>,
    /// Who does not get it.
    pub refused: Vec<Refusal>,
}

/// Nothing of the message was kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// The message as a whole is refused.
    #[error("the message is refused: {0}")]
    Refused(Reply),
    /// Every recipient is refused.
    #[error("every recipient is refused")]
    NoRecipients(Vec<Refusal>),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Neither the message nor the notice was kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTogether {
    /// These recipients are refused, not those that were known.
    #[error("other recipients are refused than those that were known")]
    Refused(Vec<Refusal>),
    /// See [`AcceptError`].
    #[error(transparent)]
    Accept(#[from] AcceptError),
}

impl From<StoreError> for NotTogether {
    fn from(error: StoreError) -> Self {
        Self::Accept(error.into())
    }
}

/// A message that was parsed and waits for its transaction, such as a bounce for the one that it reports.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(crate) incoming: Incoming,
    pub(crate) content: NewContent,
    pub(crate) queue_id: QueueId,
    pub(crate) expires_at: Timestamp,
    /// What it says of messages of ours that came back, when it is a notification.
    pub(crate) failures: Vec<ReturnedReport>,
}

impl MessageStore {
    /// Takes a message over. `Ok` means that it survives a crash of anything from here on.
    ///
    /// # Errors
    /// [`AcceptError`]; then nothing was kept.
    pub async fn accept(&self, incoming: Incoming) -> Result<Taken, AcceptError> {
        let prepared = self.prepare(incoming).await?;
        let (settings, now) = (self.settings().clone(), self.clock().now());
        self.write(move |connection, touched| transaction::accept(connection, &prepared, &settings, now, touched)).await
    }

    /// Takes a message over together with the notice about those who do not get it, in one transaction; only when
    /// exactly the recipients of `known` are refused, since it is them whom the notice names.
    ///
    /// # Errors
    /// [`NotTogether`]; then nothing was kept.
    pub(crate) async fn accept_with_notice(
        &self,
        message: Arc<Prepared>,
        known: Vec<Refusal>,
        notice: Option<Prepared>,
    ) -> Result<Taken, NotTogether> {
        let (settings, now) = (self.settings().clone(), self.clock().now());
        self.write(move |connection, touched| {
            let taken = transaction::accept(connection, &message, &settings, now, touched)?;
            if taken.refused != known {
                return Err(NotTogether::Refused(taken.refused));
            }
            match notice.map(|notice| transaction::accept(connection, &notice, &settings, now, touched)) {
                Some(Err(AcceptError::Store(error))) => Err(error.into()),
                Some(Err(refused)) => {
                    tracing::info!(queue_id = %taken.queue_id, %refused, "a notice could not be delivered");
                    Ok(taken)
                }
                Some(Ok(_)) | None => Ok(taken),
            }
        })
        .await
    }

    /// The part of [`MessageStore::accept`] before the transaction.
    ///
    /// # Errors
    /// [`AcceptError::Refused`] when the message is too long.
    pub async fn prepare(&self, incoming: Incoming) -> Result<Prepared, AcceptError> {
        let settings = self.settings();
        if incoming.message.len() > settings.max_message_bytes {
            return Err(AcceptError::Refused(routing::too_long()));
        }
        let message = incoming.message.clone();
        let unanswerable = || incoming.unanswerable.as_deref().map(Cow::Borrowed);
        let sender = incoming.sender.as_ref().map(EmailAddress::wire).or_else(unanswerable).unwrap_or_default();
        let content = NewContent::delivered(&sender, message, incoming.received_at, settings).await?;
        let expires_at = incoming.received_at.plus(settings.queue_lifetime);
        let queue_id = incoming.queue_id.clone().unwrap_or_else(|| self.new_queue_id());
        let failures = failures(&incoming, &content, settings.inline_bytes).await?;
        Ok(Prepared { content, queue_id, expires_at, failures, incoming })
    }

    /// A name that no message in the queue has.
    #[must_use]
    pub fn new_queue_id(&self) -> QueueId {
        new_queue_id(self.entropy())
    }

    /// What would become of a recipient of a message of `size` octets (0 when it is not known); asked at RCPT.
    ///
    /// # Errors
    /// Only those of the database.
    pub async fn check_recipient(
        &self,
        address: &EmailAddress,
        size: u64,
        relaying: Relaying,
    ) -> Result<RecipientCheck, StoreError> {
        let delimiter = self.settings().recipient_delimiter;
        let route = self.read(|connection| routing::route(connection, address, size, relaying, delimiter)).await?;
        Ok(RecipientCheck::of(route, relaying))
    }

    /// The first of these that is a mailbox here.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(crate) async fn first_mailbox(&self, candidates: &[EmailAddress]) -> Result<Option<EmailAddress>, StoreError> {
        self.read(|connection| routing::first_mailbox(connection, candidates)).await
    }

    /// Whether mail for the domain is delivered here.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn is_local_domain(&self, domain: &DomainName) -> Result<bool, StoreError> {
        self.read(|connection| routing::is_local_domain(connection, domain)).await
    }
}

/// What a message says of others that came back. Only one from outside with the null reverse-path is looked at: our own
/// notices tell what is on record already.
async fn failures(
    incoming: &Incoming,
    content: &NewContent,
    inline_bytes: usize,
) -> Result<Vec<ReturnedReport>, StoreError> {
    let has_sender = incoming.sender.is_some() || incoming.unanswerable.is_some();
    if has_sender || incoming.relaying == Relaying::Allowed {
        return Ok(Vec::new());
    }
    let (message, structure) = (incoming.message.clone(), content.structure().clone());
    if message.in_memory().is_some_and(|octets| octets.len() <= inline_bytes) {
        return returned::failures(&message, &structure).map_err(unreadable);
    }
    let reading = tokio::task::spawn_blocking(move || returned::failures(&message, &structure));
    reading.await.map_err(|_| StoreError::Panicked)?.map_err(unreadable)
}

/// Sixty random bits in the letters of Crockford's base 32, which nobody misreads.
fn new_queue_id(entropy: &dyn Entropy) -> QueueId {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut bytes = [0; 12];
    entropy.fill(&mut bytes);
    QueueId(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}
