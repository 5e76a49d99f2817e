//! Evaluates delivery attempts for each recipient.

use mailapi_model::{EnhancedCode, Entropy, Reply, Timestamp};
use mailapi_smtp::client::{Failure, Outcome, RecipientOutcome};

use super::DeliveryAgentSettings;
use super::connect::NoLink;
use super::retry::next_attempt;
use crate::queue::{Attempt, QueuedMessage, QueuedRecipient};
use crate::replies::{from_wire, one_line};

/// Result of an attempt for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttemptOutcome {
    /// Whether the next server accepted the message for it.
    pub(super) taken: bool,
    /// The server's reply, or our own instead.
    pub(super) reply: Reply,
    /// Whether the reply is the server's.
    pub(super) said_by_server: bool,
    /// `host[address]:port`.
    pub(super) relay: Option<String>,
    /// Whether the next server sends the requested notifications (RFC 3461 section 5.2).
    pub(super) notifies: bool,
}

impl AttemptOutcome {
    /// Returns the result if no server was reached.
    pub(super) fn without_link(no_link: &NoLink) -> Self {
        let NoLink { reply, relay, said_by_server } = no_link.clone();
        Self { taken: false, reply, said_by_server, relay, notifies: false }
    }

    /// Returns the result if the message cannot be read locally.
    pub(super) fn unreadable() -> Self {
        Self::of_our_own(Reply::new(451, EnhancedCode::new(4, 3, 0), "the message cannot be read at the moment"))
    }

    /// Returns the result if the message was not sent, for this reason.
    pub(super) const fn of_our_own(reply: Reply) -> Self {
        Self { taken: false, reply, said_by_server: false, relay: None, notifies: false }
    }
}

/// Returns one result for each recipient of the envelope.
pub(super) fn attempt_outcomes(outcome: &Outcome, relay: &str, notifies: bool) -> Vec<AttemptOutcome> {
    let attempt_outcome = |recipient_outcome: RecipientOutcome<'_>| {
        let (taken, reply, said_by_server) = match recipient_outcome {
            RecipientOutcome::Accepted(reply) => (true, from_wire(reply), true),
            RecipientOutcome::Refused(reply) => (false, from_wire(reply), true),
            RecipientOutcome::Failed(failure) => {
                (false, lost(failure, relay, "before the message was accepted"), false)
            }
            // A second delivery is better than a lost message (RFC 1047).
            RecipientOutcome::Unknown(failure) => {
                (false, lost(failure, relay, "before the reply to the message: it may have been delivered"), false)
            }
        };
        AttemptOutcome { taken, reply, said_by_server, relay: Some(relay.to_owned()), notifies }
    };
    outcome.recipient_outcomes().map(attempt_outcome).collect()
}

/// Returns the reply for a lost connection. It is temporary, since it is not a verdict on the message.
fn lost(failure: &Failure, relay: &str, when: &str) -> Reply {
    let text = one_line(&format!("connection to {relay} lost {when} ({failure})"));
    Reply::new(421, EnhancedCode::new(4, 4, 2), text)
}

/// Returns the outcome of an attempt.
pub(super) fn follow_up(
    attempt_outcome: &AttemptOutcome,
    message: &QueuedMessage,
    recipient: &QueuedRecipient,
    settings: &DeliveryAgentSettings,
    entropy: &dyn Entropy,
    now: Timestamp,
) -> Attempt {
    let (reply, relay) = (attempt_outcome.reply.clone(), attempt_outcome.relay.clone());
    if attempt_outcome.taken {
        return Attempt::Delivered { reply, relay };
    }
    if !reply.is_transient() {
        return Attempt::Bounced { reply, relay };
    }
    match next_attempt(settings, entropy, recipient.attempts, now, message.expires_at) {
        Some(next_attempt_at) => {
            let delay_notified = recipient.delay_notified || delay_is_due(message, recipient, settings, now);
            Attempt::Deferred { reply, relay, next_attempt_at, delay_notified }
        }
        None => Attempt::Expired { reply: expired(&reply), relay },
    }
}

/// Returns whether the sender gets a delay notice now: once per message, and unless NOTIFY excludes it.
/// Without NOTIFY the server decides (RFC 3461 section 4.1).
fn delay_is_due(
    message: &QueuedMessage,
    recipient: &QueuedRecipient,
    settings: &DeliveryAgentSettings,
    now: Timestamp,
) -> bool {
    let wanted = message.sender.is_some() && recipient.notify.is_none_or(|notify| notify.delay);
    wanted && now.since(message.accepted_at) >= settings.delay_notice_after
}

/// Returns the reply for an expired message (RFC 3463 section 3.5, X.4.7).
fn expired(last: &Reply) -> Reply {
    let text = format!("the message could not be delivered in time; last reply: {last}");
    Reply::new(554, EnhancedCode::new(5, 4, 7), text)
}
