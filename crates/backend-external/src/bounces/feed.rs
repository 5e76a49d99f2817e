//! The bounce mailbox as a delivery feed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::mime::{NoticeSummary, ReturnedReport};
use mailapi_backend::{DeliveryFeed, FeedBatch, FeedError, MailboxError, ReturnedNotice};
use mailapi_model::{DeliveryEvent, EnhancedCode, Evidence, FeedCursor, MessageId, Outcome, QueueId, Timestamp};

use super::doubt::{Doubt, SteppedOver};
use super::new_mail::{NewMail, ReadMessage, ReadNewMail, Stuck};
use super::notice::Notice;
use super::place::Place;
use super::{BounceSettings, ReturnAddress, ReturnAddressError};
use crate::imap_pool::ImapPool;

/// Reads the mailbox that receives bounces.
///
/// A notification contains neither the queue id nor the reverse-path nor the sending time. The events leave these
/// empty (an empty queue id, the null reverse-path, no delay). The reader of the feed has the message and fills them
/// in.
pub struct BounceFeed {
    pool: ImapPool,
    settings: BounceSettings,
    addresses: ReturnAddress,
    name: String,
    /// The error of the last attempt to read the mailbox.
    error: Mutex<Option<String>>,
    /// The message at which the last attempt ended.
    doubt: Mutex<Option<Doubt>>,
    stepped_over: Mutex<SteppedOver>,
}

/// Counts of mails that reported no valid failure.
#[derive(Default)]
struct Ignored {
    harmless: u64,
    forged: u64,
    other: u64,
}

impl BounceFeed {
    /// Creates a feed that reads over the pool's connections.
    ///
    /// # Errors
    /// If the mailbox cannot have return addresses.
    pub fn new(pool: ImapPool, settings: BounceSettings) -> Result<Self, ReturnAddressError> {
        let addresses = settings.return_addresses()?;
        let name = format!("bounces:{}/{}", settings.mailbox.as_str(), settings.folder);
        Ok(Self {
            pool,
            settings,
            addresses,
            name,
            error: Mutex::default(),
            doubt: Mutex::default(),
            stepped_over: Mutex::default(),
        })
    }

    /// Returns the addresses that receive bounces.
    #[must_use]
    pub const fn return_addresses(&self) -> &ReturnAddress {
        &self.addresses
    }

    async fn read(&self, place: Option<Place>) -> Result<NewMail, MailboxError> {
        let BounceSettings { mailbox, folder, limits, .. } = &self.settings;
        let doubt = *held(&self.doubt);
        let job = ReadNewMail { folder, place, doubt, addresses: &self.addresses, limits };
        let read = self.pool.run(mailbox, Some(folder), &job).await;
        if read.is_err()
            && let Some(doubt) = held(&self.doubt).as_mut()
        {
            // The other message may be damaged too. Counting the attempt selects a different one next time.
            doubt.tries += 1;
        }
        read
    }

    /// Decides whether to skip a message at which the connection ended. Returns the reason if it has to be retried.
    fn judge(&self, mail: &mut NewMail) -> Option<String> {
        let mut doubt = held(&self.doubt);
        let Some(Stuck { uid, reason, others_can_be_read }) = mail.stuck.take() else {
            *doubt = None;
            return None;
        };
        let validity = mail.from.uid_validity;
        let now = Doubt::after_failure(*doubt, validity, uid);
        if others_can_be_read && now.failures >= self.settings.limits.message_tries {
            tracing::warn!(uid, reason, "skipped a message in the bounce mailbox that ends every connection");
            mail.messages.push(ReadMessage::unreadable(uid));
            (mail.to, mail.more) = (Place::behind(validity, uid), true);
            *doubt = None;
            return None;
        }
        *doubt = Some(now);
        Some(format!("the connection ended at the message with UID {uid}: {reason}"))
    }

