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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authentication {
    /// Whether the client may send for the domain of the reverse-path (RFC 7208).
    pub spf: AuthenticationResult,
    /// Whether a signature is valid (RFC 6376): the best result of all signatures.
    pub dkim: AuthenticationResult,
    /// Whether the author's domain confirms the message (RFC 9989).
    pub dmarc: AuthenticationResult,
    /// Whether the chain of forwarders is unbroken (RFC 8617).
    pub arc: AuthenticationResult,
}
