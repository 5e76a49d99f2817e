//! What a try means for each recipient, and what follows from it.

use mailapi_model::{EnhancedCode, Entropy, Reply, Timestamp};
use mailapi_smtp::client::{Failure, Outcome, RecipientOutcome};

use super::DeliveryAgentSettings;
use super::connect::NoLink;
use super::retry::next_attempt;
use crate::queue::{Attempt, QueuedMessage, QueuedRecipient};
use crate::replies::{from_wire, one_line};

/// What was found out about one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttemptOutcome {
    /// Whether the next server has the message for it.
    pub(super) taken: bool,
    /// What was said; otherwise what we say in its place.
    pub(super) reply: Reply,
    /// Whether it was the server that said it.
    pub(super) said_by_server: bool,
    /// `host[address]:port`.
    pub(super) relay: Option<String>,
    /// Whether the next server sends the notifications that the sender asked for (RFC 3461 section 5.2).
    pub(super) notifies: bool,
}

impl AttemptOutcome {
    /// No server was reached.
    pub(super) fn without_link(no_link: &NoLink) -> Self {
        let NoLink { reply, relay, said_by_server } = no_link.clone();
        Self { taken: false, reply, said_by_server, relay, notifies: false }
    }

    /// The message cannot be read here; no server has a part in that.
    pub(super) fn unreadable() -> Self {
        let reply = Reply::new(451, EnhancedCode::new(4, 3, 0), "the message cannot be read here at the moment");
        Self { taken: false, reply, said_by_server: false, relay: None, notifies: false }
    }
}

/// One finding for each recipient of the envelope.
pub(super) fn attempt_outcomes(outcome: &Outcome, relay: &str, notifies: bool) -> Vec<AttemptOutcome> {
    let attempt_outcome = |recipient_outcome: RecipientOutcome<'_>| {
        let (taken, reply, said_by_server) = match recipient_outcome {
            RecipientOutcome::Accepted(reply) => (true, from_wire(reply), true),
            RecipientOutcome::Refused(reply) => (false, from_wire(reply), true),
            RecipientOutcome::Failed(failure) => (false, lost(failure, relay, "before the message was taken"), false),
            RecipientOutcome::Unknown(failure) => {
                (false, lost(failure, relay, "before the message was answered: it may have been delivered"), false)
            }
        };
        AttemptOutcome { taken, reply, said_by_server, relay: Some(relay.to_owned()), notifies }
    };
    outcome.recipient_outcomes().map(attempt_outcome).collect()
}

/// A connection that ended is no word on the message, so it is never the last one.
fn lost(failure: &Failure, relay: &str, when: &str) -> Reply {
    let text = one_line(&format!("the connection to {relay} ended {when} ({failure})"));
    Reply::new(421, EnhancedCode::new(4, 4, 2), text)
}

/// What a finding leads to.
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

/// Whether the sender gets a notice of a delay now: once for a message, and unless NOTIFY excludes it. RFC 3461 section 4.1 leaves
/// the default without NOTIFY to the server.
fn delay_is_due(
    message: &QueuedMessage,
    recipient: &QueuedRecipient,
    settings: &DeliveryAgentSettings,
    now: Timestamp,
) -> bool {
    let wanted = message.sender.is_some() && recipient.notify.is_none_or(|notify| notify.delay);
    wanted && now.since(message.accepted_at) >= settings.delay_notice_after
}

/// RFC 3463 section 3.5, X.4.7.
fn expired(last: &Reply) -> Reply {
    let text = format!("the message could not be delivered in time; the last answer was: {last}");
    Reply::new(554, EnhancedCode::new(5, 4, 7), text)
}
