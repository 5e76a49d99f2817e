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
    ) -> Result<Vec<DeliveryEvent>, Unavailable> {
        let mut bounces = Vec::new();
        for one in discarded {
            let record = self.0.store.sent().get(one.message_id).await?;
            bounces.extend(record.filter(|record| is_the_original(&one, record)).map(|record| bounced(&one, &record)));
        }
        Ok(bounces.into_iter().flatten().collect())
    }
}

/// Whether it is the message that we handed over, and no copy of it. The reply to it named its queue id; as long as that
/// is not known and nothing was heard of any recipient, nobody can have a copy.
fn is_the_original(one: &Discarded, record: &SentRecord) -> bool {
    match &record.message.queue_id {
        Some(queue_id) => *queue_id == one.queue_id,
        None => record.recipients.iter().all(|recipient| recipient.status == RecipientStatus::Pending),
    }
}

fn bounced(one: &Discarded, record: &SentRecord) -> Vec<DeliveryEvent> {
    let of_message = |email: &_| !one.refused.contains(email);
    let open = record.recipients.iter().filter(|known| known.status.is_open() && of_message(&known.email));
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
