//! The rule of the statuses, as SQL.
//!
//! `mailapi_model` says what the rule is (`RecipientStatus::after`, `overall`); here it stands as guarded updates, so
//! that an event and the end of a submission may arrive in either order, on different machines. A property test holds
//! the two together.

use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, MessageId, Outcome, QueueId, Reply, Scope, Timestamp};

use crate::db::Stmt;

/// The rows of one recipient of the message `$1`.
const OF_RECIPIENT: &str = "sent_id = (SELECT id FROM sent_messages WHERE message_id = $1) AND email = $2";

/// No list: SQLite builds a table of its own for one, each time.
const OPEN: &str = "(status = 'pending' OR status = 'submitted' OR status = 'deferred')";

/// Takes the lock of the message's row, so that two writers compute the overall status one after the other.
pub(crate) fn lock(message_id: MessageId) -> Stmt {
    let sql = "UPDATE sent_messages SET recipient_count = recipient_count WHERE message_id = $1";
    Stmt::new(sql).bind(message_id).locking()
}

/// Moves one recipient by one event; touches no row when the event changes nothing.
pub(crate) fn after_event(message_id: MessageId, event: &DeliveryEvent) -> Stmt {
    let statement = |change: &str, from: &str| {
        let sql = format!("UPDATE sent_recipients SET {change}, dsn = $3, last_attempt_at = $4 WHERE {OF_RECIPIENT}");
        let statement = Stmt::new(format!("{sql} AND ({from})")).bind(message_id).bind(&event.recipient);
        statement.bind(event.dsn).bind(event.at)
    };
    let response = event.response.as_str();
    match event.outcome {
        Outcome::Sent => statement("status = 'sent', smtp_response = NULL, delivered_at = $4", OPEN),
        Outcome::Deferred => {
            statement("status = 'deferred', smtp_response = $5, attempts = attempts + 1", OPEN).bind(response)
        }
        Outcome::Bounced | Outcome::Expired if event.scope() == Scope::Member => part_bounced(message_id, event),
        Outcome::Bounced | Outcome::Expired => {
            let from = match event.evidence {
                Evidence::ReturnedMail => format!("{OPEN} OR status = 'sent'"),
                Evidence::MailServer => OPEN.to_owned(),
            };
            statement("status = 'bounced', smtp_response = $5, bounced_at = $4", &from).bind(response)
        }
        Outcome::Failed => statement("status = 'failed', smtp_response = $5", OPEN).bind(response),
    }
}

/// Notes that an address behind a recipient failed, which changes no status. The newest of several is kept, whichever is
/// told first.
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

/// Notes that the mail server took the message: whoever is still pending is on the way now.
pub(crate) fn after_submission(message_id: MessageId) -> Stmt {
    Stmt::new(
        "UPDATE sent_recipients SET status = 'submitted' \
         WHERE sent_id = (SELECT id FROM sent_messages WHERE message_id = $1) AND status = 'pending'",
    )
    .bind(message_id)
}

/// Records that the mail server refused one recipient, permanently or temporarily.
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

/// Notes that the mail server did not take the message: nobody who is still pending will get it.
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

/// The overall status of a message, from its recipients (`mailapi_model::overall`).
const OVERALL: &str = "(SELECT CASE \
    WHEN COUNT(*) = SUM(CASE WHEN status = 'pending' THEN 1 ELSE 0 END) THEN 'pending' \
    WHEN SUM(CASE WHEN status = 'pending' OR status = 'submitted' OR status = 'deferred' THEN 1 ELSE 0 END) > 0 \
        THEN 'submitted' \
    WHEN COUNT(*) = SUM(CASE WHEN status = 'sent' THEN 1 ELSE 0 END) THEN 'sent' \
    WHEN SUM(CASE WHEN status = 'sent' THEN 1 ELSE 0 END) > 0 THEN 'partial' \
    WHEN SUM(CASE WHEN status = 'failed' THEN 1 ELSE 0 END) > 0 THEN 'failed' \
    ELSE 'bounced' END \
    FROM sent_recipients WHERE sent_id = sent_messages.id)";

/// Notes under which name the mail server took the message, and the overall status that follows from its recipients, in
/// one pass over the row. What was noted earlier stays.
pub(crate) fn note_submitted(message_id: MessageId, queue_id: &QueueId, at: Timestamp) -> Stmt {
    Stmt::new(format!(
        "UPDATE sent_messages SET queue_id = COALESCE(queue_id, $2), submitted_at = COALESCE(submitted_at, $3), \
         status = {OVERALL} WHERE message_id = $1"
    ))
    .bind(message_id)
    .bind(queue_id)
    .bind(at)
}

/// Computes the message's overall status from its recipients; touches no row when it stays. To compute it twice costs
/// less than the tables that SQLite fills for an update from a query.
pub(crate) fn recompute(message_id: MessageId) -> Stmt {
    Stmt::new(format!("UPDATE sent_messages SET status = {OVERALL} WHERE message_id = $1 AND status <> {OVERALL}"))
        .bind(message_id)
}
