//! The domains that may send mail, with their DKIM signers.

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{SignError, SignOutgoing};
use mailapi_model::{Blob, DomainName};

use crate::cache::EpochCache;
use crate::mail::{LONG_WORK_BYTES, Signer};
use crate::{Service, Unavailable};

/// Sending domains by name; `None` for a domain that may not send.
pub(crate) type SendingDomains = EpochCache<DomainName, Option<Arc<SendingDomain>>>;

/// An active domain.
pub(crate) struct SendingDomain {
    /// One for each key that signs.
    signers: Vec<Signer>,
}

impl SendingDomain {
    /// Prepends the DKIM signatures to `message`, one for each key. Blocks unless the message is in memory.
    pub(crate) fn sign(&self, message: Blob) -> Result<Blob, Unavailable> {
        if self.signers.is_empty() {
            return Ok(message);
        }
        let headers: Result<String, _> = self.signers.iter().map(|signer| signer.header_for(&message)).collect();
        let header = headers.map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        match message.in_memory() {
            // One contiguous buffer is faster to read than two joined ones.
            Some(bytes) => Ok([header.as_bytes(), bytes].concat().into()),
            None => Ok(Blob::joined([header.into_bytes().into(), message])),
        }
    }
}

impl Service {
    /// Returns the domain if it is local and active.
    pub(crate) async fn sending_domain(&self, name: &DomainName) -> Result<Option<Arc<SendingDomain>>, Unavailable> {
        let read = async || self.read_sending_domain(name).await;
        self.0.sending_domains.get_or_read(&self.0.epoch, name, read).await
    }

    async fn read_sending_domain(&self, name: &DomainName) -> Result<Option<Arc<SendingDomain>>, Unavailable> {
        let active = self.0.store.domains().get(name).await?.is_some_and(|domain| domain.active);
        if !active {
            return Ok(None);
        }
        let keys = self.0.store.dkim_keys().signing(name).await?;
        let signers = keys.iter().map(|key| Signer::new(name, key)).collect::<Result<_, _>>();
        let signers = signers.map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        Ok(Some(Arc::new(SendingDomain { signers })))
    }
}

#[async_trait]
impl SignOutgoing for Service {
    async fn sign(&self, from: &DomainName, message: Blob) -> Result<Blob, SignError> {
        let unavailable = |error: Unavailable| {
            tracing::error!(domain = %from, %error, "could not sign a message");
            SignError::Unavailable
        };
        let domain = self.sending_domain(from).await.map_err(unavailable)?.ok_or(SignError::NotAllowed)?;
        let signed = match message.in_memory() {
            Some(bytes) if bytes.len() <= LONG_WORK_BYTES => domain.sign(message),
            _ => tokio::task::spawn_blocking(move || domain.sign(message))
                .await
                .unwrap_or_else(|error| Err(Unavailable::Unforeseen(error.to_string()))),
        };
        signed.map_err(unavailable)
    }
}
