//! Messages that the mail server took and threw away, by a rule of its operator.

use std::time::Duration;

use mailapi_backend::Discarded;
use mailapi_model::{DeliveryEvent, EmailAddress, Evidence, Outcome, RecipientStatus};
use mailapi_store::SentRecord;

use crate::{Service, Unavailable};

impl Service {
    /// That nobody gets these messages: a bounce for each recipient for whom one is still open.
    ///
    /// # Errors
    /// [`Unavailable`] when the account database is.
    pub(super) async fn bounces_of_discarded(
        &self,
        discarded: Vec<Discarded>,
        told: &[DeliveryEvent],
    ) -> Result<Vec<DeliveryEvent>, Unavailable> {
        let mut bounces = Vec::new();
        for one in discarded {
            let record = self.0.store.sent().get(one.message_id).await?;
            let record = record.filter(|record| is_the_original(&one, record));
            bounces.extend(record.map(|record| bounced(&one, &record, told)));
        }
        Ok(bounces.into_iter().flatten().collect())
    }
}

/// Whether it is the message that we handed over, and no copy of it. The reply to it named its queue id. Until that is
/// stored the feed is believed, which reports nothing of what it knows to be a copy, as long as nothing was heard of any
/// recipient: whoever can send a copy of another kind has got the message.
fn is_the_original(one: &Discarded, record: &SentRecord) -> bool {
    match &record.message.queue_id {
        Some(queue_id) => *queue_id == one.queue_id,
        None => record.recipients.iter().all(|recipient| recipient.status == RecipientStatus::Pending),
    }
}

/// A bounce for each recipient for whom the message is open. Whom the mail server had refused is stored together with the
/// queue id; until then only the report tells of them.
fn bounced(one: &Discarded, record: &SentRecord, told: &[DeliveryEvent]) -> Vec<DeliveryEvent> {
    // The same batch may have the final event of some of them, which is not stored yet.
    let has_ended = |email: &EmailAddress| {
        let is_about = |event: &&DeliveryEvent| event.message_id == Some(one.message_id) && event.recipient == *email;
        told.iter().filter(is_about).any(|event| match event.outcome {
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
    };
    open.map(|known| bounce(&known.email)).collect()
}
