//! Lets the certificate authority check names by records in DNS, through the DNS providers of domains.

use async_trait::async_trait;
use mailapi_acme::ChallengeRecords;
use mailapi_service::Service;

/// Publishes the records by the operations of the service.
pub(crate) struct DnsChallenges(pub(crate) Service);

#[async_trait]
impl ChallengeRecords for DnsChallenges {
    async fn can_publish(&self, names: &[String]) -> bool {
        self.0.can_publish_challenges(names).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the DNS providers of domains could not be read; names are checked otherwise");
            false
        })
    }

    async fn publish(&self, name: &str, text: &str) -> Result<(), String> {
        self.0.publish_challenge(name, text).await.map_err(|error| error.to_string())
    }

    async fn withdraw(&self, name: &str, text: &str) {
        if let Err(error) = self.0.withdraw_challenge(name, text).await {
            tracing::warn!(name, %error, "the record for the certificate authority stays; remove it by hand");
        }
    }
}
