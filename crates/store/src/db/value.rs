//! Values bound to statements and read from rows.

use mailapi_model::{
    AppPasswordId, DkimAlgorithm, DomainName, EmailAddress, EnhancedCode, MessageId, MessageStatus, Outcome,
    Permission, QueueId, RecipientKind, RecipientStatus, Secret, Timestamp, TokenId, TokenKind, WebhookId,
};

/// The column types that every engine supports.
#[derive(Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl std::fmt::Debug for Value {
    /// Prints only the type: the value may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Null => "NULL",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Text(_) => "text",
            Self::Blob(_) => "bytes",
        })
    }
}

/// Converts a count or a size to BIGINT, saturating.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a length to BIGINT, saturating.
pub(crate) fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Converts a duration to milliseconds, saturating.
pub(crate) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! values {
    ($($type:ty => |$value:ident| $turned:expr;)+) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $turned
            }
        })+
    };
}

values! {
    bool => |value| Self::Bool(value);
    i64 => |value| Self::Int(value);
    String => |value| Self::Text(value);
    &str => |value| Self::Text(value.to_owned());
    Vec<u8> => |value| Self::Blob(value);
    &[u8] => |value| Self::Blob(value.to_owned());
    Timestamp => |value| Self::Int(value.as_millis());
    TokenId => |value| Self::Int(value.0);
    AppPasswordId => |value| Self::Int(value.0);
    WebhookId => |value| Self::Int(value.0);
    MessageId => |value| Self::Text(value.write_to(&mut [0; MessageId::LENGTH]).to_owned());
    &DomainName => |value| Self::Text(value.as_str().to_owned());
    &EmailAddress => |value| Self::Text(value.as_str().to_owned());
    &QueueId => |value| Self::Text(value.0.clone());
    EnhancedCode => |value| Self::Text(value.to_string());
    &Secret<String> => |value| Self::Text(value.expose().clone());
    &Secret<Vec<u8>> => |value| Self::Blob(value.expose().clone());
    DkimAlgorithm => |value| value.as_str().into();
    TokenKind => |value| value.as_str().into();
    Permission => |value| value.as_str().into();
    RecipientKind => |value| value.as_str().into();
    RecipientStatus => |value| value.as_str().into();
    MessageStatus => |value| value.as_str().into();
    Outcome => |value| value.as_str().into();
}
