//! `POST /mail/send`: store as pending, hand over, store as submitted, answer.
//!
//! The order is what keeps the two promises. The message is stored before it is handed over, so nothing is sent
//! without trace. It is handed over before `submitted` is stored, so nothing is called submitted that is not. A crash
//! in between leaves it `pending`, and [`Service::recover_once`] asks the mail server which of the two it is.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{Accepted, CommitGate, Refusal, SendLimitReached, SubmitError};
use mailapi_model::{
    Denied, Draft, EmailAddress, Envelope, Grants, MessageId, Octets, QueueId, Reply, SendAs, Timestamp,
};
use mailapi_store::{Begun, Failure, Idempotency, NewSent, StoreError, StoredAnswer};
use sha2::{Digest, Sha256};

use super::compose::{compose, compose_large};
use crate::domains::SendingDomain;
use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// Messages larger than this are composed and signed on a thread for long work.
pub(crate) const LONG_WORK_OCTETS: usize = 256 * 1024;

/// First and longest pause between looks for the answer to a request that another node works on.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// What a caller asks to be sent.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// The message.
    pub draft: Draft,
    /// Makes a repetition of the request harmless.
    pub idempotency: Option<IdempotencyKey>,
}

/// A caller's name for one request, and a hash of the request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: String,
    body_hash: [u8; 32],
}

/// A text that is no idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to 255 printable ASCII characters")]
pub struct IdempotencyKeyError;

/// What a request's body comes down to: octets that are the same have the same one.
#[derive(Debug, Clone, Default)]
pub struct BodyHash(Sha256);

impl BodyHash {
    /// That of a whole body.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        Self(Sha256::new_with_prefix(body))
    }

    /// Takes in what comes next of the body.
    pub fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }
}

impl IdempotencyKey {
    /// The most characters of a key.
    pub const MAX_CHARACTERS: usize = 255;

