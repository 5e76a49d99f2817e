//! The domains that mail may be sent from, each with what signs its mail.

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{SignError, SignOutgoing};
use mailapi_model::{DomainName, Octets};

use crate::cache::EpochCache;
use crate::mail::Signer;
use crate::{Service, Unavailable};

/// Sending domains by name; `None` is one that may not send.
pub(crate) type SendingDomains = EpochCache<DomainName, Option<Arc<SendingDomain>>>;

/// An active domain.
pub(crate) struct SendingDomain {
    signer: Option<Signer>,
}

impl SendingDomain {
    /// `message` with its DKIM signature in front; as it is when the domain has no key.
    pub(crate) fn sign(&self, mut message: Vec<u8>) -> Result<Vec<u8>, Unavailable> {
        let Some(signer) = &self.signer else { return Ok(message) };
        let header = signer.header_for(&message).map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        // In its place: a large message is not held twice.
        message.reserve_exact(header.len());
        message.splice(0..0, header.into_bytes());
        Ok(message)
    }
}

impl Service {
    /// The domain, when it is one of ours and active.
    pub(crate) async fn sending_domain(&self, name: &DomainName) -> Result<Option<Arc<SendingDomain>>, Unavailable> {
        let mark = self.0.epoch.mark();
        if let Some(known) = self.0.sending_domains.get(name, mark) {
            return Ok(known);
        }
        let found = self.read_sending_domain(name).await?;
        self.0.sending_domains.put(name.clone(), mark, found.clone());
        Ok(found)
    }

    async fn read_sending_domain(&self, name: &DomainName) -> Result<Option<Arc<SendingDomain>>, Unavailable> {
        let active = self.0.store.domains().get(name).await?.is_some_and(|domain| domain.active);
        if !active {
            return Ok(None);
        }
        let key = self.0.store.dkim_keys().current(name).await?;
        let signer = key.map(|key| Signer::new(name, &key)).transpose();
        let signer = signer.map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        Ok(Some(Arc::new(SendingDomain { signer })))
    }
}

#[async_trait]
impl SignOutgoing for Service {
    async fn sign(&self, from: &DomainName, message: Octets) -> Result<Octets, SignError> {
        let unavailable = |error: Unavailable| {
            tracing::error!(domain = %from, %error, "a message could not be signed");
            SignError::Unavailable
        };
        let domain = self.sending_domain(from).await.map_err(unavailable)?.ok_or(SignError::NotAllowed)?;
        let message = message.to_bytes().map_err(|error| unavailable(Unavailable::Unforeseen(error.to_string())))?;
        domain.sign(message.into()).map(Octets::from).map_err(unavailable)
    }
}
