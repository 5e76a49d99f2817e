//! Message statuses, and the only rule by which they change.

use crate::delivery::{Evidence, Outcome, Scope};
use crate::named_values;

named_values! {
    /// The status of a whole message.
    MessageStatus, UnknownMessageStatus, "must be one of pending, submitted, sent, partial, bounced, failed" {
        /// Stored, not yet submitted to the mail server.
        Pending = "pending",
        /// Accepted by the mail server; delivery to at least one recipient is pending.
        Submitted = "submitted",
        /// Delivered to all recipients.
        Sent = "sent",
        /// Delivered to some recipients only.
        Partial = "partial",
        /// Delivered to no recipient, and rejected permanently by all.
        Bounced = "bounced",
        /// Delivered to no recipient; at least one was never submitted and may be retried.
        Failed = "failed",
    }
}

named_values! {
    /// The status of a message for one recipient.
    RecipientStatus, UnknownRecipientStatus, "must be one of pending, submitted, deferred, sent, bounced, failed" {
        /// Stored, not yet submitted to the mail server.
        Pending = "pending",
        /// Accepted by the mail server.
        Submitted = "submitted",
        /// Attempted at least once; the mail server will retry.
        Deferred = "deferred",
        /// Delivered to the mailbox, or accepted by the next mail server.
        Sent = "sent",
        /// Returned as undeliverable.
        Bounced = "bounced",
        /// Never submitted: the mail server rejected the recipient temporarily, or did not accept the message
        /// at all.
        Failed = "failed",
    }
}

impl RecipientStatus {
    /// Returns the status after an event. Final statuses stay, with one exception: a bounce received as mail,
    /// after the next server had accepted the message, turns `sent` into `bounced`.
    ///
    /// A recipient may expand to several addresses. One successful delivery makes it `sent`. A failure for
    /// one of them proves nothing about the others, so the status stays until the whole recipient is reported
    /// as failed.
    #[must_use]
    pub const fn after(self, outcome: Outcome, evidence: Evidence, scope: Scope) -> Self {
        match (self, outcome, evidence) {
            (Self::Bounced | Self::Failed, _, _) => self,
            (_, Outcome::Bounced | Outcome::Expired, _) if matches!(scope, Scope::Member) => self,
            (Self::Sent, Outcome::Bounced | Outcome::Expired, Evidence::ReturnedMail) => Self::Bounced,
            (Self::Sent, _, _) => Self::Sent,
            (_, Outcome::Sent, _) => Self::Sent,
            (_, Outcome::Deferred, _) => Self::Deferred,
            (_, Outcome::Bounced | Outcome::Expired, _) => Self::Bounced,
            (_, Outcome::Failed, _) => Self::Failed,
        }
    }

    /// Returns whether delivery to this recipient may still change.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Submitted | Self::Deferred)
    }
}

/// Returns the status of a message from the statuses of its recipients.
#[must_use]
pub fn overall(states: &[RecipientStatus]) -> MessageStatus {
    let all = |wanted: RecipientStatus| states.iter().all(|state| *state == wanted);
    if all(RecipientStatus::Pending) {
        MessageStatus::Pending
    } else if states.iter().any(|state| state.is_open()) {
        MessageStatus::Submitted
    } else if all(RecipientStatus::Sent) {
        MessageStatus::Sent
    } else if states.contains(&RecipientStatus::Sent) {
        MessageStatus::Partial
    } else if states.contains(&RecipientStatus::Failed) {
        // `Bounced` would hide that a retry may still reach a recipient.
        MessageStatus::Failed
    } else {
        MessageStatus::Bounced
    }
}

#[cfg(test)]
mod tests {
    use super::RecipientStatus::{Bounced, Deferred, Failed, Pending, Sent, Submitted};
    use super::*;

    #[test]
    fn nothing_leads_back_from_a_final_state_but_a_returned_mail() {
        for outcome in Outcome::ALL {
            for scope in [Scope::Recipient, Scope::Member] {
                assert_eq!(Sent.after(outcome, Evidence::MailServer, scope), Sent);
                for evidence in [Evidence::MailServer, Evidence::ReturnedMail] {
                    assert_eq!(Bounced.after(outcome, evidence, scope), Bounced);
                    assert_eq!(Failed.after(outcome, evidence, scope), Failed);
                }
            }
        }
        assert_eq!(Sent.after(Outcome::Bounced, Evidence::ReturnedMail, Scope::Recipient), Bounced);
        assert_eq!(Sent.after(Outcome::Deferred, Evidence::ReturnedMail, Scope::Recipient), Sent);
    }

    #[test]
    fn a_member_that_failed_proves_nothing_about_the_whole() {
        for state in [Pending, Submitted, Deferred, Sent] {
            for evidence in [Evidence::MailServer, Evidence::ReturnedMail] {
                assert_eq!(state.after(Outcome::Bounced, evidence, Scope::Member), state);
                assert_eq!(state.after(Outcome::Expired, evidence, Scope::Member), state);
            }
        }
        assert_eq!(Submitted.after(Outcome::Sent, Evidence::MailServer, Scope::Member), Sent);
        assert_eq!(Submitted.after(Outcome::Deferred, Evidence::MailServer, Scope::Member), Deferred);
    }

    #[test]
    fn the_whole_follows_from_its_recipients() {
        for (states, whole) in [
            (&[Pending, Pending][..], MessageStatus::Pending),
            (&[Sent, Pending], MessageStatus::Submitted),
            (&[Submitted, Bounced], MessageStatus::Submitted),
            (&[Sent, Deferred], MessageStatus::Submitted),
            (&[Sent, Sent], MessageStatus::Sent),
            (&[Sent, Bounced], MessageStatus::Partial),
            (&[Bounced, Bounced], MessageStatus::Bounced),
            (&[Failed, Failed], MessageStatus::Failed),
            (&[Failed, Bounced], MessageStatus::Failed),
            (&[Failed, Sent], MessageStatus::Partial),
            (&[Failed, Submitted], MessageStatus::Submitted),
        ] {
            assert_eq!(overall(states), whole, "{states:?}");
        }
    }
}
