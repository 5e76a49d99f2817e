//! `POST /mail/send`: composes the message, submits it together with its record, responds.
//!
//! The backend stores the record: together with the message, or first as pending and then as submitted. So
//! every sent message has a record, and `submitted` is always true. After a crash in between, the message
//! stays `pending`, and [`Service::recover_once`] asks the mail server whether it has the message.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{Accepted, RecordError, Refusal, SendLimitReached, SubmitError};
use mailapi_metrics::Recipient;
use mailapi_model::{Blob, Denied, Draft, EmailAddress, Envelope, Grants, MessageId, QueueId, SendAs, Timestamp};
use mailapi_store::{Begun, Failure, Idempotency, NewSent, StoreError, StoredAnswer};
use sha2::{Digest, Sha256};

use super::compose::{Form, compose, compose_large};
use super::new_record::NewRecord;
use crate::domains::SendingDomain;
use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Larger messages are composed and signed on a blocking thread.
pub(crate) const LONG_WORK_BYTES: usize = 256 * 1024;

/// First and longest pause between queries for the result of a request that another node processes.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// A request to send a message.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// The message.
    pub draft: Draft,
    /// Makes a repeated request harmless.
    pub idempotency: Option<IdempotencyKey>,
}

/// The caller's key for one request, with a hash of the request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: String,
    body_hash: [u8; 32],
}

/// The text is not a valid idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to 255 printable ASCII characters")]
pub struct IdempotencyKeyError;

/// A hash of a request body, to compare repeated requests.
#[derive(Debug, Clone, Default)]
pub struct BodyHash(Sha256);

impl BodyHash {
    /// Hashes a whole body.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        Self(Sha256::new_with_prefix(body))
    }

    /// Adds the next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl IdempotencyKey {
    /// Maximum length of a key in characters.
    pub const MAX_CHARACTERS: usize = 255;

    /// Creates the key of a request with this body.
    ///
    /// # Errors
    /// [`IdempotencyKeyError`] if the key is empty, too long, or not printable ASCII.
    pub fn new(key: &str, body: BodyHash) -> Result<Self, IdempotencyKeyError> {
        let fits = (1..=Self::MAX_CHARACTERS).contains(&key.len());
        if !fits || !key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(IdempotencyKeyError);
        }
        Ok(Self { key: key.to_owned(), body_hash: body.0.finalize().into() })
    }
}

/// The mail server has accepted the message, or refused each recipient permanently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The message identifier.
    pub message_id: MessageId,
    /// The mail server's queue id; by default derived from the message identifier.
    pub queue_id: QueueId,
    /// Number of recipients in the request, repetitions included.
    pub recipient_count: u64,
}

