//! Answers to the challenges by which a certificate authority checks that this server has its names (RFC 8555 section
//! 8). An authority issues the certificate; the listeners answer here.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::TlsError;

/// The protocol of a connection that checks a name (RFC 8737 section 6.2). It carries no data.
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The challenges that wait for an answer. Clones share them.
#[derive(Clone, Default)]
pub struct Challenges(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    /// Bodies of answers over HTTP, by token.
    texts: HashMap<String, String>,
    /// Certificates of answers over TLS, by name.
    certificates: HashMap<String, Arc<CertifiedKey>>,
}

/// An answer, given until this value is dropped.
#[derive(Debug)]
#[must_use = "the answer ends when this value is dropped"]
pub struct OpenChallenge {
    challenges: Challenges,
    /// The token or the name.
    key: String,
}

impl Challenges {
    /// Returns the body of the answer over HTTP to a token (RFC 8555 section 8.3).
    #[must_use]
    pub fn text(&self, token: &str) -> Option<String> {
        self.open().texts.get(token).cloned()
    }

    /// Answers a token over HTTP.
    pub fn answer_over_http(&self, token: &str, text: String) -> OpenChallenge {
        self.open().texts.insert(token.to_owned(), text);
        OpenChallenge { challenges: self.clone(), key: token.to_owned() }
    }

    /// Answers over TLS, for a name, with a certificate that proves the key of the account (RFC 8737 section 3).
    ///
    /// # Errors
    /// If the key cannot be used.
    pub fn answer_over_tls(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<OpenChallenge, TlsError> {
        let key = aws_lc_rs::default_provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| TlsError::new(error.to_string()))?;
        // Not compared: rustls does not read a certificate with the critical extension of a challenge.
        let answer = CertifiedKey::new(vec![certificate], key);
        self.open().certificates.insert(name.to_owned(), Arc::new(answer));
        Ok(OpenChallenge { challenges: self.clone(), key: name.to_owned() })
    }

    /// Returns the certificate of the answer over TLS for a name.
    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.open().certificates.get(name).cloned()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenChallenge {
    fn drop(&mut self) {
        let mut open = self.challenges.open();
        open.texts.remove(&self.key);
        open.certificates.remove(&self.key);
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Challenges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_while_its_check_is_open() {
        let challenges = Challenges::default();
        assert_eq!(challenges.text("token"), None);
        let open = challenges.answer_over_http("token", "token.thumbprint".to_owned());
        assert_eq!(challenges.clone().text("token").as_deref(), Some("token.thumbprint"));
        assert_eq!(challenges.text("other"), None);
        drop(open);
        assert_eq!(challenges.text("token"), None);
    }
}
