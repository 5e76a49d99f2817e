//! Messages that the mail server accepted and then discarded, by a rule of its operator.

use std::time::Duration;

use mailapi_backend::Discarded;
use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, Outcome, RecipientStatus};
use mailapi_store::SentRecord;

use crate::{Service, Unavailable};

impl Service {
    /// Creates a bounce for each open recipient of the discarded messages.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is.
    pub(super) async fn bounces_of_discarded(
        &self,
        discarded: Vec<Discarded>,
        reported: &[DeliveryEvent],
    ) -> Result<Vec<DeliveryEvent>, Unavailable> {
        let mut bounces = Vec::new();
        for one in discarded {
            let record = self.0.store.sent().get(one.message_id).await?;
            let record = record.filter(|record| is_the_original(&one, record));
            bounces.extend(record.map(|record| bounced(&one, &record, reported)));
        }
        Ok(bounces.into_iter().flatten().collect())
    }
}

/// Whether the report concerns the submitted message and not a copy of it. The queue id of the submission decides.
///
/// Before the queue id is stored, the feed is trusted while all recipients are pending. The feed omits known copies,
/// and an unknown copy can come only from a recipient that received the message.
fn is_the_original(one: &Discarded, record: &SentRecord) -> bool {
    match &record.message.queue_id {
        Some(queue_id) => *queue_id == one.queue_id,
        None => record.recipients.iter().all(|recipient| recipient.status == RecipientStatus::Pending),
    }
}

/// Creates a bounce for each open recipient. Refused recipients are stored together with the queue id; until then
/// only the report names them.
fn bounced(one: &Discarded, record: &SentRecord, reported: &[DeliveryEvent]) -> Vec<DeliveryEvent> {
    // The same batch may contain their final events, which are not stored yet.
    let has_ended = |email: &EmailAddress| {
        let is_about = |event: &&DeliveryEvent| event.message_id == Some(one.message_id) && event.recipient == *email;
        reported.iter().filter(is_about).any(|event| match event.outcome {
            Outcome::Sent | Outcome::Failed => true,
            Outcome::Deferred => false,
            Outcome::Bounced | Outcome::Expired => event.final_recipient.is_none(),
        })
    };
    let is_refused = |email: &EmailAddress| record.message.queue_id.is_none() && one.refused.contains(email);
    let open = record
        .recipients
        .iter()
        .filter(|known| known.status.is_open() && !is_refused(&known.email) && !has_ended(&known.email));
    let bounce = |recipient: &EmailAddress| DeliveryEvent {
        at: one.at,
        message_id: Some(one.message_id),
        queue_id: one.queue_id.clone(),
        sender: Some(record.message.from.clone()),
        recipient: recipient.clone(),
        final_recipient: None,
        outcome: Outcome::Bounced,
        evidence: Evidence::MailServer,
        dsn: None,
        response: one.response.clone(),
        relay: None,
        delay: Duration::ZERO,
        next_attempt_at: None,
    };
    open.map(|known| bounce(&known.email)).collect()
}
