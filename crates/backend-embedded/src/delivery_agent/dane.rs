//! DANE: servers whose certificates DNS publishes (RFC 7672).

use std::sync::Arc;

use mailapi_backend::TlsaRecords;
use mailapi_model::{DomainName, EnhancedCode, Reply};
use mailapi_tls::{TlsAssociation, dane_config, dane_config_for_short_keys};
use rustls::ClientConfig;

use super::Inner;
use super::connect::NoLink;
use super::next_hop::not_resolved;
use super::tls_counts::TlsResult;

/// The TLS that the TLSA records of a server require.
pub(super) struct Dane {
    /// The name at which the records are.
    pub(super) base: String,
    /// Verifies the certificate by the records.
    pub(super) tls: Arc<ClientConfig>,
    /// The same for a short RSA key.
    pub(super) tls_for_short_keys: Option<Arc<ClientConfig>>,
    is_verified: bool,
}

impl Dane {
    /// Returns the result of a connection.
    pub(super) const fn success(&self) -> TlsResult {
        if self.is_verified { TlsResult::Verified } else { TlsResult::Unverified }
    }
}

impl Inner {
    /// Returns the TLS that the TLSA records of a server require; `None` without records. If the look-up fails, the server
    /// is not used: an attacker could have caused the failure (RFC 7672 section 2.1.2).
    pub(super) async fn dane_of(&self, host: &str, domain: &DomainName) -> Result<Option<Dane>, NoLink> {
        match self.dns.tlsa(host, self.settings.port).await {
            Ok(None) => Ok(None),
            Ok(Some(found)) => self.dane_by(found, host, domain).map(Some),
            Err(error) => {
                self.tls_counts.count(TlsResult::DnssecInvalid);
                let name = format!("the TLSA records of {host}");
                Err(NoLink::without_server(not_resolved(&error, &name)))
            }
        }
    }

    fn dane_by(&self, found: TlsaRecords, host: &str, domain: &DomainName) -> Result<Dane, NoLink> {
        let TlsaRecords { base, records } = found;
        let associations: Vec<_> = records
            .into_iter()
            .filter_map(|record| TlsAssociation::new(record.usage, record.selector, record.matching, record.data))
            .collect();
        if associations.is_empty() {
            // Unusable records still require TLS (RFC 7672 section 2.2).
            self.tls_counts.count(TlsResult::TlsaInvalid);
            return Ok(Dane { base, tls: Arc::clone(&self.any_tls), tls_for_short_keys: None, is_verified: false });
        }
        let names = [&base, host, domain.as_str()];
        let configs = dane_config(&associations, &names)
            .and_then(|tls| Ok((tls, dane_config_for_short_keys(&associations, &names)?)));
        match configs {
            Ok((tls, tls_for_short_keys)) => Ok(Dane { base, tls, tls_for_short_keys, is_verified: true }),
            Err(error) => {
                let text = format!("the DANE records of {host} cannot be used: {error}");
                Err(NoLink::without_server(Reply::new(451, EnhancedCode::new(4, 7, 5), text)))
            }
        }
    }
}
