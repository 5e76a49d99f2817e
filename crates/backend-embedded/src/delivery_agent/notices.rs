//! Composes the sender's notices about a delivery attempt (RFC 3461 section 5.2).

use std::collections::HashSet;

use mailapi_model::{EmailAddress, MessageId, Reply};
use mailapi_smtp::{Notify, Ret};

use super::Inner;
use super::attempt_outcome::AttemptOutcome;
use crate::accept::{AcceptError, Incoming, Prepared, Relaying};
use crate::dsn::{self, Action, RecipientOutcome, Report, Returned};
use crate::queue::{Attempt, Notice, QueuedMessage, QueuedRecipient};

/// A recipient with the attempt's result. `attempt_outcome` is `None` for a local delivery.
pub(super) struct Tried<'a> {
    pub(super) recipient: &'a QueuedRecipient,
    pub(super) attempt_outcome: Option<&'a AttemptOutcome>,
    pub(super) attempt: &'a Attempt,
}

/// Failure to create a notice.
#[derive(Debug, thiserror::Error)]
enum NoNotice {
    #[error(transparent)]
    Compose(#[from] dsn::ComposeError),
    #[error(transparent)]
    Prepare(#[from] AcceptError),
}

impl Inner {
    /// Returns the notices about an attempt, prepared for the transaction that records it. `bytes` is the
    /// message as received, or its beginning. A notice that cannot be created is skipped, because the result
    /// must be recorded anyway.
    pub(super) async fn notices(&self, message: &QueuedMessage, tried: &[Tried<'_>], bytes: &[u8]) -> Vec<Notice> {
        // Notices themselves are never reported (RFC 5321 section 6.1).
        let Some(sender) = &message.sender else { return Vec::new() };
        // A sender here did not submit mail that came from outside. Mail with such a forged sender could make this server
        // send notices about its forwarding to the mailbox.
        let is_forged = message.from_outside && self.is_here(sender).await;
        let is_answered = |tried: &&Tried<'_>| !(is_forged && tried.recipient.forwarded_by.is_some());
        let mut notices = Vec::new();
        for action in [Action::Failed, Action::Delayed, Action::Relayed, Action::Delivered] {
            let of_action = tried.iter().filter(is_answered).filter(|tried| action_for(tried) == Some(action));
            for (of_alias, about) in reports(of_action.collect(), action) {
                let recipients = about.iter().map(|tried| outcome(tried, message)).collect();
                match self.notice(message, sender, action, recipients, bytes).await {
                    Ok(mail) => notices.push(Notice { mail, of_delay: action == Action::Delayed, of_alias }),
                    Err(error) => {
                        tracing::error!(queue_id = %message.queue_id, %error, "notice to the sender could not be composed; it is skipped")
                    }
                }
            }
        }
        notices
    }

    async fn notice(
        &self,
        message: &QueuedMessage,
        sender: &EmailAddress,
        action: Action,
        recipients: Vec<RecipientOutcome<'_>>,
        bytes: &[u8],
    ) -> Result<Prepared, NoNotice> {
        let message_store = &self.message_store;
        let now = message_store.clock().now();
        let report = Report {
            hostname: &self.hostname,
            queue_id: &message.queue_id,
            arrived_at: message.accepted_at,
            envelope_id: message.envid.as_deref(),
            sender,
            action,
            recipients,
            returned: self.returned(message, action, bytes),
            id: MessageId::random(now, message_store.entropy()),
            now,
        };
        let composed = dsn::compose(&report)?;
        let notice = Incoming::new(None, [sender.clone()], composed, now, Relaying::Allowed);
        Ok(message_store.prepare(notice).await?)
    }

    /// Returns the returned part of the message. The whole message is returned only with a failure, on
    /// request and if it is not too long (RFC 3461 section 6.2).
    fn returned<'a>(&self, message: &QueuedMessage, action: Action, bytes: &'a [u8]) -> Returned<'a> {
        let whole = bytes.len() as u64 == message.layout.size - message.layout.return_path_len;
        let short = message.layout.size <= self.settings.max_returned_message_bytes;
        if action == Action::Failed && message.ret == Some(Ret::Full) && whole && short {
            return Returned::Message(bytes);
        }
        Returned::Headers(&bytes[dsn::header_block(bytes, self.settings.max_returned_header_bytes)])
    }
}

/// Divides what a notice reports. It names each alias once, whatever the number of its members. A failure of an alias has
/// its own notice: whether it is the first one is decided when it is recorded.
fn reports<'a>(tried: Vec<&'a Tried<'a>>, action: Action) -> Vec<(Option<EmailAddress>, Vec<&'a Tried<'a>>)> {
    let mut named = HashSet::new();
    let mut once = tried;
    once.retain(|tried| named.insert(tried.recipient.named()));
    let is_of_alias = |tried: &&Tried<'_>| action == Action::Failed && tried.recipient.forwarded_by.is_some();
    let (of_aliases, together): (Vec<_>, Vec<_>) = once.into_iter().partition(is_of_alias);
    let of_alias = |tried: &'a Tried<'a>| (tried.recipient.forwarded_by.clone(), vec![tried]);
    let mut reports: Vec<_> = of_aliases.into_iter().map(of_alias).collect();
    if !together.is_empty() {
        reports.push((None, together));
    }
    reports
}

