//! Keys of certificates, and which of them a new certificate gets.
//!
//! Other servers may know this one by its key (RFC 7672). So there are always two keys, that of the certificate in use and the
//! next one, and a certificate gets the next one only when each name server has had its record for long enough (RFC 7671
//! section 8.1). Otherwise the key stays, with which no record has to change.

use mailapi_model::{KeyDigests, KeyPublication};
use mailapi_tls::{key_digest, key_digest_of};
use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::AcmeError;
use crate::files::Files;

/// A private key.
pub(crate) struct ServerKey(KeyPair);

impl ServerKey {
    pub(crate) fn generate() -> Result<Self, AcmeError> {
        Ok(Self(KeyPair::generate()?))
    }

    /// Reads the first key of a PEM text.
    fn from_pem(pem: &[u8]) -> Option<Self> {
        let der = PrivateKeyDer::from_pem_slice(pem).ok()?;
        KeyPair::try_from(&der).ok().map(Self)
    }

    pub(crate) const fn pair(&self) -> &KeyPair {
        &self.0
    }

    pub(crate) fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    fn digest(&self) -> [u8; 32] {
        key_digest(&self.0.subject_public_key_info())
    }
}

/// The next key, and since when all name servers have its record.
#[derive(Debug, Default)]
pub(crate) struct NextKey {
    /// In seconds since the Unix epoch, with the digest of the key.
    seen: Option<(i64, [u8; 32])>,
    /// Whether a new certificate may have it.
    is_safe: bool,
}

impl NextKey {
    /// Notes what DNS has.
    pub(crate) fn note(&mut self, publication: KeyPublication, files: &Files, now: i64) {
        let next = match files.next_key() {
            Ok(key) => key.digest(),
            Err(_) => return *self = Self::default(),
        };
        *self = match publication {
            KeyPublication::Absent => Self { seen: None, is_safe: true },
            KeyPublication::Open => Self::default(),
            KeyPublication::Complete { ttl } => {
                let since =
                    self.seen.filter(|(since, of)| *of == next && *since <= now).map_or(now, |(since, _)| since);
                // Twice, because a name server may have answered the former records just before.
                Self { seen: Some((since, next)), is_safe: now - since >= 2 * i64::from(ttl) }
            }
        };
    }

    /// Returns the key for a new certificate.
    pub(crate) fn choose(&self, files: &Files) -> Result<ServerKey, AcmeError> {
        if self.is_safe {
            return files.next_key();
        }
        match files.certificate()?.as_deref().and_then(ServerKey::from_pem) {
            Some(current) => {
                tracing::info!("the new certificate has the former key: the next one is not known to be in DNS");
                Ok(current)
            }
            None => {
                tracing::warn!("if there are TLSA records of this server, they are for another key: replace them");
                files.next_key()
            }
        }
    }
}

/// Returns the digests of the keys; `None` before the first certificate.
pub(crate) fn digests(files: &Files) -> Result<Option<KeyDigests>, AcmeError> {
    let (Some(certificate), Some(next)) = (files.certificate()?, files.stored_next_key()?) else { return Ok(None) };
    let Some(current) = digest_in(&certificate).filter(|current| *current != next.digest()) else { return Ok(None) };
    let former = files.former_key()?.filter(|former| *former != current);
    Ok(Some(KeyDigests { current, next: next.digest(), former }))
}

/// Returns the digest of the key of the first certificate in a PEM text.
pub(crate) fn digest_in(pem: &[u8]) -> Option<[u8; 32]> {
    key_digest_of(&CertificateDer::from_pem_slice(pem).ok()?)
}

impl Files {
    /// Returns the next key, and makes it if there is none, or if the certificate has it already.
    pub(crate) fn next_key(&self) -> Result<ServerKey, AcmeError> {
        let current = self.certificate()?.and_then(|certificate| digest_in(&certificate));
        if let Some(key) = self.stored_next_key()?.filter(|key| Some(key.digest()) != current) {
            return Ok(key);
        }
        let key = ServerKey::generate()?;
        self.write_next_key(&key.to_pem())?;
        Ok(key)
    }

    /// A damaged file is like none.
    fn stored_next_key(&self) -> Result<Option<ServerKey>, AcmeError> {
        Ok(self.next_key_pem()?.as_deref().and_then(ServerKey::from_pem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;
    const COMPLETE: KeyPublication = KeyPublication::Complete { ttl: 3600 };

    #[test]
    fn the_next_key_is_safe_after_two_lifetimes_of_answers() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::new(data.path(), "https://ca.example/dir");
        let mut next = NextKey::default();
        let mut noted = |publication, at| {
            next.note(publication, &files, at);
            next.is_safe
        };
        assert!(!noted(COMPLETE, 0) && !noted(COMPLETE, 2 * HOUR - 1) && noted(COMPLETE, 2 * HOUR));
        assert!(!noted(KeyPublication::Open, 3 * HOUR), "a name server does not answer");
        assert!(!noted(COMPLETE, 4 * HOUR) && noted(COMPLETE, 6 * HOUR));
        assert!(!noted(COMPLETE, 0), "the clock was set back");
        assert!(noted(KeyPublication::Absent, 0));
        // Another key has to wait from its beginning.
        assert!(!noted(COMPLETE, HOUR) && noted(COMPLETE, 3 * HOUR));
        files.write_next_key(&ServerKey::generate().unwrap().to_pem()).unwrap();
        assert!(!noted(COMPLETE, 4 * HOUR));
    }

    #[test]
    fn a_key_that_is_in_use_is_never_the_next_one() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::new(data.path(), "https://ca.example/dir");
        assert_eq!(digests(&files).unwrap(), None);
        let first = files.next_key().unwrap();
        assert_eq!(files.next_key().unwrap().digest(), first.digest());
        let certificate = rcgen::CertificateParams::new(["mx.example".to_owned()]).unwrap().self_signed(first.pair());
        files.write_certificate(&format!("{}{}", first.to_pem(), certificate.unwrap().pem())).unwrap();
        // As after a crash between both files.
        let second = files.next_key().unwrap().digest();
        assert_ne!(second, first.digest());
        let expected = KeyDigests { current: first.digest(), next: second, former: None };
        assert_eq!(digests(&files).unwrap(), Some(expected));
        files.write_former_key(&first.digest()).unwrap();
        assert_eq!(digests(&files).unwrap(), Some(expected), "a former key that is still in use");
        files.write_former_key(&[7; 32]).unwrap();
        assert_eq!(digests(&files).unwrap(), Some(KeyDigests { former: Some([7; 32]), ..expected }));
        assert_eq!(NextKey::default().choose(&files).unwrap().digest(), first.digest());
        assert_eq!(NextKey { seen: None, is_safe: true }.choose(&files).unwrap().digest(), second);
        files.write_next_key("torn").unwrap();
        assert_ne!(files.next_key().unwrap().digest(), second);
    }
}
