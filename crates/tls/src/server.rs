//! TLS of the listeners: one certificate for all of them, which can be replaced while they run.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::is_self_issued;
use crate::challenges::{CHALLENGE_PROTOCOL, Challenges};
use crate::{TlsError, Validity};

/// The protocols of HTTPS in the server's order of preference, and that of challenges.
const HTTPS: [&[u8]; 3] = [b"h2", b"http/1.1", CHALLENGE_PROTOCOL];
/// The same without HTTP/2.
const HTTPS_1: [&[u8]; 2] = [b"http/1.1", CHALLENGE_PROTOCOL];

/// The certificate and key of all listeners, or the room for them. Clones share them, also after
/// [`ServerTls::replace`].
#[derive(Clone)]
pub struct ServerTls {
    shown: Arc<Shown>,
    mail: Arc<ServerConfig>,
    https: Arc<ServerConfig>,
    https_1: Arc<ServerConfig>,
}

#[derive(Default)]
struct Shown {
    certificate: RwLock<Option<Certificate>>,
    challenges: Challenges,
    /// Further certificates of HTTPS, by the host that the client names.
    hosts: RwLock<HashMap<String, Arc<Shown>>>,
}

/// The certificate in use.
struct Certificate {
    key: Arc<CertifiedKey>,
    validity: Option<Validity>,
}

impl ServerTls {
    /// Has no certificate yet: handshakes fail until [`ServerTls::replace`].
    #[must_use]
    pub fn empty() -> Self {
        let shown = Arc::new(Shown::default());
        let (mail, https) = (server_config(&shown, &[]), server_config(&shown, &HTTPS));
        let https_1 = server_config(&shown, &HTTPS_1);
        Self { shown, mail, https, https_1 }
    }

    /// Parses two PEM texts: the certificate chain, leaf first, and the private key.
    ///
    /// # Errors
    /// [`TlsError`] if one of them is missing or malformed, or they do not match.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let tls = Self::empty();
        tls.replace(certificates, key)?;
        Ok(tls)
    }

    /// Uses another certificate from the next handshake on. Connections that are already encrypted continue.
    ///
    /// # Errors
    /// Those of [`ServerTls::from_pem`]; the current certificate then stays in use.
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let certificate = Certificate::from_pem(certificates, key)?;
        *self.shown.certificate.write().unwrap_or_else(PoisonError::into_inner) = Some(certificate);
        Ok(())
    }

    /// Returns the room for a further certificate, which HTTPS shows to clients that name one of the hosts. The hosts of
    /// `former` no longer lead to that one. Until there is a certificate, they see that of the listeners.
    #[must_use]
    pub fn for_hosts(&self, hosts: &[String], former: Option<&Self>) -> Self {
        let shown = Arc::new(Shown { challenges: self.shown.challenges.clone(), ..Shown::default() });
        if let Some(former) = former {
            self.forget_hosts(former);
        }
        let mut known = self.shown.hosts.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(hosts.iter().map(|host| (host.clone(), Arc::clone(&shown))));
        let [mail, https, https_1] = [&self.mail, &self.https, &self.https_1].map(Arc::clone);
        Self { shown, mail, https, https_1 }
    }

    /// Shows the certificate of the listeners again to clients that name a host of the `former` one.
    pub fn forget_hosts(&self, former: &Self) {
        let mut known = self.shown.hosts.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, shown| !Arc::ptr_eq(shown, &former.shown));
    }

    /// Returns whether the certificate names itself as its issuer, so that no client can verify it.
    #[must_use]
    pub fn is_self_issued(&self) -> bool {
        self.leaf().is_none_or(|leaf| is_self_issued(&leaf).unwrap_or(true))
    }

    /// Returns whether there is a certificate, so that handshakes can succeed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shown.read(|_| ()).is_some()
    }

    /// Returns when the certificate is valid; `None` without one, or if that cannot be read.
    #[must_use]
    pub fn validity(&self) -> Option<Validity> {
        self.shown.read(|certificate| certificate.validity).flatten()
    }

    /// Returns whether the certificate is for this name.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        self.shown.read(|certificate| certificate.is_for(name)).unwrap_or_default()
    }

    /// Returns the certificate itself, in DER, without the chain.
    #[must_use]
    pub fn leaf(&self) -> Option<CertificateDer<'static>> {
        self.shown.read(|certificate| certificate.key.cert.first().cloned()).flatten()
    }

    /// Returns the challenges that the listener of HTTPS answers.
    #[must_use]
    pub fn challenges(&self) -> &Challenges {
        &self.shown.challenges
    }

    /// Returns the configuration of the mail listeners.
    #[must_use]
    pub fn mail(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.mail)
    }

    /// Returns the configuration of HTTPS.
    #[must_use]
    pub fn https(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.https)
    }

    /// Returns the configuration of HTTPS without HTTP/2.
    #[must_use]
    pub fn https_1(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.https_1)
    }
}

