//! Accepting mail: the only entry of messages into the message store and the queue.
//!
//! [`MessageStore::accept`] parses outside of the database and then writes everything in one transaction:
//! * the bytes, once;
//! * an entry in INBOX, or in the folder for junk, and a delivery event for each local recipient, or for each member
//!   of an alias;
//! * a queue row for each remote recipient, and each address at another server to which an alias or rules forward;
//! * an automatic answer for the delivery agent, if rules say so;
//! * a record of the message, if the API submitted it.
//!
//! An accepted message is therefore never lost and never delivered twice: either all of it is stored, or
//! nothing.

mod answering;
mod bounds;
mod contents;
mod expansion;
mod identity;
mod loops;
mod notified;
mod returned;
mod routing;
mod rules;
mod sent_copy;
mod submission;
mod transaction;
mod unusable;
mod wide;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use mailapi_backend::Refusal;
use mailapi_backend::mime::{MessageStructure, ReturnedMail, beginning};
use mailapi_model::{
    Authentication, Blob, ClientNetwork, DomainName, EmailAddress, Entropy, MessageId, QueueId, Reply, ReversePath,
    SecurityMark, Timestamp,
};
use mailapi_smtp::{Notify, Ret};
use mailapi_store::StoreError;

use crate::MessageStore;
use crate::message_store::content::delivered_to as delivered_to_line;
use crate::message_store::{NewContent, unreadable};

use contents::ForeignField;
pub use expansion::Expanded;
use loops::EarlierHops;
pub(crate) use loops::fields as delivered_to;
pub(crate) use notified::{PreparedNotice, may_notify};
pub(crate) use returned::{LeftFor, give_up, sender_of};
pub use routing::RecipientCheck;
use routing::Route;
pub(crate) use routing::{no_postmaster, to_client};
pub(crate) use transaction::accept as accept_in_transaction;
pub(crate) use wide::{MessageBreadth, TurnClaim};

pub use crate::submitter::Submitter;

/// Bytes of the fields that this server may put in front of a message: Received, the results of checks, and a signature.
const ADDED_BYTES: usize = 16 * 1024;

/// A message to accept, from any source.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The reverse-path.
    pub sender: ReversePath,
    /// A reverse-path from outside that is not a valid address here, such as `u@[192.0.2.1]`; `sender` is
    /// then `None`. It is written to Return-Path, and receives no notices.
    pub unanswerable: Option<String>,
    /// The recipients. A recipient listed twice gets the message once.
    pub recipients: Vec<Recipient>,
    /// The message with CRLF line ends and the trace fields of the accepting listener.
    pub message: Blob,
    /// Our identifier of a message from the API. A message with a known identifier is not accepted again; the
    /// first result is returned.
    pub message_id: Option<MessageId>,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// Whether mail for other servers is accepted.
    pub relaying: Relaying,
    /// How much of the message a failure notice returns (RFC 3461 section 4.3).
    pub ret: Option<Ret>,
    /// The sender's envelope identifier (RFC 3461 section 4.4).
    pub envid: Option<String>,
    /// Our queue id, if the trace fields already contain one (`MessageStore::new_queue_id`).
    pub queue_id: Option<QueueId>,
    /// Whether local recipients get it in their folder for junk instead of INBOX.
    pub is_junk: bool,
    /// Results of the checks of a message from outside.
    pub authentication: Option<Authentication>,
    /// What the security analysis found in a message from outside.
    pub security: Option<SecurityMark>,
    /// The mailbox that submitted it with a login. Its events belong to that mailbox.
    pub submitter: Option<Submitter>,
    /// The client that sent it without a login.
    pub client: Option<ClientNetwork>,
}

impl Incoming {
    /// Returns a message without notification parameters.
    #[must_use]
    pub fn new(
        sender: ReversePath,
        recipients: impl IntoIterator<Item = EmailAddress>,
        message: impl Into<Blob>,
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
            is_junk: false,
            authentication: None,
            security: None,
            submitter: None,
            client: None,
        }
    }
}

/// A recipient of a message to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The address.
    pub address: EmailAddress,
    /// Notices requested by the sender; `None` means the default.
    pub notify: Option<Notify>,
    /// The ORCPT parameter as received.
    pub orcpt: Option<String>,
    /// The message whose return address led to this mailbox; bounces of that message are accepted.
    pub returned: Option<MessageId>,
    /// Whether a return address of forwarded mail led to this sender, who may be at another server.
    pub comes_back: bool,
}

impl From<EmailAddress> for Recipient {
    fn from(address: EmailAddress) -> Self {
        Self { address, notify: None, orcpt: None, returned: None, comes_back: false }
    }
}