/// Returns whether the sender gets any notice.
pub(super) fn wants_notice(message: &QueuedMessage, tried: &[Tried<'_>]) -> bool {
    message.sender.is_some() && tried.iter().any(|tried| action_for(tried).is_some())
}

/// Returns the notice for the sender, if any. Without NOTIFY, failures and delays are reported.
fn action_for(tried: &Tried<'_>) -> Option<Action> {
    let notify = tried.recipient.notify;
    let wants = |which: fn(Notify) -> bool| notify.is_some_and(which);
    match tried.attempt {
        Attempt::Bounced { .. } | Attempt::Expired { .. } if tried.recipient.failure_notified => None,
        Attempt::Bounced { .. } | Attempt::Expired { .. } => {
            notify.is_none_or(|notify| notify.failure).then_some(Action::Failed)
        }
        Attempt::Deferred { delay_notified, .. } => {
            (*delay_notified && !tried.recipient.delay_notified).then_some(Action::Delayed)
        }
        Attempt::Delivered { .. } => {
            // A server with DSN reports the delivery itself (RFC 3461 section 5.2).
            let others_will = tried.attempt_outcome.is_some_and(|attempt_outcome| attempt_outcome.notifies);
            (wants(|notify| notify.success) && !others_will).then_some(Action::Relayed)
        }
        Attempt::Notified => Some(Action::Delivered),
    }
}

/// Returns what a notice says about a member: the codes, with a text of our own, because the next server's reply may name
/// the member. So may the name of that server.
fn of_member<'a>(outcome: RecipientOutcome<'a>, attempt: &Attempt) -> RecipientOutcome<'a> {
    let text = match attempt {
        Attempt::Expired { .. } => "A member of the alias: the message could not be delivered in time",
        Attempt::Deferred { .. } => "A member of the alias: the message could not be delivered yet",
        _ => "A member of the alias: the message could not be delivered",
    };
    let reply = outcome.reply.map(|reply| Reply { text: text.to_owned(), ..reply });
    RecipientOutcome { reply, relay: None, said_before: None, ..outcome }
}

fn outcome<'a>(tried: &Tried<'a>, message: &QueuedMessage) -> RecipientOutcome<'a> {
    let outcome = as_answered(tried, message);
    if tried.recipient.forwarded_by.is_some() { of_member(outcome, tried.attempt) } else { outcome }
}

fn as_answered<'a>(tried: &Tried<'a>, message: &QueuedMessage) -> RecipientOutcome<'a> {
    let attempt_outcome = tried.attempt_outcome;
    let reply = match tried.attempt {
        Attempt::Expired { reply, .. } => Some(reply.clone()),
        _ => attempt_outcome.map(|attempt_outcome| attempt_outcome.reply.clone()),
    };
    let said = attempt_outcome.filter(|attempt_outcome| attempt_outcome.said_by_server);
    let expired = matches!(tried.attempt, Attempt::Expired { .. });
    let delayed = matches!(tried.attempt, Attempt::Deferred { .. });
    RecipientOutcome {
        // The sender does not know the members of an alias.
        recipient: tried.recipient.named(),
        original: tried.recipient.orcpt.as_deref(),
        reply,
        relay: said.and_then(|attempt_outcome| attempt_outcome.relay.as_deref()),
        said_before: said.filter(|_| expired).map(|attempt_outcome| attempt_outcome.reply.clone()),
        will_retry_until: delayed.then_some(message.expires_at),
    }
}
