//! Completes the events of mail that mailboxes received.
//!
//! The mail server's log names a delivery, but not the message. So the event waits in the store until the mailbox was
//! read, for at most five seconds. Statuses do not wait for it.

use std::time::Duration;

use futures_util::StreamExt;
use mailapi_backend::mime::beginning_of;
use mailapi_backend::{FullMessage, MailboxError};
use mailapi_events::{NewEvent, Received, ReceivedMessage, received};
use mailapi_model::{EmailAddress, FolderName, Page, QueueId, ReceivedMail, SecurityMark};
use mailapi_store::WaitingMail;
use tokio::time::{Instant, timeout_at};

use crate::{Service, Unavailable};

/// Number of messages per step.
const AT_ONCE: usize = 100;
/// Number of mailboxes that are read at the same time.
const PARALLEL: usize = 4;
/// Maximum time of a step for reading mailboxes. Then events are stored without the members that need the message.
const READ_TIME: Duration = Duration::from_secs(5);
/// Maximum age of a delivery whose message is searched. The first start reads the whole log.
const MOST_AGE: Duration = Duration::from_hours(24);
/// Number of the newest messages of a folder among which a received one is searched.
const NEWEST: u32 = 50;
/// Maximum number of messages with the same Message-ID that are compared.
const CANDIDATES: usize = 3;

impl Service {
    /// Stores the events of some received messages; returns whether more may wait.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is; the messages wait for the next step.
    pub async fn complete_received_once(&self) -> Result<bool, Unavailable> {
        let mails = self.0.store.waiting_mails();
        let waiting = mails.oldest(AT_ONCE).await?;
        let (more, end) = (waiting.len() == AT_ONCE, Instant::now() + READ_TIME);
        let events = waiting.into_iter().map(|waiting| async move {
            let event = self.event_of(&waiting, end).await;
            (waiting, event)
        });
        // In order, so that the events of a mailbox keep the order of its deliveries.
        let mut events = futures_util::stream::iter(events).buffered(PARALLEL);
        while let Some((waiting, event)) = events.next().await {
            mails.finish(&waiting, &event).await?;
            self.0.events.wake();
        }
        Ok(more)
    }

    /// Waits until this process has stored received mail that has no event.
    pub async fn mail_received(&self) {
        self.0.mail_received.notified().await;
    }