/// Whether mail for other servers is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relaying {
    /// For mail from the API, from authenticated users and from this server.
    Allowed,
    /// For all other mail: this server is not an open relay.
    Denied,
}

/// An accepted message, stored durably.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Our queue id.
    pub queue_id: QueueId,
    /// Recipients to whose mailboxes it was delivered: users, and aliases with such a member.
    pub delivered: Vec<EmailAddress>,
    /// Recipients at other servers, and aliases with members there.
    pub queued: Vec<EmailAddress>,
    /// Refused recipients.
    pub refused: Vec<Refusal>,
    /// Aliases with a member that could not receive the message, with the member's reply. Other members have it.
    pub partly_failed: Vec<Refusal>,
}

impl Taken {
    /// Returns the failures that a notice to the sender lists: none of junk, because its sender is often forged, and no
    /// loops, of which each copy would cause a notice.
    fn failures(&self, is_junk: bool) -> Vec<Refusal> {
        if is_junk {
            return Vec::new();
        }
        let refused = self.refused.iter().filter(|refusal| !loops::ends_loop(&refusal.reply));
        refused.chain(&self.partly_failed).cloned().collect()
    }
}

/// Nothing of the message was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// The whole message is refused.
    #[error("the message was refused: {0}")]
    Refused(Reply),
    /// Every recipient is refused.
    #[error("all recipients were refused")]
    NoRecipients(Vec<Refusal>),
    /// The message needs a turn, which [`MessageStore::accept`] takes.
    #[error("the message has too many recipients for a transaction without a turn")]
    TooWide,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Neither the message nor the notice was stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTogether {
    /// The set of failures changed since the notice was prepared.
    #[error("the set of failed recipients changed")]
    Failed(Vec<Refusal>),
    /// See [`AcceptError`].
    #[error(transparent)]
    Accept(#[from] AcceptError),
}

impl From<StoreError> for NotTogether {
    fn from(error: StoreError) -> Self {
        Self::Accept(error.into())
    }
}

/// A parsed message that is ready for its transaction.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(crate) incoming: Incoming,
    pub(crate) content: NewContent,
    pub(crate) queue_id: QueueId,
    pub(crate) expires_at: Timestamp,
    /// What it says as a notice about our messages, if it may be one.
    pub(crate) returned: Option<ReturnedMail>,
    /// Its way so far.
    pub(crate) earlier: Arc<EarlierHops>,
    /// The message as mailboxes get it, if a sender wrote to which address here it was delivered.
    pub(crate) for_mailboxes: Option<NewContent>,
    /// The beginning of its text, for the event of each mailbox that receives it. `None` if the log of events is in
    /// another database.
    pub(crate) snippet: Option<String>,
}

impl Prepared {
    /// Returns the message as mailboxes get it.
    pub(crate) fn kept(&self) -> &NewContent {
        self.for_mailboxes.as_ref().unwrap_or(&self.content)
    }

    /// Returns the size of the message in the mailbox of a recipient.
    pub(crate) fn size_for(&self, recipient: &EmailAddress) -> u64 {
        self.kept().size() + delivered_to_line(&recipient.wire()).len() as u64
    }

    /// Returns whether the log of events is in the same file.
    pub(crate) const fn has_log(&self) -> bool {
        self.snippet.is_some()
    }
}

impl MessageStore {
    /// Accepts a message. On `Ok` the message survives any crash.
    ///
    /// # Errors
    /// [`AcceptError`]; nothing was stored.
    pub async fn accept(&self, incoming: Incoming) -> Result<Taken, AcceptError> {
        let prepared = self.prepare(incoming).await?;
        let (settings, now, claim) = (self.settings().clone(), self.clock().now(), TurnClaim::of(&prepared.incoming));
        self.write_message(claim, move |connection, touched, breadth| {
            transaction::accept(connection, &prepared, &settings, breadth, now, touched)
        })
        .await
    }

