//! The status rules, as SQL.
//!
//! `mailapi_model` defines them (`RecipientStatus::after`, `overall`); here they are guarded updates, so that
//! an event and the end of a submission may arrive in either order, on different machines. A property test
//! checks that both agree.

use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, MessageId, Outcome, QueueId, Reply, Scope, Timestamp};

use crate::db::Stmt;

/// The row of one recipient of the message `$1`.
const OF_RECIPIENT: &str = "sent_id = (SELECT id FROM sent_messages WHERE message_id = $1) AND email = $2";

/// A recipient whose submission has no outcome yet.
pub(crate) const PENDING: &str = "status = 'pending'";

/// A recipient without a final status. OR instead of IN: SQLite builds a temporary table for a list each time.
pub(crate) const OPEN: &str = "(status = 'pending' OR status = 'submitted' OR status = 'deferred')";

/// A recipient that can still bounce by returned mail.
const OPEN_OR_SENT: &str = "(status = 'pending' OR status = 'submitted' OR status = 'deferred' OR status = 'sent')";

/// Locks the message's row, so that two writers compute the overall status one after the other.
pub(crate) fn lock(message_id: MessageId) -> Stmt {
    let sql = "UPDATE sent_messages SET recipient_count = recipient_count WHERE message_id = $1";
    Stmt::new(sql).bind(message_id).locking()
}

/// Returns which statuses of its recipient the event changes, as a condition; `None` if it changes no status.
pub(crate) const fn changes_from(event: &DeliveryEvent) -> Option<&'static str> {
    match (event.outcome, event.scope(), event.evidence) {
        // Other addresses of the recipient may still receive the message.
        (Outcome::Bounced | Outcome::Expired, Scope::Member, _) => None,
        // Only returned mail can report a bounce after the next server accepted the message.
        (Outcome::Bounced | Outcome::Expired, Scope::Recipient, Evidence::ReturnedMail) => Some(OPEN_OR_SENT),
        _ => Some(OPEN),
    }
}

/// Applies one event to a recipient; touches no row if the event changes nothing.
pub(crate) fn after_event(message_id: MessageId, event: &DeliveryEvent) -> Stmt {
    let Some(from) = changes_from(event) else { return part_bounced(message_id, event) };
    let statement = |change: &str| {
        let sql = format!("UPDATE sent_recipients SET {change}, dsn = $3, last_attempt_at = $4 WHERE {OF_RECIPIENT}");
        let statement = Stmt::new(format!("{sql} AND {from}")).bind(message_id).bind(&event.recipient);
        statement.bind(event.dsn).bind(event.at)
    };
    let response = event.response.as_str();
    match event.outcome {
        Outcome::Sent => statement("status = 'sent', smtp_response = NULL, delivered_at = $4"),
        Outcome::Deferred => {
            statement("status = 'deferred', smtp_response = $5, attempts = attempts + 1").bind(response)
        }
        Outcome::Bounced | Outcome::Expired => {
            statement("status = 'bounced', smtp_response = $5, bounced_at = $4").bind(response)
        }
        Outcome::Failed => statement("status = 'failed', smtp_response = $5").bind(response),
    }
}

/// Records that an address that the recipient expanded to bounced, which changes no status. Of several such
/// events the newest is kept, in whatever order they arrive.
fn part_bounced(message_id: MessageId, event: &DeliveryEvent) -> Stmt {
    Stmt::new(format!(
        "UPDATE sent_recipients SET partly_bounced_at = $3, partly_bounced_response = $4 \
         WHERE {OF_RECIPIENT} AND status NOT IN ('bounced', 'failed') \
         AND (partly_bounced_at IS NULL OR partly_bounced_at <= $3)"
    ))
    .bind(message_id)
    .bind(&event.recipient)
    .bind(event.at)
    .bind(event.response.as_str())
}

/// Records that the mail server accepted the message: pending recipients become submitted.
pub(crate) fn after_submission(message_id: MessageId) -> Stmt {
    Stmt::new(
        "UPDATE sent_recipients SET status = 'submitted' \
         WHERE sent_id = (SELECT id FROM sent_messages WHERE message_id = $1) AND status = 'pending'",
    )
    .bind(message_id)
}

/// Records that the mail server rejected one recipient, permanently or temporarily.
pub(crate) fn after_refusal(message_id: MessageId, recipient: &EmailAddress, reply: &Reply, at: Timestamp) -> Stmt {
    let status = match Outcome::of_refusal(reply) {
        Outcome::Failed => "status = 'failed'",
        _ => "status = 'bounced', bounced_at = $5",
    };
    Stmt::new(format!(
        "UPDATE sent_recipients SET {status}, refused = TRUE, dsn = $3, smtp_response = $4, last_attempt_at = $5 \
         WHERE {OF_RECIPIENT} AND {OPEN}"
    ))
    .bind(message_id)
    .bind(recipient)
    .bind(reply.enhanced_or_class())
    .bind(reply.to_string())
    .bind(at)
}

/// Records that the mail server did not accept the message: pending recipients fail.
pub(crate) fn after_failure(message_id: MessageId, reason: &str, reply: Option<&Reply>, at: Timestamp) -> Stmt {
    Stmt::new(
        "UPDATE sent_recipients SET status = 'failed', refused = $2, dsn = $3, smtp_response = $4, \
         last_attempt_at = $5 \
         WHERE sent_id = (SELECT id FROM sent_messages WHERE message_id = $1) AND status = 'pending'",
    )
    .bind(message_id)
    .bind(reply.is_some())
    .bind(reply.and_then(Reply::enhanced_or_class))
    .bind(reply.map_or_else(|| reason.to_owned(), Reply::to_string))
    .bind(at)
}

/// The overall status of a message, computed from its recipients (`mailapi_model::overall`).
const OVERALL: &str = "(SELECT CASE \
    WHEN COUNT(*) = SUM(CASE WHEN status = 'pending' THEN 1 ELSE 0 END) THEN 'pending' \
    WHEN SUM(CASE WHEN status = 'pending' OR status = 'submitted' OR status = 'deferred' THEN 1 ELSE 0 END) > 0 \
        THEN 'submitted' \
    WHEN COUNT(*) = SUM(CASE WHEN status = 'sent' THEN 1 ELSE 0 END) THEN 'sent' \
    WHEN SUM(CASE WHEN status = 'sent' THEN 1 ELSE 0 END) > 0 THEN 'partial' \
    WHEN SUM(CASE WHEN status = 'failed' THEN 1 ELSE 0 END) > 0 THEN 'failed' \
    ELSE 'bounced' END \
    FROM sent_recipients WHERE sent_id = sent_messages.id)";

/// Records the queue id of the submitted message and its overall status, in one update of the row. Values
/// recorded earlier stay.
pub(crate) fn note_submitted(message_id: MessageId, queue_id: &QueueId, at: Timestamp) -> Stmt {
    Stmt::new(format!(
        "UPDATE sent_messages SET queue_id = COALESCE(queue_id, $2), submitted_at = COALESCE(submitted_at, $3), \
         status = {OVERALL} WHERE message_id = $1"
    ))
    .bind(message_id)
    .bind(queue_id)
    .bind(at)
}

/// Recomputes the message's overall status; touches no row if it is unchanged. Computing it twice costs less
/// than the temporary tables of an UPDATE from a query in SQLite.
pub(crate) fn recompute(message_id: MessageId) -> Stmt {
    Stmt::new(format!("UPDATE sent_messages SET status = {OVERALL} WHERE message_id = $1 AND status <> {OVERALL}"))
        .bind(message_id)
}
