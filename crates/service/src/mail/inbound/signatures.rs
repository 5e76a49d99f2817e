//! Signatures of a message: DKIM (RFC 6376) and ARC (RFC 8617), verified by mail-auth.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use mail_auth::common::crypto::{Algorithm, HashAlgorithm};
use mail_auth::common::resolver::ToFqdn;
use mail_auth::common::to_a_label;
use mail_auth::common::verify::VerifySignature;
use mail_auth::dkim::{Canonicalization, DkimError, Signature};
use mail_auth::{AuthenticatedMessage, DkimResult, Error, MessageAuthenticator};
use mailapi_model::AuthenticationResult;

use super::answers::Answers;
use super::author::{Author, is_from};
use super::body_hash::{BodyHashes, Forms};
use super::spf::is_below;
use super::tag_list::{tags, trimmed};

/// Maximum number of signatures that are verified; those of the author's domain come first. Forwarders rarely add
/// more than three.
const MAX_SIGNATURES: usize = 8;

/// Maximum number of sets of ARC fields whose keys are looked up.
const MAX_SETS: usize = 20;

/// Maximum number of fields that a signature may name, and of fields in a header with signatures. Verification
/// searches the header for each name, so both bound its time.
const MAX_NAMES: usize = 256;
const MAX_FIELDS: usize = 10_000;

/// Characters of a signature that the results quote, to distinguish several (RFC 6008 section 3).
const QUOTED: usize = 8;

/// What the checks need of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overview {
    pub(super) author: Author,
    /// Where the body begins.
    pub(super) body: usize,
    /// Names of the keys.
    pub(super) keys: Vec<String>,
    /// The canonical forms of the body that signatures use.
    pub(super) forms: Forms,
}

/// A DKIM signature and the result of its verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) result: AuthenticationResult,
    /// Why it did not pass; empty otherwise.
    pub(super) reason: &'static str,
    /// The signing domain; empty for a signature that cannot be read.
    pub(super) domain: String,
    pub(super) selector: String,
    /// The first characters of the signature.
    pub(super) start: String,
}

impl Signed {
    fn of(signature: &Signature, result: AuthenticationResult, reason: &'static str) -> Self {
        let mut start = STANDARD.encode(&signature.b);
        start.truncate(QUOTED);
        let domain = to_a_label(&signature.d).to_ascii_lowercase();
        Self { result, reason, domain, selector: signature.s.clone(), start }
    }
}

/// The results of all signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signatures {
    pub(super) dkim: Vec<Signed>,
    pub(super) arc: AuthenticationResult,
}

impl Signatures {
    /// Returns the DKIM signatures, best result first.
    pub(super) fn by_result(&self) -> Vec<&Signed> {
        use AuthenticationResult::{Fail, Neutral, None, Pass, Permerror, Softfail, Temperror};
        let order = [Pass, Temperror, Fail, Softfail, Permerror, Neutral, None];
        let rank = |result| order.iter().position(|known| *known == result);
        let mut signatures: Vec<&Signed> = self.dkim.iter().collect();
        signatures.sort_by_key(|signed| rank(signed.result));
        signatures
    }
}

/// Reads a header.
pub(super) fn overview(header: &[u8], now: u64) -> Overview {
    let message = readable(header, &BodyHashes::default(), now).map(|(message, _)| message);
    let body = message.as_ref().map_or(header.len(), AuthenticatedMessage::body_offset);
    let keys = message.as_ref().map(keys).unwrap_or_default();
    let forms = message.as_ref().map(forms).unwrap_or_default();
    Overview { author: Author::of(header), body, keys, forms }
}

/// Returns the canonical forms of the body that signatures use.
fn forms(message: &AuthenticatedMessage<'_>) -> Forms {
    let uses = |form| message.body_hashes.iter().any(|(used, ..)| *used == form);
    Forms { simple: uses(Canonicalization::Simple), relaxed: uses(Canonicalization::Relaxed) }
}