    /// Accepts a message and the notice about its failures ([`Taken::failures`]) in one transaction. Fails if they
    /// differ from `known`, which the notice lists.
    ///
    /// # Errors
    /// [`NotTogether`]; nothing was stored.
    pub(crate) async fn accept_with_notice(
        &self,
        message: Arc<Prepared>,
        known: Vec<Refusal>,
        notice: Option<PreparedNotice>,
    ) -> Result<Taken, NotTogether> {
        let (settings, now, claim) = (self.settings().clone(), self.clock().now(), TurnClaim::of(&message.incoming));
        self.write_message(claim, move |connection, touched, breadth| {
            let taken = transaction::accept(connection, &message, &settings, breadth, now, touched)?;
            // The error rolls the transaction back; the caller then prepares another notice.
            let failures = taken.failures(message.incoming.is_junk);
            if failures != known {
                return Err(NotTogether::Failed(failures));
            }
            // The sender has no notice yet, so the other server must still answer for the message.
            if let Some(notice) = &notice
                && !notice.may_leave(connection, &message, now)?
            {
                return Err(AcceptError::Refused(notified::too_many()).into());
            }
            let notice = notice.as_ref();
            match notice.map(|notice| transaction::accept(connection, &notice.mail, &settings, breadth, now, touched)) {
                Some(Err(error @ (AcceptError::Store(_) | AcceptError::TooWide))) => Err(error.into()),
                // The message must not be lost because its notice cannot be delivered.
                Some(Err(refused)) => {
                    tracing::info!(queue_id = %taken.queue_id, %refused, "delivery notice refused and discarded");
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
    /// [`AcceptError::Refused`] if the message is too long.
    pub async fn prepare(&self, incoming: Incoming) -> Result<Prepared, AcceptError> {
        let settings = self.settings();
        // A message of the announced size fits (RFC 1870).
        if incoming.message.len() > settings.max_message_bytes.saturating_add(ADDED_BYTES) {
            return Err(AcceptError::Refused(routing::too_long()));
        }
        let message = incoming.message.clone();
        let unanswerable = || incoming.unanswerable.as_deref().map(Cow::Borrowed);
        let sender = incoming.sender.as_ref().map(EmailAddress::wire).or_else(unanswerable).unwrap_or_default();
        let content = NewContent::delivered(&sender, message, incoming.received_at, settings).await?;
        let expires_at = incoming.received_at.plus(settings.queue_lifetime);
        let queue_id = incoming.queue_id.clone().unwrap_or_else(|| self.new_queue_id());
        let returned = read_returned(&incoming, &content, settings.inline_bytes).await?;
        let snippet = match self.follows_accounts() {
            true => Some(snippet(&incoming.message, &content, settings.inline_bytes).await?),
            false => None,
        };
        let (earlier, written) = earlier(&incoming, &content, settings.inline_bytes).await?;
        let for_mailboxes = match self.without_forged(&incoming.message, &written).await? {
            Some(message) => Some(NewContent::delivered(&sender, message, incoming.received_at, settings).await?),
            None => None,
        };
        let earlier = Arc::new(earlier);
        Ok(Prepared { content, queue_id, expires_at, returned, earlier, for_mailboxes, snippet, incoming })
    }

    /// Returns a message without the fields that name an address here as the one that it was delivered to; `None` if it has
    /// none of them.
    async fn without_forged(&self, message: &Blob, written: &[ForeignField]) -> Result<Option<Blob>, StoreError> {
        // Almost no message has such a field.
        if written.is_empty() {
            return Ok(None);
        }
        let mut own = HashSet::new();
        for domain in contents::domains(written, loops::MOST) {
            if self.is_local_domain(&domain).await? {
                own.insert(domain);
            }
        }
        Ok(contents::without(message, written, &own, loops::MOST))
    }

    /// Returns a new queue id.
    #[must_use]
    pub(crate) fn new_queue_id(&self) -> QueueId {
        new_queue_id(self.clock().now(), self.entropy())
    }

    /// Checks a recipient of a message of `size` bytes (0 if unknown) at RCPT, after others that have `expanded`.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn check_recipient(
        &self,
        address: &EmailAddress,
        size: u64,
        relaying: Relaying,
        expanded: &mut Expanded,
    ) -> Result<RecipientCheck, StoreError> {
        let (mut with_few, settings, now) = (expanded.clone(), self.settings(), self.clock().now());
        let quick = self.read(|connection| {
            let few = expansion::FEW;
            let route = routing::route(connection, address, size, relaying, settings, few, &mut with_few)?;
            bounds::checked(connection, route, now)
        });
        let route = match quick.await? {
            Route::Refused(reply) if reply == expansion::not_expanded() => {
                self.route_of_many(address.clone(), size, relaying, expanded).await?
            }
            route => {
                *expanded = with_few;
                route
            }
        };
        Ok(RecipientCheck::of(route, relaying))
    }

    /// Returns the route of an alias that may have many members. The look-ups would block other tasks.
    async fn route_of_many(
        &self,
        address: EmailAddress,
        size: u64,
        relaying: Relaying,
        expanded: &mut Expanded,
    ) -> Result<Route, StoreError> {
        let (settings, mut counted, now) = (self.settings().clone(), expanded.clone(), self.clock().now());
        let scan = self.scan(move |connection| {
            let most = expansion::MOST;
            let route = routing::route(connection, &address, size, relaying, &settings, most, &mut counted)?;
            Ok::<_, StoreError>((bounds::checked(connection, route, now)?, counted))
        });
        let (route, counted) = scan.await?;
        *expanded = counted;
        Ok(route)
    }

    /// Returns the recipient of mail for the postmaster of this server.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(crate) async fn postmaster(&self, candidates: &[EmailAddress]) -> Result<Option<EmailAddress>, StoreError> {
        self.read(|connection| routing::postmaster(connection, candidates)).await
    }

    /// Returns whether mail for the domain is delivered here.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(crate) async fn is_local_domain(&self, domain: &DomainName) -> Result<bool, StoreError> {
        self.read(|connection| routing::is_local_domain(connection, domain)).await
    }
}

/// Reads what may be a bounce. Only inbound messages with a null reverse-path are read: our
/// own notices report what is already recorded.
async fn read_returned(
    incoming: &Incoming,
    content: &NewContent,
    inline_bytes: usize,
) -> Result<Option<ReturnedMail>, StoreError> {
    let has_sender = incoming.sender.is_some() || incoming.unanswerable.is_some();
    if has_sender || incoming.relaying == Relaying::Allowed {
        return Ok(None);
    }
    let (message, structure) = (incoming.message.clone(), content.structure().clone());
    if message.in_memory().is_some_and(|bytes| bytes.len() <= inline_bytes) {
        return returned::read(&message, &structure).map(Some).map_err(unreadable);
    }
    // Parsing a long message would block other tasks.
    let reading = tokio::task::spawn_blocking(move || returned::read(&message, &structure));
    reading.await.map_err(|_| StoreError::Panicked)?.map(Some).map_err(unreadable)
}

/// Returns the way of a message so far, and its fields Delivered-To.
async fn earlier(
    incoming: &Incoming,
    content: &NewContent,
    inline_bytes: usize,
) -> Result<(EarlierHops, Vec<ForeignField>), StoreError> {
    let (message, relaying) = (incoming.message.clone(), incoming.relaying);
    if let Some(bytes) = message.in_memory().filter(|bytes| bytes.len() <= inline_bytes) {
        return Ok(EarlierHops::in_memory(bytes, content.structure(), relaying));
    }
    // Reading a long message would block other tasks.
    let structure = content.structure().clone();
    let reading = tokio::task::spawn_blocking(move || EarlierHops::read(&message, &structure, relaying));
    reading.await.map_err(|_| StoreError::Panicked)?.map_err(unreadable)
}

/// Returns the beginning of the text of a message.
async fn snippet(message: &Blob, content: &NewContent, inline_bytes: usize) -> Result<String, StoreError> {
    if message.in_memory().is_some_and(|bytes| bytes.len() <= inline_bytes) {
        return beginning_of_blob(message, content.structure()).map_err(unreadable);
    }
    // Reading a file would block other tasks.
    let (message, structure) = (message.clone(), content.structure().clone());
    let reading = tokio::task::spawn_blocking(move || beginning_of_blob(&message, &structure));
    reading.await.map_err(|_| StoreError::Panicked)?.map_err(unreadable)
}

/// May block.
fn beginning_of_blob(message: &Blob, structure: &MessageStructure) -> io::Result<String> {
    beginning(structure, |span| span.within(message).to_bytes())
}

/// Returns a queue id: the time in milliseconds and 35 random bits, in Crockford's base 32, which avoids letters that are
/// easily misread. Ids sort by time, so that indexes of them grow at their end.
fn new_queue_id(now: Timestamp, entropy: &dyn Entropy) -> QueueId {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    /// 45 bits last until the year 3084.
    const TIME: u32 = 9;
    const RANDOM: usize = 7;
    let letter = |five_bits: u8| char::from(LETTERS[usize::from(five_bits % 32)]);
    let millis = now.as_millis().cast_unsigned();
    let mut random = [0; RANDOM];
    entropy.fill(&mut random);
    let time = (0..TIME).rev().map(|place| letter((millis >> (5 * place)).to_le_bytes()[0]));
    QueueId(time.chain(random.iter().map(|byte| letter(*byte))).collect())
}

#[cfg(test)]
mod tests {
    use mailapi_testkit::SeededEntropy;

    use super::*;

    #[test]
    fn queue_ids_sort_by_time_and_differ() {
        let entropy = SeededEntropy::new(1);
        let moments = [0, 1, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001].map(Timestamp::from_millis);
        let ids = moments.map(|now| new_queue_id(now, &entropy).0);
        assert!(ids.iter().all(|id| id.len() == 16), "{ids:?}");
        assert!(ids.is_sorted_by_key(|id| id[..9].to_owned()), "{ids:?}");
        assert!(ids[1] != ids[2] && ids[1][..9] == ids[2][..9], "{ids:?}");
    }
}
