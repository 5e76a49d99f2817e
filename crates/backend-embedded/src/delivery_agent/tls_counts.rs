//! Counts how connections to other servers are protected, by the results of RFC 8460 section 4.3.

use std::sync::atomic::{AtomicU64, Ordering};

use mailapi_smtp::client::Failure;

/// How a connection to another mail server was protected, or why it could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsResult {
    /// The certificate was verified, as the domain's policy or TLSA records require.
    Verified,
    /// Encrypted with any certificate.
    Unverified,
    /// Not encrypted.
    Plain,
    /// TLS is required, and the server does not offer it.
    NotOffered,
    /// TLS is required, and the certificate is for other names.
    HostMismatch,
    /// TLS is required, and the certificate has expired.
    Expired,
    /// TLS is required, and the issuer of the certificate is not trusted.
    NotTrusted,
    /// TLS is required, and the handshake failed for another reason; or the policy does not allow the server.
    Invalid,
    /// The policy could not be fetched.
    PolicyNotFetched,
    /// The certificate of the policy's host is not valid.
    PolicyNotAuthentic,
    /// The policy has errors.
    PolicyInvalid,
    /// The server has TLSA records, none of which can be used.
    TlsaInvalid,
    /// The look-up of TLSA records failed, or their signatures are not valid.
    DnssecInvalid,
}

impl TlsResult {
    /// Every result.
    pub const ALL: [Self; 13] = [
        Self::Verified,
        Self::Unverified,
        Self::Plain,
        Self::NotOffered,
        Self::HostMismatch,
        Self::Expired,
        Self::NotTrusted,
        Self::Invalid,
        Self::PolicyNotFetched,
        Self::PolicyNotAuthentic,
        Self::PolicyInvalid,
        Self::TlsaInvalid,
        Self::DnssecInvalid,
    ];

    /// Returns why a connection does not satisfy a policy; `None` if it failed for a reason other than TLS.
    pub(super) fn of(failure: &Failure) -> Option<Self> {
        match failure {
            Failure::TlsNotOffered => Some(Self::NotOffered),
            Failure::Refused { stage: mailapi_smtp::client::Stage::StartTls, .. } => Some(Self::NotOffered),
            Failure::Handshake(cause) => Some(Self::of_handshake(&cause.to_string())),
            _ => None,
        }
    }

    /// The causes of a failed handshake are texts of rustls.
    fn of_handshake(cause: &str) -> Self {
        let is = |words: &[&str]| words.iter().any(|word| cause.contains(word));
        match () {
            () if is(&["NotValidForName", "not valid for name"]) => Self::HostMismatch,
            () if is(&["Expired", "expired"]) => Self::Expired,
            () if is(&["UnknownIssuer", "CaUsedAsEndEntity"]) => Self::NotTrusted,
            () => Self::Invalid,
        }
    }
}

/// The counts since they were last taken.
#[derive(Debug, Default)]
pub(super) struct TlsCounts([AtomicU64; TlsResult::ALL.len()]);

impl TlsCounts {
    pub(super) fn count(&self, result: TlsResult) {
        self.0[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> impl Iterator<Item = (TlsResult, u64)> {
        TlsResult::ALL.into_iter().map(|result| (result, self.0[result as usize].swap(0, Ordering::Relaxed)))
    }
}