/// TLS 1.2 and 1.3 with the provider's safe cipher suites, and no certificates of clients.
fn server_config(shown: &Arc<Shown>, protocols: &[&[u8]]) -> Arc<ServerConfig> {
    let resolver = Arc::new(Resolver { shown: Arc::clone(shown), is_https: !protocols.is_empty() });
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

impl Shown {
    /// Returns the certificate for a host: its own one, or that of the listeners.
    fn key_for(&self, host: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let key = |shown: &Self| shown.read(|certificate| Arc::clone(&certificate.key));
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let own = host.and_then(|host| hosts.get(host)).and_then(|shown| key(shown));
        drop(hosts);
        own.or_else(|| key(self))
    }

    fn read<T>(&self, read: impl FnOnce(&Certificate) -> T) -> Option<T> {
        self.certificate.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(read)
    }
}

impl Certificate {
    fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::new(format!("cannot read the certificate: {error}")))?;
        let Some(leaf) = chain.first() else { return Err(TlsError::new("no certificate found")) };
        let validity = Validity::of(leaf);
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::new("no usable private key found"))?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        let key = key.map_err(|error| TlsError::new(error.to_string()))?;
        Ok(Self { key: Arc::new(key), validity })
    }

    fn is_for(&self, name: &str) -> bool {
        let parsed = self.key.cert.first().map(ParsedCertificate::try_from);
        let (Some(Ok(parsed)), Ok(name)) = (parsed, ServerName::try_from(name)) else { return false };
        verify_server_name(&parsed, &name).is_ok()
    }
}

/// Chooses the certificate of each handshake.
struct Resolver {
    shown: Arc<Shown>,
    /// Authorities check names at the listener of HTTPS alone.
    is_https: bool,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // RFC 8737 section 3: a check offers this protocol alone, and the name.
        let is_challenge = hello.alpn().is_some_and(|mut offered| offered.any(|name| name == CHALLENGE_PROTOCOL));
        if self.is_https && is_challenge {
            return hello.server_name().and_then(|name| self.shown.challenges.certificate(name));
        }
        // A browser that was sent to a mail listener would take its replies for a page of this name (ALPACA; RFC 9325
        // section 3.8). Mail programs offer no protocol, or that of mail.
        if !self.is_https && offers_http(&hello) {
            return None;
        }
        self.shown.key_for(hello.server_name().filter(|_| self.is_https))
    }
}