    /// The key of a request with this body.
    ///
    /// # Errors
    /// [`IdempotencyKeyError`] when it is empty, too long, or not printable ASCII.
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
    /// Our identifier.
    pub message_id: MessageId,
    /// The mail server's queue id; our own identifier if the mail server gave none.
    pub queue_id: QueueId,
    /// How often the request listed a recipient.
    pub recipient_count: u64,
}

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The caller may not send as the draft's author.
    #[error("the token may not send as this address")]
    SenderNotAuthorized,
    /// The author's domain is not one of ours, or not active.
    #[error("the sender's domain is not allowed to send")]
    DomainNotAllowed,
    /// The composed message is too large.
    #[error("the message has more than {limit} octets")]
    TooLarge {
        /// The most octets of a message.
        limit: usize,
    },
    /// The caller's mailbox has reached a daily limit.
    #[error("{reached}")]
    LimitReached {
        /// Which one.
        reached: SendLimitReached,
        /// Until the next day begins.
        wait: Duration,
    },
    /// The same idempotency key came with another body.
    #[error("the idempotency key was used for another request")]
    IdempotencyConflict,
    /// The first request with this idempotency key has not been answered yet, and waiting for that was in vain.
    #[error("the first request with this idempotency key is still being worked on")]
    IdempotencyInFlight,
    /// The mail server did not take the message. It is recorded as failed.
    #[error("the message could not be sent: {reason}")]
    Failed {
        /// Our identifier, under which the failure is recorded.
        message_id: MessageId,
        /// What the mail server said.
        reason: String,
        /// Whether a retry may reach some recipient. Nothing was handed over, so no recipient gets the message twice.
        retryable: bool,
    },
    /// The connection to the mail server ended at the worst moment: the message stays open until it is known.
    #[error("the mail server has not confirmed the message; its status will tell")]
    OutcomeUnknown {
        /// Our identifier, under which the outcome will be recorded.
        message_id: MessageId,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(SendError);

impl From<Denied> for SendError {
    fn from(_: Denied) -> Self {
        Self::SenderNotAuthorized
    }
}

impl Service {
    /// Sends a message. Once it has begun it goes on to its end, whether the caller waits for the answer or not.
    ///
    /// # Errors
    /// See [`SendError`]; with any of them nothing was handed over, but for [`SendError::OutcomeUnknown`].
    pub async fn send(&self, caller: &Caller, mut request: SendRequest) -> Result<Submitted, SendError> {
        // Checked first, because an unhosted domain is the more useful error.
        let domain = self.sending_domain(&request.draft.sender_domain()).await?.ok_or(SendError::DomainNotAllowed)?;
        self.fold_mailboxes(&mut request.draft).await?;
        let sender = self.sender(&caller.grants, &request.draft.from().address).await?;
        let service = self.clone();
        let caller = caller.clone();
        let work = tokio::spawn(async move { service.send_from(sender, domain, caller, request).await });
        work.await.map_err(|error| SendError::Unavailable(Unavailable::Unforeseen(error.to_string())))?
    }

    /// The right to send as an address. The API and submission share this rule.
    ///
    /// # Errors
    /// [`SendError::SenderNotAuthorized`] and [`SendError::Unavailable`].
    pub(crate) async fn sender(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendError> {
        let as_user = grants.may_send_as(address, true)?;
        if grants.may_send_as(address, false).is_ok() || self.account_since(address).await?.is_some() {
            Ok(as_user)
        } else {
            Err(SendError::SenderNotAuthorized)
        }
    }

    /// Folds the local parts of local mailboxes. Those of other hosts stay as given (RFC 5321 section 2.4).
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
        let id = MessageId::random(self.0.entropy.as_ref());
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
        let (begun, answer) = self.begin_and_submit(&new, envelope, message).await;
        let begun = begun?;
        if !matches!(begun, Begun::New) {
            self.uncount_send(&caller.grants);
        }
        match begun {
            Begun::New => {}
            Begun::Repeat(answer) => return answer_again(answer),
            Begun::InFlight(_) => return Err(SendError::IdempotencyInFlight),
            Begun::Conflict => return Err(SendError::IdempotencyConflict),
        }
        match answer {
            Ok(accepted) => Ok(self.note_submitted(id, accepted, recipient_count).await),
            Err(SubmitError::NoRecipients(refused)) if are_final(&refused, new.recipients.len()) => {
                // A typo is not a failure of ours: a caller that retries failures must not retry it.
                let accepted = Accepted { queue_id: QueueId::standing_in(id), refused };
                Ok(self.note_submitted(id, accepted, recipient_count).await)
            }
            Err(error) => Err(self.note_not_submitted(id, error).await?),
        }
    }

    /// Begins, and hands over what has begun. The mail server may be asked about the envelope meanwhile, unless the
    /// request may turn out to be a repeat of another.
    async fn begin_and_submit(
        &self,
        new: &NewSent,
        envelope: Envelope,
        message: Octets,
    ) -> (Result<Begun, StoreError>, Result<Accepted, SubmitError>) {
        let submission = &self.0.backend.submission;
        let (opener, mut commit_gate) = CommitGate::closed();
        let begin = async {
            let begun = self.begin_or_wait(new).await;
            match begun {
                Ok(Begun::New) => opener.open(),
                // Dropped, it forbids.
                _ => drop(opener),
            }
            begun
        };
        let submit = async {
            if new.idempotency.is_some() {
                commit_gate.pass().await?;
            }
            submission.submit_when(envelope, message, commit_gate).await
        };
        tokio::join!(begin, submit)
    }

    /// Begins, or waits a while for the answer of the first request with the same key.
    async fn begin_or_wait(&self, new: &NewSent) -> Result<Begun, StoreError> {
        let begun = self.begin(new).await?;
        let Begun::InFlight(first) = begun else { return Ok(begun) };
        let waited = tokio::time::timeout(self.0.settings.idempotency_wait, self.begin_after(new, first)).await;
        waited.unwrap_or(Ok(begun))
    }

    /// Waits for the answer to the first request, then begins again.
    async fn begin_after(&self, new: &NewSent, first: MessageId) -> Result<Begun, StoreError> {
        if self.0.in_flight.contains(first) || !self.0.store.is_shared() {
            self.0.in_flight.ended(first).await;
            return self.begin(new).await;
        }
        // Another node works on it, or did until it stopped: only the database has its answer.
        let mut pause = FIRST_LOOK;
        loop {
            tokio::time::sleep(pause).await;
            match self.begin(new).await? {
                Begun::InFlight(_) => pause = (pause * 2).min(LONGEST_LOOK),
                answered => return Ok(answered),
            }
        }
    }

    /// Stores the message in such a way that what the mail server has of it is never without trace.
    async fn begin(&self, new: &NewSent) -> Result<Begun, StoreError> {
        let sent = self.0.store.sent();
        if self.0.settings.mail_in_store_file { sent.begin_in_one_file(new).await } else { sent.begin(new).await }
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
        let idempotency = token_id.zip(request.idempotency.as_ref()).map(|(token_id, named)| Idempotency {
            token_id,
            key: named.key.clone(),
            body_hash: named.body_hash.to_vec(),
            expires_at: now.plus(self.0.settings.idempotency_lifetime),
        });
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
        }
    }

    async fn composed_and_signed(
        &self,
        draft: Draft,
        domain: Arc<SendingDomain>,
        id: MessageId,
        now: Timestamp,
    ) -> Result<Octets, SendError> {
        let limit = self.0.settings.max_message_bytes;
        let files: usize = draft.attachments().iter().map(|file| file.content.len()).sum();
        let octets = files + draft.text().map_or(0, str::len) + draft.html().map_or(0, str::len);
        if octets > limit {
            return Err(SendError::TooLarge { limit });
        }
        let message = if octets > LONG_WORK_OCTETS {
            let buffer = self.0.buffer.clone();
            let work = move || {
                let message = compose_large(&draft, id, now, &buffer)?;
                // The message holds all of it once more.
                drop(draft);
                domain.sign(message)
            };
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(|error| Unavailable::Unforeseen(error.to_string()))??
        } else {
            domain.sign(compose(&draft, id, now).map_err(Unavailable::from)?.into())?
        };
        if message.len() > limit { Err(SendError::TooLarge { limit }) } else { Ok(message) }
    }

    /// The mail server has the message, so the answer is 202 even when that cannot be written down just now: the
    /// message then stays pending until [`Service::recover_once`] finds it at the mail server.
    async fn note_submitted(&self, id: MessageId, accepted: Accepted, recipient_count: u64) -> Submitted {
        let Accepted { queue_id, refused } = accepted;
        let refused: Vec<(EmailAddress, Reply)> = refused.into_iter().map(|r| (r.recipient, r.reply)).collect();
        let now = self.0.clock.now();
        if let Err(error) = self.0.store.sent().submitted(id, &queue_id, now, &refused).await {
            tracing::error!(message_id = %id, %queue_id, %error, "submitted, but that could not be stored yet");
        }
        Submitted { message_id: id, queue_id, recipient_count }
    }

    async fn note_not_submitted(&self, id: MessageId, error: SubmitError) -> Result<SendError, Unavailable> {
        if error == SubmitError::OutcomeUnknown {
            tracing::warn!(message_id = %id, "the mail server did not confirm the message; it stays pending");
            return Ok(SendError::OutcomeUnknown { message_id: id });
        }
        let reason = error.reply().map_or_else(|| error.to_string(), ToString::to_string);
        let retryable = error.is_transient();
        let (reply, refused) = match error {
            SubmitError::Refused(reply) => (Some(reply), Vec::new()),
            SubmitError::NoRecipients(refused) => (None, refused.into_iter().map(|r| (r.recipient, r.reply)).collect()),
            SubmitError::Unavailable(_) | SubmitError::OutcomeUnknown => (None, Vec::new()),
        };
        let failure = Failure { reason: &reason, reply: reply.as_ref(), refused: &refused };
        self.0.store.sent().failed(id, self.0.clock.now(), failure).await?;
        tracing::warn!(message_id = %id, reason, "the mail server did not take a message");
        Ok(SendError::Failed { message_id: id, reason, retryable })
    }
}

/// What the first request with the same idempotency key was answered.
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

/// Whether all of these recipients were refused permanently.
fn are_final(refused: &[Refusal], recipients: usize) -> bool {
    refused.len() == recipients && refused.iter().all(|refusal| !refusal.reply.is_transient())
}