    async fn event_of(&self, waiting: &WaitingMail, end: Instant) -> NewEvent {
        let WaitingMail { event_id, mail, .. } = waiting;
        let found = match timeout_at(end, self.find_received(mail)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::debug!(queue_id = %mail.queue_id, %error, "received message could not be read for its event");
                None
            }
            Err(_) => None,
        };
        let security = match &found {
            Some((folder, message)) => {
                timeout_at(end, self.found_signs(mail, folder, message)).await.unwrap_or_default()
            }
            None => None,
        };
        let snippet = found.as_ref().map(|(_, message)| beginning_of(message)).unwrap_or_default();
        let message = found.as_ref().map(|(folder, message)| ReceivedMessage {
            folder: folder.as_str(),
            uid: message.summary.uid,
            from_name: &message.summary.from.name,
            from_email: &message.summary.from.email,
            subject: &message.summary.subject,
            snippet: &snippet,
            size: message.summary.size,
            has_attachments: message.summary.has_attachments,
            security: security.as_ref(),
        });
        let (queue_id, authentication) = (mail.queue_id.0.as_str(), mail.authentication.as_ref());
        let (mailbox, recipient) = (&mail.mailbox, mail.recipient.as_ref());
        received(Received { mailbox, recipient, queue_id, authentication, message }, *event_id)
    }

    /// Returns what the security analysis found; `None` if the message was not analyzed.
    ///
    /// The built-in server analyzes mail from outside when it arrives, and removes forged fields of it. In front of another
    /// server, the message is analyzed here.
    async fn found_signs(
        &self,
        mail: &ReceivedMail,
        folder: &FolderName,
        message: &FullMessage,
    ) -> Option<SecurityMark> {
        if mail.place.is_some() {
            let (_, value) = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(SecurityMark::FIELD))?;
            return mail.authentication.is_some().then(|| SecurityMark::of_field(value));
        }
        let found = self.analyze_received(&mail.mailbox, folder, message.summary.uid).await;
        found.unwrap_or_else(|error| {
            tracing::debug!(queue_id = %mail.queue_id, %error, "received message could not be analyzed for its event");
            None
        })
    }

    /// Returns the folder and the message; `None` unless it is certain which message it is.
    async fn find_received(&self, mail: &ReceivedMail) -> Result<Option<(FolderName, FullMessage)>, MailboxError> {
        if let Some((folder, uid)) = &mail.place {
            let message = self.0.backend.mailboxes.read(&mail.mailbox, folder, *uid).await?;
            return Ok(Some((folder.clone(), message)));
        }
        let is_recent = self.0.clock.now().since(mail.at) < MOST_AGE;
        let header_id = mail.header_id.as_deref().map(bare).filter(|id| !id.is_empty() && is_recent);
        let Some(header_id) = header_id else { return Ok(None) };
        let inbox = FolderName::inbox();
        let message = self.newest_of(&mail.mailbox, &inbox, header_id, &mail.queue_id).await?;
        Ok(message.map(|message| (inbox, message)))
    }

    /// Returns the newest message with this Message-ID that the mail server received under this queue id.
    async fn newest_of(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        header_id: &str,
        queue_id: &QueueId,
    ) -> Result<Option<FullMessage>, MailboxError> {
        let mailboxes = &self.0.backend.mailboxes;
        let newest = mailboxes.list(mailbox, folder, Page::new(NEWEST, 0)).await?.items;
        let candidates = newest.iter().filter(|summary| bare(&summary.message_id) == header_id);
        for candidate in candidates.take(CANDIDATES) {
            let message = mailboxes.read(mailbox, folder, candidate.uid).await?;
            if names(&message, queue_id) {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

/// Returns a Message-ID without its brackets.
fn bare(id: &str) -> &str {
    id.trim().trim_start_matches('<').trim_end_matches('>')
}

/// Returns whether a Received field names this queue id (RFC 5321 section 4.4).
fn names(message: &FullMessage, queue_id: &QueueId) -> bool {
    let of_trace = message.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Received"));
    let mut fields = of_trace.flat_map(|(_, values)| values.split('\n'));
    fields.any(|field| {
        let words: Vec<&str> = field.split([' ', '\t', ';']).filter(|word| !word.is_empty()).collect();
        words.windows(2).any(|pair| pair[0].eq_ignore_ascii_case("id") && pair[1] == queue_id.0)
    })
}

#[cfg(test)]
mod tests {
    use mailapi_backend::mime::MessageStructure;
    use mailapi_model::Timestamp;

    use super::*;

    fn message(received: &str) -> FullMessage {
        let raw = format!("Received: {received}\r\nSubject: x\r\n\r\nHello\r\n");
        let summary = MessageStructure::of(raw.as_bytes()).summary(1, 1, Vec::new(), Timestamp::from_seconds(0));
        let headers = vec![("Received".to_owned(), received.to_owned())];
        FullMessage { summary, cc: Vec::new(), headers, text: None, html: None, attachments: Vec::new() }
    }

    #[test]
    fn only_the_trace_of_this_delivery_counts() {
        let queue_id = QueueId("4CqG3T0xQnz9rxW".to_owned());
        for other in [
            "from a by b (Postfix) with ESMTP id 4CqG3T0xQnz9rxX; Fri, 20 Nov 2026 10:15:30 +0000",
            "from a by b with LMTP id x4CqG3T0xQnz9rxW (envelope-from <id@x>); Fri",
            "from 4CqG3T0xQnz9rxW by b (Postfix); Fri",
            "",
        ] {
            assert!(!names(&message(other), &queue_id), "{other}");
        }
        for this in [
            "from a by b (Postfix) with ESMTP id 4CqG3T0xQnz9rxW; Fri, 20 Nov 2026 10:15:30 +0000",
            "from b by c with LMTP id 7\nfrom a by b (Postfix, from userid 0) id 4CqG3T0xQnz9rxW; Fri",
        ] {
            assert!(names(&message(this), &queue_id), "{this}");
        }
    }
}
