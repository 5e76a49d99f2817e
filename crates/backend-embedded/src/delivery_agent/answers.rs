//! Composes the automatic answers of rules (RFC 3834 section 3, RFC 5230 section 5).

use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId as MessageIdHeader;
use mail_builder::headers::raw::Raw;
use mailapi_backend::SignError;
use mailapi_model::{Blob, MessageId};

use super::Inner;
use crate::accept::{AcceptError, Incoming, Relaying};
use crate::message_store::{Answer, MessageStoreError, WaitingAnswer};

impl Inner {
    /// Accepts the messages of all waiting answers.
    pub(super) async fn send_answers(&self) -> Result<(), MessageStoreError> {
        loop {
            let waiting = self.message_store.waiting_answers().await?;
            if waiting.is_empty() {
                return Ok(());
            }
            for answer in waiting {
                if !self.send_answer(&answer).await? {
                    return Ok(());
                }
            }
        }
    }

    /// Accepts one. Returns whether it no longer waits.
    async fn send_answer(&self, waiting: &WaitingAnswer) -> Result<bool, MessageStoreError> {
        let answer = &waiting.answer;
        let message = match self.signed(answer).await {
            Ok(message) => message,
            Err(SignError::Unavailable) => return Ok(false),
            Err(SignError::NotAllowed) => {
                tracing::info!(mailbox = %answer.mailbox, "automatic answer discarded: its domain may not send");
                return self.message_store.drop_answer(waiting).await.map(|()| true);
            }
        };
        let now = self.message_store.clock().now();
        // The null reverse-path prevents answers to it (RFC 3834 section 3.3).
        let incoming = Incoming::new(None, [answer.recipient.clone()], message, now, Relaying::Allowed);
        let accepted = async {
            let prepared = self.message_store.prepare(incoming).await?;
            self.message_store.accept_answer(waiting, prepared).await
        };
        match accepted.await {
            Ok(()) => Ok(true),
            Err(AcceptError::Store(error)) => Err(error.into()),
            Err(refused) => {
                tracing::info!(mailbox = %answer.mailbox, %refused, "automatic answer discarded");
                self.message_store.drop_answer(waiting).await.map(|()| true)
            }
        }
    }

    /// Returns the message of an answer. Its author has the mailbox's domain, whose signature others check.
    async fn signed(&self, answer: &Answer) -> Result<Blob, SignError> {
        let message = Blob::from(self.composed(answer)?);
        match self.signer.get() {
            Some(signer) => signer.sign(&answer.mailbox.domain(), message).await,
            None => Ok(message),
        }
    }

    fn composed(&self, answer: &Answer) -> Result<Vec<u8>, SignError> {
        let now = self.message_store.clock().now();
        let id = MessageId::random(now, self.message_store.entropy());
        let author = answer.mailbox.wire().into_owned();
        let mut message = MessageBuilder::new()
            .date(Date::new(now.as_seconds()))
            .from(Address::new_address(None::<&str>, author))
            .to(Address::new_address(None::<&str>, answer.recipient.wire().into_owned()))
            .subject(answer.subject.as_str())
            .message_id(MessageIdHeader::new(format!("{id}@{}", answer.mailbox.domain_str())))
            .header("Auto-Submitted", Raw::new("auto-replied"))
            .text_body(format!("{}\n", answer.text.trim_end()));
        if !answer.in_reply_to.is_empty() {
            let answered = answer.in_reply_to.as_str();
            message = message.header("In-Reply-To", Raw::new(answered)).header("References", Raw::new(answered));
        }
        message.write_to_vec().map_err(|_| SignError::Unavailable)
    }
}
