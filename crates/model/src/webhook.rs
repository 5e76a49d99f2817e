//! Webhooks.

use std::fmt;

use crate::{EmailAddress, TokenId, named_values};

/// The number of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookId(pub i64);

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who registered a webhook. It sends events only while its author may read them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WebhookAuthor {
    /// The operator, at the command line.
    Operator,
    /// An API token of admins.
    AdminToken(TokenId),
    /// The mailbox of an admin.
    Admin(EmailAddress),
    /// A user's mailbox: with this API token, or with a session.
    User(EmailAddress, Option<TokenId>),
}

impl WebhookAuthor {
    /// Returns the user who owns the webhook; `None` for a webhook of admins.
    #[must_use]
    pub const fn user(&self) -> Option<&EmailAddress> {
        match self {
            Self::User(mailbox, _) => Some(mailbox),
            Self::Operator | Self::AdminToken(_) | Self::Admin(_) => None,
        }
    }

    /// Returns the mailbox of the author.
    #[must_use]
    pub const fn mailbox(&self) -> Option<&EmailAddress> {
        match self {
            Self::Admin(mailbox) | Self::User(mailbox, _) => Some(mailbox),
            Self::Operator | Self::AdminToken(_) => None,
        }
    }

    /// Returns the API token without which the author has no rights.
    #[must_use]
    pub const fn token(&self) -> Option<TokenId> {
        match self {
            Self::AdminToken(token) => Some(*token),
            Self::User(_, token) => *token,
            Self::Operator | Self::Admin(_) => None,
        }
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
    /// Which events a replay sends again.
    ReplayedEvents, UnknownReplayedEvents, "must be failed or all" {
        /// Those that the receiver did not get.
        Failed = "failed",
        /// Every event that the webhook selects.
        All = "all",
    }
}

named_values! {
    /// Why a webhook is disabled.
    WebhookDisabled, UnknownWebhookDisabled, "must be request, failures, gone or permission" {
        /// Its owner disabled it.
        Request = "request",
        /// Nothing but failures for days.
        Failures = "failures",
        /// The receiver answered 410, so it wants no more events.
        Gone = "gone",
        /// Its author may no longer read the events.
        Permission = "permission",
    }
}
