//! Results of the checks of inbound mail.

use crate::named_values;

named_values! {
    /// The result of one check (RFC 8601 section 2.7).
    AuthenticationResult, UnknownAuthenticationResult,
        "must be one of none, pass, fail, softfail, neutral, temperror, permerror" {
        /// Nothing to check: no policy, or no signature.
        None = "none",
        /// The check passed.
        Pass = "pass",
        /// The check failed.
        Fail = "fail",
        /// The client is probably not authorized (SPF only).
        Softfail = "softfail",
        /// The check makes no statement.
        Neutral = "neutral",
        /// The check needs something that was not available, such as a DNS answer.
        Temperror = "temperror",
        /// The policy, the key or the signature is invalid.
        Permerror = "permerror",
    }
}

/// The results of all checks of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authentication {
    /// Whether the client may send for the domain of the reverse-path (RFC 7208).
    pub spf: CheckedDomain,
    /// Whether the signatures are valid (RFC 6376), best result first. Empty without a signature.
    pub dkim: Vec<CheckedSignature>,
    /// Whether the author's domain confirms the message (RFC 9989).
    pub dmarc: CheckedDomain,
    /// Whether the chain of forwarders is unbroken (RFC 8617).
    pub arc: AuthenticationResult,
}

/// The result of a check, and the domain that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedDomain {
    /// The result.
    pub result: AuthenticationResult,
    /// The domain as A-labels, if the message names one.
    pub domain: Option<String>,
}

/// The result for a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSignature {
    /// The result.
    pub result: AuthenticationResult,
    /// The signing domain as A-labels, if the signature can be read.
    pub domain: Option<String>,
    /// The selector of the key, if the signature can be read.
    pub selector: Option<String>,
}