/// Returns the names of the keys of all signatures that are verified.
fn keys(message: &AuthenticatedMessage<'_>) -> Vec<String> {
    let mut keys: Vec<String> = message.dkim_headers.iter().map(|one| one.header.domain_key()).collect();
    keys.extend(message.as_headers.iter().take(MAX_SETS).map(|one| one.header.domain_key()));
    keys.extend(message.ams_headers.last().map(|one| one.header.domain_key()));
    keys = keys.iter().map(|name| name.to_fqdn().into_owned()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Verifies all signatures of a header. `keys` has the records of [`Overview::keys`].
pub(super) fn verify(
    header: &[u8],
    hashes: &BodyHashes,
    keys: &Answers,
    now: u64,
    verifier: Option<&MessageAuthenticator>,
) -> Signatures {
    let nothing = Signatures { dkim: Vec::new(), arc: AuthenticationResult::None };
    let Some((message, mut dkim)) = readable(header, hashes, now) else { return nothing };
    // The records are known, so neither future waits.
    let verified = verifier.and_then(|verifier| {
        let dkim = verifier.verify_dkim(keys.with(&message)).now_or_never()?;
        Some((dkim, verifier.verify_arc(keys.with(&message)).now_or_never()?))
    });
    let Some((outputs, arc)) = verified else {
        let unchecked = |signature| Signed::of(signature, AuthenticationResult::Temperror, "not verified");
        dkim.extend(message.dkim_headers.iter().map(|one| unchecked(&one.header)));
        return Signatures { dkim, arc: AuthenticationResult::Temperror };
    };
    dkim.extend(message.dkim_headers.iter().zip(&outputs).map(|(one, output)| {
        let (result, reason) = result_of(output.result());
        Signed::of(&one.header, result, reason)
    }));
    Signatures { dkim, arc: arc_result(arc.result()) }
}

/// Parses a header for mail-auth, without the signatures that must not be verified; returns those too.
fn readable<'x>(header: &'x [u8], hashes: &BodyHashes, now: u64) -> Option<(AuthenticatedMessage<'x>, Vec<Signed>)> {
    let mut message = AuthenticatedMessage::parse(header)?;
    let mut refused = Vec::new();
    if message.headers.len() > MAX_FIELDS {
        let (dkim, arc) = (&mut message.dkim_headers, &mut message.ams_headers);
        let reason = "too many header fields";
        refused.extend(dkim.drain(..).take(1).map(|one| Signed::of(&one.header, PERMERROR, reason)));
        arc.clear();
        message.as_headers.clear();
    }
    // Signatures that cannot be read are reported once.
    if message.has_dkim_errors && message.dkim_headers.is_empty() && refused.is_empty() {
        refused.push(Signed::of(&Signature::default(), PERMERROR, "unreadable signature"));
    }
    message.errors.retain(|error| matches!(error.header, Error::Arc(_)));
    message.dkim_headers.retain(|one| match refusal(&one.header, one.value, now) {
        Some((result, reason)) => {
            refused.push(Signed::of(&one.header, result, reason));
            false
        }
        None => true,
    });
    refused.truncate(MAX_SIGNATURES);
    let authors: Vec<_> = message.from.iter().filter_map(|from| from.rsplit_once('@')).map(|(_, d)| d).collect();
    let related = |domain: &str| authors.iter().any(|author| is_below(author, domain) || is_below(domain, author));
    message.dkim_headers.sort_by_cached_key(|one| !related(&one.header.d));
    message.dkim_headers.truncate(MAX_SIGNATURES);
    for one in &mut message.dkim_headers {
        // The expiry was checked with this server's clock. Reports to signers and ATPS would need look-ups.
        (one.header.x, one.header.r, one.header.atps) = (0, false, None);
    }
    for (form, hash, _, value) in &mut message.body_hashes {
        match (form, hash) {
            (Canonicalization::Simple, HashAlgorithm::Sha256) => value.clone_from(&hashes.simple),
            (Canonicalization::Relaxed, HashAlgorithm::Sha256) => value.clone_from(&hashes.relaxed),
            (_, HashAlgorithm::Sha1) => value.clear(),
        }
    }
    Some((message, refused))
}

const PERMERROR: AuthenticationResult = AuthenticationResult::Permerror;

/// Returns why a signature is not verified. `field` is its text.
fn refusal(signature: &Signature, field: &[u8], now: u64) -> Option<(AuthenticationResult, &'static str)> {
    let field = String::from_utf8_lossy(field);
    let Some(tags) = tags(&field) else { return Some((PERMERROR, "unreadable signature")) };
    // A signer may name other ways to get the key beside the DNS (RFC 6376 section 3.5).
    let asks_dns = |list: &str| list.split(':').any(|method| trimmed(method).eq_ignore_ascii_case("dns/txt"));
    let is_in_dns = tags.iter().find(|(name, _)| *name == "q").is_none_or(|(_, list)| asks_dns(list));
    let signs_author = signature.h.iter().any(|name| is_from(name.as_bytes()));
    let is_expired = signature.x != 0 && (signature.x <= now || signature.x < signature.t);
    if signature.v != 1 {
        Some((PERMERROR, "unknown version"))
    } else if signature.a == Algorithm::RsaSha1 {
        // RFC 8301 section 3.1.
        Some((PERMERROR, "SHA-1 is not accepted"))
    } else if !signs_author {
        // RFC 6376 section 6.1.1.
        Some((PERMERROR, "From is not signed"))
    } else if !is_in_dns {
        Some((PERMERROR, "no key in DNS"))
    } else if signature.h.len() > MAX_NAMES {
        Some((PERMERROR, "too many signed fields"))
    } else if is_expired {
        Some((AuthenticationResult::Fail, "signature expired"))
    } else {
        None
    }
}

fn result_of(result: &DkimResult) -> (AuthenticationResult, &'static str) {
    match result {
        DkimResult::Pass => (AuthenticationResult::Pass, ""),
        // The signature can be read, but does not match (RFC 8601 section 2.7.1).
        DkimResult::Neutral(Error::Dkim(DkimError::FailedBodyHashMatch)) => {
            (AuthenticationResult::Fail, "the body was changed")
        }
        DkimResult::Neutral(_) => (AuthenticationResult::Neutral, "not verified"),
        DkimResult::Fail(_) => (AuthenticationResult::Fail, "the signature does not match"),
        DkimResult::PermError(_) => (PERMERROR, "no valid key"),
        DkimResult::TempError(_) => (AuthenticationResult::Temperror, "the key is not available"),
        DkimResult::None => (AuthenticationResult::None, ""),
    }
}

/// A chain passes or fails as a whole (RFC 8617 section 4.4).
const fn arc_result(result: &DkimResult) -> AuthenticationResult {
    match result {
        DkimResult::Pass => AuthenticationResult::Pass,
        DkimResult::None => AuthenticationResult::None,
        DkimResult::TempError(_) => AuthenticationResult::Temperror,
        DkimResult::Neutral(_) | DkimResult::Fail(_) | DkimResult::PermError(_) => AuthenticationResult::Fail,
    }
}