    /// Returns at most `max` events of what was read, and the next cursor.
    fn batch(&self, mail: NewMail, max: usize) -> FeedBatch {
        let NewMail { from, messages, to, more, .. } = mail;
        let (mut batch, mut ignored) =
            (FeedBatch { cursor: to.encode(), more, ..FeedBatch::default() }, Ignored::default());
        for ReadMessage { uid, arrived, notice } in messages {
            batch.lines_read += 1;
            // Only the first message can have been reported in part, by the previous batch.
            let reported = if uid == from.next_uid { from.reported } else { 0 };
            if notice == Notice::Unreadable {
                held(&self.stepped_over).note(from.uid_validity, uid);
            }
            let (message_id, reports) = match ignored.count(notice) {
                Notice::Failure { message_id, reports, summary } => {
                    if reported == 0 {
                        batch.notices.push(returned(message_id, &reports, summary, arrived));
                    }
                    (message_id, reports)
                }
                Notice::Said { message_id, summary } => {
                    batch.notices.push(returned(message_id, &[], summary, arrived));
                    continue;
                }
                _ => continue,
            };
            let (room, left) = (max.max(1) - batch.events.len(), reports.len().saturating_sub(reported));
            let new = reports.into_iter().skip(reported).take(room);
            batch.events.extend(new.map(|report| self.event(message_id, report, arrived)));
            // No room for the rest: the cursor remains at this message and counts the reported failures.
            if left > room {
                let place = Place { uid_validity: from.uid_validity, next_uid: uid, reported: reported + room };
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
            next_attempt_at: None,
        }
    }
}

impl Ignored {
    /// Counts and returns a message that does not report a failure.
    fn count(&mut self, notice: Notice) -> Notice {
        match notice {
            // An unreadable mail was already logged where it was skipped.
            Notice::Failure { .. } | Notice::Said { .. } | Notice::Unreadable => {}
            Notice::Harmless => self.harmless += 1,
            Notice::Forged => self.forged += 1,
            Notice::Other => self.other += 1,
        }
        notice
    }

    fn log(&self) {
        let Self { harmless, forged, other } = *self;
        if forged > 0 {
            tracing::warn!(forged, "ignored bounces to return addresses that were never issued");
        }
        if harmless + other > 0 {
            tracing::debug!(harmless, other, "ignored mail without a failure report in the bounce mailbox");
        }
    }
}

/// Returns what a mail says besides its failures.
fn returned(
    message_id: MessageId,
    reports: &[ReturnedReport],
    summary: NoticeSummary,
    at: Timestamp,
) -> ReturnedNotice {
    let NoticeSummary { kind, server, text } = summary;
    let failed = reports.iter().flat_map(|report| [Some(&report.recipient), report.final_recipient.as_ref()]);
    ReturnedNotice { at, message_id, kind, server, text, failed: failed.flatten().cloned().collect() }
}

fn held<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl DeliveryFeed for BounceFeed {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let place = match cursor.0.as_str() {
            "" => None,
            _ => Some(Place::decode(cursor).ok_or_else(|| FeedError("the cursor belongs to another feed".to_owned()))?),
        };
        let mut read = self.read(place).await.map_err(|error| error.to_string());
        let stuck = read.as_mut().ok().and_then(|mail| self.judge(mail));
        (*held(&self.error)).clone_from(&read.as_ref().err().cloned().or_else(|| stuck.clone()));
        let read = match stuck {
            Some(reason) if read.as_ref().is_ok_and(|mail| mail.messages.is_empty()) => Err(reason),
            _ => read,
        };
        let mail = read.map_err(|error| FeedError(format!("the bounce mailbox: {error}")))?;
        if place.is_some_and(|place| place.uid_validity != mail.from.uid_validity) {
            // Events of the first reading arrive twice; the reader of the feed discards duplicates.
            tracing::warn!("the UIDVALIDITY of the bounce mailbox changed; reading it again from the start");
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
        Some(held(&self.error).clone().map_or(Ok(()), Err))
    }

    async fn losses(&self) -> Option<String> {
        held(&self.stepped_over).describe(self.settings.limits.loss_memory)
    }
}
