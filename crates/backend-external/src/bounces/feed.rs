//! The mailbox as a feed of deliveries.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::mime::ReturnedReport;
use mailapi_backend::{DeliveryFeed, FeedBatch, FeedError, MailboxError};
use mailapi_model::{DeliveryEvent, EnhancedCode, Evidence, FeedCursor, MessageId, Outcome, QueueId, Timestamp};

use super::new_mail::{NewMail, ReadMessage, ReadNewMail};
use super::notice::Notice;
use super::place::Place;
use super::{BounceSettings, ReturnAddress, ReturnAddressError};
use crate::imap_pool::ImapPool;

/// Reads the mailbox that bounces go to.
///
/// A notification names neither the queue id nor the reverse-path under which the message left, nor when it did. Its
/// events leave these empty (an empty queue id, the null reverse-path, no delay): the reader of the feed knows the
/// message, and completes them.
pub struct BounceFeed {
    pool: ImapPool,
    settings: BounceSettings,
    addresses: ReturnAddress,
    name: String,
    /// Why the mailbox could not be read when that was last tried.
    error: Mutex<Option<String>>,
}

/// Mails that told of no failure of ours.
#[derive(Default)]
struct Ignored {
    harmless: u64,
    forged: u64,
    other: u64,
}

impl BounceFeed {
    /// Reads over the pool's connections.
    ///
    /// # Errors
    /// When the mailbox cannot have return addresses.
    pub fn new(pool: ImapPool, settings: BounceSettings) -> Result<Self, ReturnAddressError> {
        let addresses = settings.return_addresses()?;
        let name = format!("bounces:{}/{}", settings.mailbox.as_str(), settings.folder);
        Ok(Self { pool, settings, addresses, name, error: Mutex::default() })
    }

    /// The addresses that bounces go to.
    #[must_use]
    pub const fn return_addresses(&self) -> &ReturnAddress {
        &self.addresses
    }

    async fn read(&self, place: Option<Place>) -> Result<NewMail, MailboxError> {
        let BounceSettings { mailbox, folder, limits, .. } = &self.settings;
        let job = ReadNewMail { folder, place, addresses: &self.addresses, limits };
        self.pool.run(mailbox, Some(folder), &job).await
    }

    /// At most `max` events of what was read, and where to go on.
    fn batch(&self, mail: NewMail, max: usize) -> FeedBatch {
        let NewMail { from, messages, to, more } = mail;
        let (mut batch, mut ignored) =
            (FeedBatch { cursor: to.encode(), more, ..FeedBatch::default() }, Ignored::default());
        for ReadMessage { uid, arrived, notice } in messages {
            batch.lines_read += 1;
            let told = if uid == from.next_uid { from.told } else { 0 };
            let Notice::Failure { message_id, reports } = ignored.count(notice) else { continue };
            let (room, left) = (max.max(1) - batch.events.len(), reports.len().saturating_sub(told));
            let new = reports.into_iter().skip(told).take(room);
            batch.events.extend(new.map(|report| self.event(message_id, report, arrived)));
            if left > room {
                let place = Place { uid_validity: from.uid_validity, next_uid: uid, told: told + room };
                (batch.cursor, batch.more) = (place.encode(), true);
                break;
            }
        }
        ignored.log();
        batch
    }

    fn event(&self, message_id: MessageId, report: ReturnedReport, at: Timestamp) -> DeliveryEvent {
        let said: String = report.diagnostic.chars().take(self.settings.limits.response_characters).collect();
        DeliveryEvent {
            at,
            message_id: Some(message_id),
            queue_id: QueueId(String::new()),
            sender: None,
            recipient: report.recipient,
            final_recipient: report.final_recipient,
            outcome: Outcome::Bounced,
            evidence: Evidence::ReturnedMail,
            dsn: Some(report.status.unwrap_or(EnhancedCode::new(5, 0, 0))),
            response: if said.is_empty() { "returned by another server".to_owned() } else { said },
            relay: None,
            delay: Duration::ZERO,
        }
    }
}

impl Ignored {
    /// Counts what is no failure; gives back what is one.
    fn count(&mut self, notice: Notice) -> Notice {
        match notice {
            Notice::Failure { .. } => {}
            Notice::Harmless => self.harmless += 1,
            Notice::Forged => self.forged += 1,
            Notice::Other => self.other += 1,
        }
        notice
    }

    fn log(&self) {
        let Self { harmless, forged, other } = *self;
        if forged > 0 {
            tracing::warn!(forged, "notifications to addresses that were never given out were ignored");
        }
        if harmless + other > 0 {
            tracing::debug!(harmless, other, "mail that tells of no failure came to the bounces' mailbox");
        }
    }
}

#[async_trait]
impl DeliveryFeed for BounceFeed {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let place = match cursor.0.as_str() {
            "" => None,
            _ => Some(Place::decode(cursor).ok_or_else(|| FeedError("the cursor is of another feed".to_owned()))?),
        };
        let read = self.read(place).await;
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = read.as_ref().err().map(ToString::to_string);
        let mail = read.map_err(|error| FeedError(format!("the bounces' mailbox: {error}")))?;
        if place.is_some_and(|place| place.uid_validity != mail.from.uid_validity) {
            // Whoever keeps the events knows those that were told before.
            tracing::warn!("the bounces' mailbox was made anew (another UIDVALIDITY): all of it is read again");
        }
        Ok(self.batch(mail, max))
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {
        tokio::time::sleep(self.settings.limits.poll_interval).await;
    }

    async fn check(&self) -> Option<Result<(), String>> {
        Some(self.error.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err))
    }
}