fn offers_http(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.any(|name| name == b"h2" || name.starts_with(b"http/")))
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::{ClientConnection, ServerConnection};

    use super::*;
    use crate::{Trust, client_config};

    /// A certificate for `mx.example` and its key.
    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["mx.example".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    /// Shakes hands, and returns the certificate that the client saw with the protocol.
    fn shake_hands(
        config: Arc<ServerConfig>,
        offered: &[&[u8]],
    ) -> Result<(CertificateDer<'static>, Option<Vec<u8>>), rustls::Error> {
        let mut client = client_config(&Trust::Anybody).unwrap();
        let protocols = offered.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::get_mut(&mut client).unwrap().alpn_protocols = protocols;
        let mut client = ClientConnection::new(client, "mx.example".try_into().unwrap()).unwrap();
        let mut server = ServerConnection::new(config).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut bytes.as_slice()).unwrap();
            server.process_new_packets()?;
            bytes.clear();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut bytes.as_slice()).unwrap();
            client.process_new_packets()?;
        }
        let seen = client.peer_certificates().unwrap()[0].clone().into_owned();
        Ok((seen, client.alpn_protocol().map(<[u8]>::to_vec)))
    }

    #[test]
    fn a_wrong_certificate_or_key_is_refused_and_never_shown() {
        let ((certificate, key), (_, others_key)) = (made(), made());
        for (certificate, key) in
            [("", key.as_str()), (certificate.as_str(), ""), (&certificate, "garbage"), (&certificate, &others_key)]
        {
            let error = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err().to_string();
            assert!(key.is_empty() || !error.contains(key), "{error}");
        }
        assert!(ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).is_ok());
    }

    #[test]
    fn a_broken_renewal_leaves_the_certificate_in_use() {
        let ((first, first_key), (second, second_key)) = (made(), made());
        let tls = ServerTls::from_pem(first.as_bytes(), first_key.as_bytes()).unwrap();
        let seen = |tls: &ServerTls| shake_hands(tls.mail(), &[]).unwrap().0;
        let before = seen(&tls);
        assert!(tls.replace(second.as_bytes(), first_key.as_bytes()).is_err());
        assert_eq!(seen(&tls), before);
        tls.replace(second.as_bytes(), second_key.as_bytes()).unwrap();
        let after = seen(&tls);
        assert_ne!(after, before);
        assert_eq!(shake_hands(tls.https(), &[]).unwrap().0, after, "all listeners have one certificate");
        assert_eq!(tls.leaf(), Some(after));
    }

    #[test]
    fn without_a_certificate_no_handshake_succeeds() {
        let tls = ServerTls::empty();
        assert!(!tls.is_ready() && !tls.is_for("mx.example") && tls.validity().is_none());
        assert!(shake_hands(tls.mail(), &[]).is_err());
        assert!(shake_hands(tls.https(), &[b"h2"]).is_err());
    }

    #[test]
    fn the_certificate_is_compared_with_names() {
        let (certificate, key) = made();
        let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        assert!(tls.is_ready() && tls.is_for("mx.example"));
        for other in ["example", "www.mx.example", "", "no name;"] {
            assert!(!tls.is_for(other), "{other}");
        }
    }

    #[test]
    fn http_2_is_preferred_and_an_unknown_protocol_refused() {
        let (certificate, key) = made();
        let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let protocol = |offered: &[&[u8]]| shake_hands(tls.https(), offered).map(|(_, protocol)| protocol);
        assert_eq!(protocol(&[b"http/1.1", b"h2"]).unwrap().as_deref(), Some(&b"h2"[..]));
        assert_eq!(protocol(&[b"http/1.1"]).unwrap().as_deref(), Some(&b"http/1.1"[..]));
        assert_eq!(protocol(&[]).unwrap(), None);
        assert!(protocol(&[b"imap"]).is_err());
        assert!(shake_hands(tls.mail(), &[b"imap"]).is_ok(), "mail programs may offer any protocol");
    }

    #[test]
    fn a_browser_is_not_served_by_a_mail_listener() {
        let (certificate, key) = made();
        let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let offers: [&[&[u8]]; 3] = [&[b"h2", b"http/1.1"], &[b"http/1.1"], &[b"imap", b"http/1.0"]];
        for offered in offers {
            assert!(shake_hands(tls.mail(), offered).is_err(), "{offered:?}");
        }
        for offered in [&[][..], &[&b"smtp"[..]], &[b"httpx"]] {
            assert_eq!(shake_hands(tls.mail(), offered).unwrap().1, None, "{offered:?}");
        }
    }

    #[test]
    fn a_host_has_a_certificate_of_its_own() {
        let ((first, first_key), (second, second_key)) = (made(), made());
        let tls = ServerTls::from_pem(first.as_bytes(), first_key.as_bytes()).unwrap();
        let seen = |config: Arc<ServerConfig>| shake_hands(config, &[]).unwrap().0;
        let of_listeners = seen(tls.mail());
        let own = tls.for_hosts(&["mx.example".to_owned()], None);
        assert_eq!(seen(tls.https()), of_listeners, "there is no other yet");
        own.replace(second.as_bytes(), second_key.as_bytes()).unwrap();
        assert_eq!((Some(seen(tls.https())), seen(tls.mail())), (own.leaf(), of_listeners.clone()));
        let others = tls.for_hosts(&["other.example".to_owned()], Some(&own));
        assert_eq!(seen(tls.https()), of_listeners);
        tls.forget_hosts(&others);
        assert!(tls.shown.hosts.read().unwrap().is_empty());
        assert!(tls.is_self_issued() && ServerTls::empty().is_self_issued());
    }

    #[test]
    fn a_challenge_has_a_certificate_of_its_own() {
        let (certificate, key) = made();
        let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        assert!(shake_hands(tls.https(), &[CHALLENGE_PROTOCOL]).is_err(), "no challenge is open");
        let proof = rcgen::generate_simple_self_signed(["mx.example".to_owned()]).unwrap();
        let proof_key = PrivateKeyDer::Pkcs8(proof.signing_key.serialize_der().into());
        let open = tls.challenges().answer_over_tls("mx.example", proof.cert.der().clone(), proof_key).unwrap();
        let (seen, protocol) = shake_hands(tls.https(), &[CHALLENGE_PROTOCOL]).unwrap();
        assert_eq!((&seen, protocol.as_deref()), (proof.cert.der(), Some(CHALLENGE_PROTOCOL)));
        assert_ne!(shake_hands(tls.https(), &[b"h2"]).unwrap().0, seen, "other clients see the usual certificate");
        assert_ne!(shake_hands(tls.mail(), &[CHALLENGE_PROTOCOL]).unwrap().0, seen);
        drop(open);
        assert!(shake_hands(tls.https(), &[CHALLENGE_PROTOCOL]).is_err());
    }
}
