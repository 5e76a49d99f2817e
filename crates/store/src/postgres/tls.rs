//! TLS for server connections.

use std::path::Path;
use std::sync::Arc;

use mailapi_tls::client_config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::Trust;
use crate::StoreError;

/// Returns a TLS connector for this level of trust.
pub(super) fn connector(trust: &Trust) -> Result<MakeRustlsConnect, StoreError> {
    let trust = match trust {
        Trust::Any => mailapi_tls::Trust::Anybody,
        Trust::Verified(None) => mailapi_tls::Trust::System,
        Trust::Verified(Some(file)) => mailapi_tls::Trust::Authorities(authorities(file)?),
    };
    let config = client_config(&trust).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(MakeRustlsConnect::new(Arc::unwrap_or_clone(config)))
}

fn authorities(file: &Path) -> Result<Vec<u8>, StoreError> {
    let unreadable = |error| {
        StoreError::Unavailable(format!("cannot read certificate authorities from {}: {error}", file.display()))
    };
    std::fs::read(file).map_err(unreadable)
}
