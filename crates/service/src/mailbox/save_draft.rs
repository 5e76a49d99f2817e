//! `POST /mailbox/{email}/drafts`.

use mailapi_backend::{MailboxError, NewDraft, SavedDraft};
use mailapi_model::{Denied, Draft, EmailAddress, MessageId, OwnDrafts};

use crate::mail::{Form, NotComposed, message_id};
use crate::{Caller, Service, Unavailable};

/// The reason why a draft was not saved or deleted.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The caller may not change the drafts of the mailbox.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The composed message is too large.
    #[error("the message has more than {limit} bytes")]
    TooLarge {
        /// The maximum in bytes.
        limit: usize,
    },
    /// The mail server's error.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<NotComposed> for DraftError {
    fn from(error: NotComposed) -> Self {
        match error {
            NotComposed::TooLarge { limit } => Self::TooLarge { limit },
            NotComposed::Unavailable(error) => Self::Unavailable(error),
        }
    }
}

impl Service {
    /// Returns the right to save and delete drafts in this mailbox.
    ///
    /// # Errors
    /// [`Denied`] without the right.
    pub fn may_manage_drafts(&self, caller: &Caller, mailbox: &EmailAddress) -> Result<OwnDrafts, Denied> {
        caller.grants.may_manage_drafts_of(mailbox)
    }

    /// Saves a message in the folder for drafts, and removes the draft that it replaces. Whether the caller may send as
    /// its author is checked when it is sent.
    ///
    /// # Errors
    /// See [`DraftError`].
    pub async fn save_draft(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        draft: Draft,
        replaces: Option<u32>,
    ) -> Result<SavedDraft, DraftError> {
        let owner = self.may_manage_drafts(caller, mailbox)?;
        let address = self.existing_mailbox(owner.address()).await?;
        let now = self.0.clock.now();
        // Each version has a Message-ID of its own, and the sent message gets another one.
        let id = MessageId::random(now, self.0.entropy.as_ref());
        let message_id = format!("<{}>", message_id(&draft, id));
        let message = self.composed(draft, Form::Stored, id, now, Ok).await?;
        let draft = NewDraft { message, message_id, replaces };
        Ok(self.0.backend.mailboxes.save_draft(address, draft).await?)
    }
}
