//! Webhooks.

use std::fmt;

use crate::named_values;

/// The number of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookId(pub i64);

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

named_values! {
    /// How the messages to a webhook are signed (Standard Webhooks).
    WebhookSigning, UnknownWebhookSigning, "must be v1 or v1a" {
        /// HMAC-SHA256 with a secret that the receiver knows.
        V1 = "v1",
        /// Ed25519; the receiver knows the public key.
        V1a = "v1a",
    }
}

named_values! {
    /// Why a webhook is disabled.
    WebhookDisabled, UnknownWebhookDisabled, "must be request, failures or gone" {
        /// Its owner disabled it.
        Request = "request",
        /// Nothing but failures for days.
        Failures = "failures",
        /// The receiver answered 410, so it wants no more events.
        Gone = "gone",
    }
}