/// The reason why the message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The caller may not send from the draft's From address.
    #[error("the token may not send as this address")]
    SenderNotAuthorized,
    /// The sender's domain is not local or not active.
    #[error("the sender's domain is not allowed to send")]
    DomainNotAllowed,
    /// The composed message is too large.
    #[error("the message has more than {limit} bytes")]
    TooLarge {
        /// The maximum in bytes.
        limit: usize,
    },
    /// The caller's mailbox has reached a daily limit.
    #[error("{reached}")]
    LimitReached {
        /// The limit.
        reached: SendLimitReached,
        /// Time until the next day.
        wait: Duration,
    },
    /// The idempotency key was used with another body.
    #[error("the idempotency key was used with a different request")]
    IdempotencyConflict,
    /// The first request with this idempotency key is still in progress after the maximum wait.
    #[error("the first request with this idempotency key is still in progress")]
    IdempotencyInFlight,
    /// The mail server did not accept the message. It is recorded as failed.
    #[error("the message could not be sent: {reason}")]
    Failed {
        /// The message identifier of the record.
        message_id: MessageId,
        /// The mail server's reply.
        reason: String,
        /// Whether a retry may succeed for some recipient. Nothing was submitted, so no recipient gets the
        /// message twice.
        retryable: bool,
    },
    /// The connection was lost before the mail server confirmed the message, which stays pending until recovery.
    #[error("the mail server has not confirmed the message; check its status later")]
    OutcomeUnknown {
        /// The message identifier, under which the outcome will be recorded.
        message_id: MessageId,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(SendError);

/// The reason why a message was not composed.
#[derive(Debug)]
pub(crate) enum NotComposed {
    /// The composed message is larger than the maximum in bytes.
    TooLarge { limit: usize },
    /// See [`Unavailable`].
    Unavailable(Unavailable),
}

impl<E: Into<Unavailable>> From<E> for NotComposed {
    fn from(error: E) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<NotComposed> for SendError {
    fn from(error: NotComposed) -> Self {
        match error {
            NotComposed::TooLarge { limit } => Self::TooLarge { limit },
            NotComposed::Unavailable(error) => Self::Unavailable(error),
        }
    }
}

impl From<Denied> for SendError {
    fn from(_: Denied) -> Self {
        Self::SenderNotAuthorized
    }
}

impl Service {
    /// Sends a message. Once started it runs to completion, even if the caller stops waiting.
    ///
    /// # Errors
    /// See [`SendError`]. Nothing was submitted, except possibly for [`SendError::OutcomeUnknown`].
    pub async fn send(&self, caller: &Caller, mut request: SendRequest) -> Result<Submitted, SendError> {
        // Checked first: for an unhosted domain, this error is more useful than a lack of permission.
        let domain = self.sending_domain(&request.draft.sender_domain()).await?.ok_or(SendError::DomainNotAllowed)?;
        self.fold_mailboxes(&mut request.draft).await?;
        let sender = self.sender(&caller.grants, &request.draft.from().address).await?;
        let service = self.clone();
        let caller = caller.clone();
        let work = tokio::spawn(async move { service.send_from(sender, domain, caller, request).await });
        work.await.map_err(|error| SendError::Unavailable(Unavailable::Unforeseen(error.to_string())))?
    }

    /// Returns the right to send as an address. The API and submission share this rule.
    ///
    /// # Errors
    /// [`SendError::SenderNotAuthorized`] and [`SendError::Unavailable`].
    pub(crate) async fn sender(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendError> {
        if let Ok(own) = grants.may_send_as(address, false) {
            return Ok(own);
        }
        if self.account_since(address).await?.is_some() {
            return Ok(grants.may_send_as(address, true)?);
        }
        // As for incoming mail, an alias goes before a tag.
        match self.0.store.aliases().get(address).await.map_err(Unavailable::from)? {
            Some(alias) => Ok(grants.may_send_as_alias(&alias)?),
            None => Ok(grants.may_send_with_tag(address)?),
        }
    }

    /// Folds the local parts of local mailboxes. Those of other hosts stay unchanged (RFC 5321 section 2.4).
    async fn fold_mailboxes(&self, draft: &mut Draft) -> Result<(), Unavailable> {
        let mut mailboxes = HashSet::new();
        for address in draft.addresses().filter(|address| !address.is_folded()) {
            let is_hosted = self.sending_domain(&address.domain()).await?.is_some();
            if is_hosted && self.account_since(address).await?.is_some() {
                mailboxes.insert(address.clone());
            }
        }
        draft.fold(&mailboxes);
        Ok(())
    }

    async fn send_from(
        &self,
        sender: SendAs,
        domain: Arc<SendingDomain>,
        caller: Caller,
        request: SendRequest,
    ) -> Result<Submitted, SendError> {
        let now = self.0.clock.now();
        let id = MessageId::random(now, self.0.entropy.as_ref());
        // Until this is dropped, recovery leaves the message alone.
        let _in_flight = self.0.in_flight.enter(id);
        let new = self.new_sent(id, &sender, &caller, &request, now);
        let envelope = Envelope {
            message_id: id,
            sender: Some(sender.address().clone()),
            recipients: new.recipients.iter().map(|(address, _)| address.clone()).collect(),
        };
        let recipient_count = new.recipient_count as u64;
        let counted = self.count_send(&caller.grants, &envelope.recipients);
        counted.map_err(|reached| SendError::LimitReached { reached, wait: self.rest_of_day() })?;
        let message = self.composed_and_signed(request.draft, domain, id, now).await?;
        let recipients = new.recipients.len();
        let new = NewSent { size: Some(message.len() as u64), ..new };
        let record = NewRecord { store: self.0.store.clone(), clock: Arc::clone(&self.0.clock), new };
        let answer = self.0.backend.submission.submit(envelope, message, &record).await;
        let submitted = |queue_id| Submitted { message_id: id, queue_id, recipient_count };
        match answer {
            Ok(accepted) => {
                self.count_accepted(recipients, accepted.refused.len());
                self.0.events.wake();
                Ok(submitted(accepted.queue_id))
            }
            Err(SubmitError::NoRecipients(refused)) if are_final(&refused, recipients) => {
                // A typo in an address is not a server failure: callers that retry failures must not retry it.
                self.count_accepted(recipients, refused.len());
                let accepted = Accepted { queue_id: QueueId::standing_in(id), refused };
                record.note_submitted(&accepted).await;
                self.0.events.wake();
                Ok(submitted(accepted.queue_id))
            }
            Err(SubmitError::NotRecorded(error)) => {
                // Nothing was sent, and the first request with the same key was counted already.
                self.uncount_send(&caller.grants);
                self.answer_of_the_first(record.new.idempotency.as_ref(), error).await
            }
            Err(error) => {
                if error != SubmitError::OutcomeUnknown {
                    self.count_accepted(recipients, recipients);
                }
                Err(self.note_not_submitted(id, error).await?)
            }
        }
    }

    /// Returns the answer to the first request with the same key, if that is why the message was not recorded.
    /// If the first request is in progress, waits a while for it.
    async fn answer_of_the_first(
        &self,
        request: Option<&Idempotency>,
        error: RecordError,
    ) -> Result<Submitted, SendError> {
        let request = match (request, error) {
            (Some(request), RecordError::Exists) => request,
            (_, RecordError::Unavailable(reason)) => return Err(StoreError::Unavailable(reason).into()),
            (_, error) => return Err(Unavailable::Unforeseen(error.to_string()).into()),
        };
        let mut seen = self.seen_before(request).await?;
        if let Begun::InFlight(first) = seen {
            let waited = self.wait_for(first, request);
            seen = tokio::time::timeout(self.0.settings.idempotency_wait, waited).await.unwrap_or(Ok(seen))?;
        }
        match seen {
            Begun::Repeat(answer) => answer_again(answer),
            Begun::InFlight(_) => Err(SendError::IdempotencyInFlight),
            Begun::New | Begun::Conflict => Err(SendError::IdempotencyConflict),
        }
    }

    /// Waits for the result of the first request.
    async fn wait_for(&self, first: MessageId, request: &Idempotency) -> Result<Begun, SendError> {
        if self.0.in_flight.contains(first) || !self.0.store.is_shared() {
            self.0.in_flight.ended(first).await;
            return self.seen_before(request).await;
        }
        // Another node processes it, or did until it stopped: only the database has the result.
        let mut pause = FIRST_LOOK;
        loop {
            tokio::time::sleep(pause).await;
            match self.seen_before(request).await? {
                Begun::InFlight(_) => pause = (pause * 2).min(LONGEST_LOOK),
                answered => return Ok(answered),
            }
        }
    }

    async fn seen_before(&self, request: &Idempotency) -> Result<Begun, SendError> {
        let seen = self.0.store.sent().seen_before(request).await?;
        seen.ok_or_else(|| Unavailable::Unforeseen(RecordError::Exists.to_string()).into())
    }

    /// Returns the answer to an earlier request with this key and body, if the message was accepted.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn sent_before(&self, caller: &Caller, key: &IdempotencyKey) -> Result<Option<Submitted>, SendError> {
        let Some(request) = self.idempotency(caller, key, self.0.clock.now()) else { return Ok(None) };
        match self.0.store.sent().seen_before(&request).await? {
            Some(Begun::Repeat(answer)) => answer_again(answer).map(Some),
            Some(Begun::InFlight(_)) => Err(SendError::IdempotencyInFlight),
            Some(Begun::Conflict) => Err(SendError::IdempotencyConflict),
            Some(Begun::New) | None => Ok(None),
        }
    }

    fn idempotency(&self, caller: &Caller, key: &IdempotencyKey, now: Timestamp) -> Option<Idempotency> {
        Some(Idempotency {
            token_id: caller.token.as_ref()?.id,
            key: key.key.clone(),
            body_hash: key.body_hash.to_vec(),
            expires_at: now.plus(self.0.settings.idempotency_lifetime),
        })
    }

    fn new_sent(
        &self,
        id: MessageId,
        sender: &SendAs,
        caller: &Caller,
        request: &SendRequest,
        now: Timestamp,
    ) -> NewSent {
        let draft = &request.draft;
        let token_id = caller.token.as_ref().map(|token| token.id);
        let idempotency = request.idempotency.as_ref().and_then(|key| self.idempotency(caller, key, now));
        NewSent {
            message_id: id,
            token_id,
            mailbox: caller.grants.mailbox().cloned(),
            from: sender.address().clone(),
            to: draft.to().iter().map(|named| named.address.clone()).collect(),
            subject: draft.subject().to_owned(),
            recipients: draft.recipients(),
            recipient_count: draft.recipient_count(),
            created_at: now,
            idempotency,
            node: self.0.settings.node.clone(),
            size: None,
        }
    }

    pub(super) async fn composed_and_signed(
        &self,
        draft: Draft,
        domain: Arc<SendingDomain>,
        id: MessageId,
        now: Timestamp,
    ) -> Result<Blob, SendError> {
        Ok(self.composed(draft, Form::Sent, id, now, move |message| domain.sign(message)).await?)
    }

    /// Composes a message and finishes it, on a blocking thread if it is large.
    pub(crate) async fn composed(
        &self,
        draft: Draft,
        form: Form,
        id: MessageId,
        now: Timestamp,
        finish: impl FnOnce(Blob) -> Result<Blob, Unavailable> + Send + 'static,
    ) -> Result<Blob, NotComposed> {
        let limit = self.0.settings.max_message_bytes;
        let files: usize = draft.attachments().iter().map(|file| file.content.len()).sum();
        let bytes = files + draft.text().map_or(0, str::len) + draft.html().map_or(0, str::len);
        if bytes > limit {
            return Err(NotComposed::TooLarge { limit });
        }
        let message = if bytes > LONG_WORK_BYTES {
            let buffer = self.0.buffer.clone();
            let work = move || {
                let message = compose_large(&draft, form, id, now, &buffer)?;
                // The composed message contains all of it.
                drop(draft);
                finish(message)
            };
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(|error| Unavailable::Unforeseen(error.to_string()))??
        } else {
            finish(compose(&draft, form, id, now)?.into())?
        };
        if message.len() > limit { Err(NotComposed::TooLarge { limit }) } else { Ok(message) }
    }

    /// Counts the recipients of a submission.
    pub(crate) fn count_accepted(&self, recipients: usize, refused: usize) {
        self.0.metrics.count_recipients(Recipient::Accepted, recipients.saturating_sub(refused) as u64);
        self.0.metrics.count_recipients(Recipient::Refused, refused as u64);
    }

    pub(super) async fn note_not_submitted(&self, id: MessageId, error: SubmitError) -> Result<SendError, Unavailable> {
        if error == SubmitError::OutcomeUnknown {
            tracing::warn!(message_id = %id, "the mail server did not confirm the message; it stays pending");
            return Ok(SendError::OutcomeUnknown { message_id: id });
        }
        let reason = error.reply().map_or_else(|| error.to_string(), ToString::to_string);
        let retryable = error.is_transient();
        let (reply, refused) = match error {
            SubmitError::Refused(reply) => (Some(reply), Vec::new()),
            SubmitError::NoRecipients(refused) => (None, refused.into_iter().map(|r| (r.recipient, r.reply)).collect()),
            SubmitError::Unavailable(_) | SubmitError::OutcomeUnknown | SubmitError::NotRecorded(_) => {
                (None, Vec::new())
            }
        };
        let failure = Failure { reason: &reason, reply: reply.as_ref(), refused: &refused };
        self.0.store.sent().failed(id, self.0.clock.now(), failure).await?;
        self.0.events.wake();
        tracing::warn!(message_id = %id, reason, "the mail server did not accept a message");
        Ok(SendError::Failed { message_id: id, reason, retryable })
    }
}

/// Repeats the result of the first request with the same idempotency key.
fn answer_again(answer: StoredAnswer) -> Result<Submitted, SendError> {
    match answer {
        StoredAnswer::Submitted { message_id, queue_id, recipient_count } => {
            Ok(Submitted { message_id, queue_id, recipient_count })
        }
        StoredAnswer::Failed { message_id, reason, retryable } => {
            Err(SendError::Failed { message_id, reason, retryable })
        }
    }
}

/// Whether all recipients were refused permanently.
fn are_final(refused: &[Refusal], recipients: usize) -> bool {
    refused.len() == recipients && refused.iter().all(|refusal| !refusal.reply.is_transient())
}
