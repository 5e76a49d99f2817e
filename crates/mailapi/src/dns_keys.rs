//! Publishes the keys of the listeners' certificate for other servers (DANE).

use async_trait::async_trait;
use mailapi_acme::{AcmeSettings, KeyRecords, key_digests};
use mailapi_model::{KeyDigests, KeyPublication};
use mailapi_service::Service;
use mailapi_service::domains::ServerKeys;

/// Reads the keys from the files of the orders, so that the server and commands know the same ones.
#[derive(Debug)]
pub(crate) struct OrderedKeys(pub(crate) AcmeSettings);

impl ServerKeys for OrderedKeys {
    fn digests(&self) -> Option<KeyDigests> {
        key_digests(&self.0).unwrap_or_else(|error| {
            tracing::warn!(%error, "the keys of the certificate could not be read");
            None
        })
    }
}

/// Keeps the records by the operations of the service.
pub(crate) struct DnsKeyRecords(pub(crate) Service);

#[async_trait]
impl KeyRecords for DnsKeyRecords {
    async fn keep(&self) -> KeyPublication {
        self.0.keep_server_keys().await
    }
}
