//! The types of events.

use std::fmt;
use std::str::FromStr;

macro_rules! event_types {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// The type of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EventType {
            $($(#[$doc])* $name,)+
        }

        impl EventType {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the name in the API and the database.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

event_types! {
    /// The message is durable at the mail server.
    MessageAccepted = "message.accepted",
    /// The message is held until its `send_at`.
    MessageScheduled = "message.scheduled",
    /// A held message was canceled.
    MessageCanceled = "message.canceled",
    /// The message was delivered to the mailbox, or accepted by the next mail server.
    MessageDelivered = "message.delivered",
    /// An attempt failed, and another one follows.
    MessageDeferred = "message.deferred",
    /// Final: the message cannot be delivered to the recipient.
    MessageBounced = "message.bounced",
    /// The recipient is on a suppression list, so the message was not submitted for it.
    MessageSuppressed = "message.suppressed",
    /// Final: the mail server refused the recipient temporarily, or did not accept the message at all.
    MessageFailed = "message.failed",
    /// Another server returned mail about the message that changes no status.
    MessageNotice = "message.notice",
    /// The recipient reported the message as spam.
    MessageComplained = "message.complained",
    /// The recipient unsubscribed.
    MessageUnsubscribed = "message.unsubscribed",
    /// A mailbox received a message.
    MessageReceived = "message.received",
    /// A message from outside was refused.
    MessageRejected = "message.rejected",
    /// An address was added to a suppression list.
    SuppressionCreated = "suppression.created",
    /// An address was removed from a suppression list.
    SuppressionDeleted = "suppression.deleted",
    /// A domain was added.
    DomainCreated = "domain.created",
    /// A domain was changed.
    DomainUpdated = "domain.updated",
    /// A domain was approved.
    DomainApproved = "domain.approved",
    /// The DNS records of a domain were verified.
    DomainVerified = "domain.verified",
    /// Required DNS records of a verified domain are missing or wrong.
    DomainUnverified = "domain.unverified",
    /// A DKIM key of a domain took its next step.
    DomainDkimKeyChanged = "domain.dkim_key_changed",
    /// A domain was deleted.
    DomainDeleted = "domain.deleted",
    /// A user was created.
    UserCreated = "user.created",
    /// A user was changed.
    UserUpdated = "user.updated",
    /// A user was deleted.
    UserDeleted = "user.deleted",
    /// An app password of a user was created.
    UserAppPasswordCreated = "user.app_password_created",
    /// An app password of a user was revoked.
    UserAppPasswordRevoked = "user.app_password_revoked",
    /// An alias was created.
    AliasCreated = "alias.created",
    /// The members or the state of an alias were changed.
    AliasUpdated = "alias.updated",
    /// An alias was deleted.
    AliasDeleted = "alias.deleted",
    /// A token was created.
    TokenCreated = "token.created",
    /// A token was changed.
    TokenUpdated = "token.updated",
    /// A token was revoked.
    TokenRevoked = "token.revoked",
    /// An address is locked after failed logins.
    LoginLocked = "login.locked",
    /// A webhook was disabled after failures, or because its receiver wants no more events.
    WebhookDisabled = "webhook.disabled",
    /// Reports of the mail server were lost.
    DeliveryGap = "delivery.gap",
}

impl EventType {
    /// Returns the part of the name before the dot.
    #[must_use]
    pub fn group(self) -> &'static str {
        self.as_str().split_once('.').map_or("", |(group, _)| group)
    }

    /// Returns all groups, each once.
    #[must_use]
    pub fn groups() -> Vec<&'static str> {
        let mut groups: Vec<_> = Self::ALL.iter().map(|event_type| event_type.group()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is neither an event type nor a group of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an event type, such as message.delivered, or a group of types, such as message.*")]
pub struct UnknownEventType;

impl FromStr for EventType {
    type Err = UnknownEventType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|event_type| event_type.as_str() == text).ok_or(UnknownEventType)
    }
}

/// One type, or a group of types: `message.delivered`, `message.*`, `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypePattern {
    /// All types.
    All,
    /// The types whose names begin with this part and a dot.
    Group(&'static str),
    /// This type.
    One(EventType),
}

impl TypePattern {
    /// Returns whether the pattern includes the type.
    #[must_use]
    pub fn includes(self, event_type: EventType) -> bool {
        match self {
            Self::All => true,
            Self::Group(group) => event_type.group() == group,
            Self::One(one) => event_type == one,
        }
    }
}

impl fmt::Display for TypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Group(group) => write!(f, "{group}.*"),
            Self::One(one) => one.fmt(f),
        }
    }
}

impl FromStr for TypePattern {
    type Err = UnknownEventType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" {
            return Ok(Self::All);
        }
        let Some(group) = text.strip_suffix(".*") else { return text.parse().map(Self::One) };
        let known = EventType::ALL.iter().map(|event_type| event_type.group()).find(|known| *known == group);
        known.map(Self::Group).ok_or(UnknownEventType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_type_or_group_is_refused() {
        for text in ["", "message", "message.", ".*", "message.opened", "letter.*", "message.**", "Message.*", "**"] {
            assert_eq!(text.parse::<TypePattern>(), Err(UnknownEventType), "{text}");
        }
    }

    #[test]
    fn a_pattern_includes_its_types_alone() {
        let includes = |pattern: &str, event_type| pattern.parse::<TypePattern>().unwrap().includes(event_type);
        for event_type in EventType::ALL.iter().copied() {
            assert!(includes("*", event_type));
            assert_eq!(includes("message.*", event_type), event_type.as_str().starts_with("message."));
            assert_eq!(includes("token.created", event_type), event_type == EventType::TokenCreated);
            assert_eq!(event_type.as_str().parse(), Ok(event_type));
        }
    }

    #[test]
    fn a_pattern_is_shown_as_it_is_read() {
        for text in ["*", "message.*", "domain.verified"] {
            assert_eq!(text.parse::<TypePattern>().unwrap().to_string(), text);
        }
    }
}
