//! Messages of the server itself to its users.

use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{RecordError, SubmitError};
use mailapi_model::{Draft, DraftFields, EmailAddress, Envelope, Grants, MessageId, MessageStatus, Timestamp};
use mailapi_store::NewSent;

use super::SendError;
use super::new_record::NewRecord;
use crate::{Service, Unavailable};

/// The time between two messages after a temporary failure: each leaves a record.
const RETRY_PAUSE: Duration = Duration::from_secs(60 * 60);

/// A message of the server itself.
#[derive(Debug)]
pub(crate) struct Notice {
    /// The same id for each attempt, so that the message is sent once.
    pub(crate) id: MessageId,
    /// The recipients, which have mailboxes here; at least one.
    pub(crate) to: Vec<EmailAddress>,
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// What became of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeSent {
    /// The mail server has it.
    Yes,
    /// Not known yet; asking again with the same id gives the answer.
    Pending,
    /// The mail server does not have it. A new message, with another id, may be sent.
    No,
    /// The mail server does not accept it.
    Refused,
}

impl Service {
    /// Sends a notice from the postmaster of the first recipient's domain. The postmaster is its envelope sender too, as
    /// for other messages: after a crash, recovery finds it at the mail server by its return address.
    pub(crate) async fn send_notice(&self, notice: Notice) -> Result<NoticeSent, Unavailable> {
        if let Some(sent) = self.notice_status(notice.id).await? {
            return Ok(sent);
        }
        if self.0.backend.submission.check().await.is_err() {
            // Without this check, a mail server that is down would leave a failed message for each attempt.
            return Ok(NoticeSent::Pending);
        }
        let Some(domain) = notice.to.first().map(EmailAddress::domain) else { return Ok(NoticeSent::Refused) };
        let Some(sending) = self.sending_domain(&domain).await? else { return Ok(NoticeSent::Refused) };
        let (id, now) = (notice.id, self.0.clock.now());
        let draft = self.draft_of(notice, &format!("mailapi <postmaster@{}>", domain.as_str()))?;
        let _in_flight = self.0.in_flight.enter(id);
        let new = self.record_of(&draft, id, now)?;
        let envelope = Envelope { message_id: id, sender: Some(new.from.clone()), recipients: new.to.clone() };
        let message = self.composed_and_signed(draft, sending, id, now).await.map_err(unforeseen_send)?;
        let record = NewRecord { store: self.0.store.clone(), clock: Arc::clone(&self.0.clock), new };
        let recipients = envelope.recipients.len();
        match self.0.backend.submission.submit(envelope, message, &record).await {
            Ok(accepted) => {
                self.count_accepted(recipients, accepted.refused.len());
                self.0.events.wake();
                Ok(NoticeSent::Yes)
            }
            // Another node sends it.
            Err(SubmitError::NotRecorded(RecordError::Exists)) => Ok(NoticeSent::Pending),
            Err(SubmitError::NotRecorded(error)) => Err(unforeseen(error)),
            Err(error) => self.notice_failed(id, recipients, error).await,
        }
    }

    async fn notice_failed(
        &self,
        id: MessageId,
        recipients: usize,
        error: SubmitError,
    ) -> Result<NoticeSent, Unavailable> {
        let is_known = error != SubmitError::OutcomeUnknown;
        let result = match &error {
            SubmitError::OutcomeUnknown => NoticeSent::Pending,
            // The record of the failure decides when the next message is sent.
            error if error.is_transient() => NoticeSent::Pending,
            _ => NoticeSent::Refused,
        };
        if is_known {
            self.count_accepted(recipients, recipients);
        }
        self.note_not_submitted(id, error).await?;
        Ok(result)
    }

    /// Returns what became of an earlier attempt; `None` if there was none.
    async fn notice_status(&self, id: MessageId) -> Result<Option<NoticeSent>, Unavailable> {
        let (record, now) = (self.0.store.sent().get(id).await?, self.0.clock.now());
        Ok(record.map(|record| match record.message.status {
            // Recovery asks the mail server.
            MessageStatus::Pending => NoticeSent::Pending,
            MessageStatus::Failed if now.since(record.message.created_at) < RETRY_PAUSE => NoticeSent::Pending,
            MessageStatus::Failed => NoticeSent::No,
            MessageStatus::Submitted | MessageStatus::Sent | MessageStatus::Partial | MessageStatus::Bounced => {
                NoticeSent::Yes
            }
        }))
    }

    fn record_of(&self, draft: &Draft, id: MessageId, now: Timestamp) -> Result<NewSent, Unavailable> {
        let sender = Grants::admin_token().may_send_as(&draft.from().address, false).map_err(unforeseen)?;
        let recipients = draft.recipients();
        Ok(NewSent {
            message_id: id,
            token_id: None,
            mailbox: None,
            from: sender.address().clone(),
            to: recipients.iter().map(|(address, _)| address.clone()).collect(),
            subject: draft.subject().to_owned(),
            recipient_count: recipients.len(),
            recipients,
            created_at: now,
            idempotency: None,
            node: self.0.settings.node.clone(),
            size: None,
        })
    }

    fn draft_of(&self, notice: Notice, from: &str) -> Result<Draft, Unavailable> {
        let Notice { to, subject, text, .. } = notice;
        let fields = DraftFields {
            from: from.to_owned(),
            to: to.iter().map(|address| address.shown().to_owned()).collect(),
            subject: Some(subject),
            text: Some(text),
            // RFC 3834 section 5: automatic answers must not follow.
            headers: vec![("Auto-Submitted".to_owned(), "auto-generated".to_owned())],
            ..DraftFields::default()
        };
        Draft::parse(fields, &self.0.settings.draft).map_err(unforeseen)
    }
}

fn unforeseen(error: impl std::fmt::Display) -> Unavailable {
    Unavailable::Unforeseen(format!("a notice could not be sent: {error}"))
}

fn unforeseen_send(error: SendError) -> Unavailable {
    match error {
        SendError::Unavailable(error) => error,
        error => unforeseen(error),
    }
}
