//! JSON shapes that several operations share.

use std::fmt;
use std::str::FromStr;

use mailapi_model::{
    ActionFields, AuthenticationResult, ConditionFields, DkimAlgorithm, DkimState, DomainName, DraftAttachment,
    EmailAddress, MessageId, MessageStatus, OneLine, Outcome, PasswordRule, Permission, QueueState, RecipientKind,
    RecipientStatus, SaveSent, Secret, SecretText, Timestamp, TokenKind, Violations,
};
use mailapi_service::auth::ImportedHash;
use mailapi_service::domains::{ProtectionLevel, Publication, RecordStatus};
use mailapi_service::events::{After, EventCursor, EventType, TypePattern};
use mailapi_service::mailbox::{ResultSource, SearchText, SecuritySign, Severity, Verdict};
use mailapi_service::stats::{GroupBy, Sender};
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::error::ErrorCode;
use crate::request_body::{Schemas, Text, reference};

/// A time in UTC with milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl From<Timestamp> for Moment {
    fn from(moment: Timestamp) -> Self {
        Self(moment)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.to_text().as_str())
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("Time in UTC."))
            .examples(["2026-11-20T10:15:30.123Z"])
            .into()
    }
}

impl ToSchema for Moment {}

/// Writes an identifier without allocating a string.
pub(crate) fn written<S: Serializer>(id: &MessageId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.write_to(&mut [0; MessageId::LENGTH]))
}

/// Writes an address as it was given.
pub(crate) fn shown<S: Serializer>(address: &EmailAddress, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(address.shown())
}

/// Declares string types of the document. They describe what `model` accepts; `model` validates the values.
macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $name:ident: $build:expr;)+) => {
        $(
            $(#[doc = $doc])+
            pub(crate) struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    let text = ObjectBuilder::new().schema_type(Type::String).description(Some(concat!($($doc),+).trim()));
                    let build: fn(ObjectBuilder) -> ObjectBuilder = $build;
                    build(text).into()
                }
            }

            impl ToSchema for $name {}
        )+
    };
}

/// No control characters.
const ON_ONE_LINE: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

/// No control characters, and at least one visible character.
const SOMETHING_ON_ONE_LINE: &str = r"^[^\x00-\x1f\x7f-\x9f]*[^\x00-\x1f\x7f-\x9f\s][^\x00-\x1f\x7f-\x9f]*$";

/// The forms that [`ImportedHash`] accepts, with scheme names in capital letters.
const PASSWORD_HASH: &str = concat!(
    r"^((\{(SHA512-CRYPT|CRYPT)\})?\$6\$(rounds=([1-9][0-9]{3,5}|1000000)\$)?[./0-9A-Za-z]{1,16}\$[./0-9A-Za-z]{86}",
    r"|(\{(BLF-CRYPT|CRYPT)\})?\$2[aby]\$(0[4-9]|1[0-5])\$[./0-9A-Za-z]{53}",
    r"|\{SSHA512\}([A-Za-z0-9+/]{4}){22,80}([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?)$"
);

texts! {
    /// Status of a message.
    MessageState: |text| text.enum_values(Some(MessageStatus::ALL.iter().map(|state| state.as_str())));
    /// Status of one recipient.
    RecipientState: |text| text.enum_values(Some(RecipientStatus::ALL.iter().map(|state| state.as_str())));
    /// Recipient list of the message: To, Cc or Bcc.
    RecipientKindName: |text| text.enum_values(Some(RecipientKind::ALL.map(RecipientKind::as_str)));
    /// `clean`: no sign counts, or only some that honest mail has, too; `suspicious`: look before you follow a link or open a
    /// file; `dangerous`: honest mail has next to never such signs; `unknown`: nothing was found, and part was not read.
    VerdictName: |text| text.enum_values(Some(Verdict::ALL.map(Verdict::as_str)));
    /// `note`: does not count; `low`: frequent in honest mail; `medium`: rare in it; `high`: next to never in it.
    SeverityName: |text| text.enum_values(Some(Severity::ALL.map(Severity::as_str)));
    /// Sign of fraud; docs/security-analysis.md explains each.
    SignCode: |text| text.enum_values(Some(SecuritySign::ALL.map(SecuritySign::code)));
    /// `own`: this server; `header`: another server, or a forger of the header; `none`: the message
    /// was not checked.
    CheckedBy: |text| text.enum_values(Some(ResultSource::ALL.map(ResultSource::as_str)));
    /// Outcome of a delivery attempt.
    DeliveryOutcome: |text| text.enum_values(Some(Outcome::ALL.map(Outcome::as_str)));
    /// `admin`: full access; `user`: the mailbox that the token is bound to.
    TokenType: |text| text.enum_values(Some([TokenKind::Admin, TokenKind::User].map(TokenKind::as_str)));
    /// `ok`: published as expected; `missing`: not published; `mismatch`: published with a different value; `error`:
    /// DNS lookup failed, or too many hosts are published to look them up.
    RecordState: |text| text.enum_values(Some([RecordStatus::Ok, RecordStatus::Missing, RecordStatus::Mismatch, RecordStatus::Error].map(RecordStatus::as_str)));
    /// `found`: published, or another record has the same effect; `missing`: not published; `different`: published with a
    /// different value; `unknown`: DNS lookup failed, or the value to publish or the effect of the published value is
    /// unknown.
    PublicationState: |text| text.enum_values(Some(Publication::ALL.map(Publication::as_str)));
    /// `strong`: the records do all that such records can do; `fair`: there is one more step; `weak`: the records are wrong, or have
    /// next to no effect; `missing`: there is no record; `unknown`: DNS lookup failed, or the effect is unknown.
    ProtectionLevelName: |text| text.enum_values(Some(ProtectionLevel::ALL.map(ProtectionLevel::as_str)));
    /// Kind of record that protects a domain.
    ProtectionName: |text| text.enum_values(Some(["SPF", "DKIM", "DMARC", "MTA-STS", "TLS-RPT"]));
    /// Permission name.
    PermissionName: |text| text.enum_values(Some(Permission::ALL.map(Permission::as_str)));
    /// Signature algorithm of a DKIM key.
    DkimAlgorithmName: |text| text.enum_values(Some([DkimAlgorithm::Rsa2048, DkimAlgorithm::Ed25519].map(DkimAlgorithm::as_str)));
    /// Step in the life of a DKIM key.
    DkimStateName: |text| text.enum_values(Some(DkimState::ALL.map(DkimState::as_str)));
    /// Grouping of a breakdown.
    GroupByName: |text| text.enum_values(Some(GroupBy::ALL.map(GroupBy::as_str)));
    /// Result of a check of received mail (RFC 8601 section 2.7).
    AuthenticationResultName: |text| text.enum_values(Some(AuthenticationResult::ALL.iter().map(|result| result.as_str())));
    /// Event type.
    EventTypeName: |text| text.enum_values(Some(EventType::ALL.iter().map(|event_type| event_type.as_str())));
    /// Event types and groups of types such as `message.*`, separated by commas.
    EventTypes: |text| text.min_length(Some(1)).pattern(Some(event_types_pattern()));
    /// Cursor of an earlier response, `start` or `now`.
    EventPosition: |text| text.min_length(Some(1)).pattern(Some(format!("^(start|now|{CURSOR})$")));
    /// State of a recipient in the queue.
    QueueStateName: |text| text.enum_values(Some(QueueState::ALL.iter().map(|state| state.as_str())));
    /// Which sent messages are copied to `Sent`.
    SaveSentName: |text| text.enum_values(Some(SaveSent::ALL.map(SaveSent::as_str)));
    /// What a rule compares; `to` is To and Cc.
    RuleFieldName: |text| text.enum_values(Some(ConditionFields::FIELDS));
    /// Comparison: `contains` or `is` for texts, `over` for `size`, `is` for `verdict`.
    RuleComparisonName: |text| text.enum_values(Some(ConditionFields::COMPARISONS));
    /// Kind of an action.
    RuleActionName: |text| text.enum_values(Some(ActionFields::KINDS));
    /// Error code.
    ErrorCodeName: |text| text.enum_values(Some(ErrorCode::ALL.map(ErrorCode::as_str)));
    /// One line of text.
    ShortText: |text| text.max_length(Some(OneLine::MAX_CHARACTERS)).pattern(Some(ON_ONE_LINE));
    /// A name, not all whitespace.
    TokenName: |text| {
        text.min_length(Some(1)).max_length(Some(OneLine::MAX_CHARACTERS)).pattern(Some(SOMETHING_ON_ONE_LINE))
    };
    /// Search text, not all whitespace.
    Searched: |text| {
        let (min, max) = (SearchText::MIN_CHARACTERS, SearchText::MAX_CHARACTERS);
        text.min_length(Some(min)).max_length(Some(max)).pattern(Some(SOMETHING_ON_ONE_LINE))
    };
    /// New password.
    NewPassword: |text| {
        let (min, max) = (PasswordRule::MIN_CHARACTERS, PasswordRule::MAX_CHARACTERS);
        text.min_length(Some(min)).max_length(Some(max)).pattern(Some(ON_ONE_LINE))
    };
    /// Hash of a password with its scheme, as another mail server stores it: `{SHA512-CRYPT}`, `{SSHA512}` or `{BLF-CRYPT}`.
    PasswordHash: |text| {
        text.min_length(Some(1)).max_length(Some(ImportedHash::MAX_BYTES)).pattern(Some(PASSWORD_HASH))
    };
    /// Text without control characters, such as a subject.
    HeaderText: |text| text.pattern(Some(ON_ONE_LINE));
    /// Address: `user@host` or `Name <user@host>`.
    NamedAddressText: |text| {
        text.format(Some(SchemaFormat::Custom("mailbox".to_owned()))).examples(["Alice Lee <alice@example.test>"])
    };
    /// Date-time such as `2026-11-20T12:15:30+02:00` (any offset, UTC by default), or date such as `2026-11-20`.
    DateOrTime: |text| text.format(Some(SchemaFormat::Custom("date-or-time".to_owned())));
    /// Email address or domain name.
    AddressOrDomain: |text| text.format(Some(SchemaFormat::Custom("address-or-domain".to_owned())));
    /// Bytes in base64; line breaks are ignored.
    Base64: |text| text.format(Some(SchemaFormat::KnownFormat(KnownFormat::Byte)));
    /// Media type of one part, such as `text/plain; charset=utf-8`.
    MediaType: |text| {
        let token = r"[A-Za-z0-9!#$&^_.+-]+";
        let text = text.max_length(Some(DraftAttachment::MAX_CONTENT_TYPE));
        text.pattern(Some(format!(r"^(?![Mm][Uu][Ll][Tt][Ii][Pp][Aa][Rr][Tt]/){token}/{token}(;[ -~]*)?$")))
    };
    /// Content-ID, with or without angle brackets.
    ContentId: |text| text.pattern(Some(r##"^<?[!#-'*-;=?-\[\]-~]+>?$"##));
}

/// The text of a cursor: a number, and the end of the event's id. Those of older versions are a number alone.
pub(crate) const CURSOR: &str = "0|[1-9][0-9]{0,17}(-[0-9a-hjkmnp-tv-z]{8})?";

/// All types and groups, so that the document describes exactly what is accepted.
fn event_types_pattern() -> String {
    let mut names: Vec<String> = EventType::ALL.iter().map(|event_type| event_type.as_str().to_owned()).collect();
    names.extend(EventType::groups().into_iter().map(|group| format!("{group}.*")));
    names.sort_unstable();
    names.push("*".to_owned());
    let names = names.join("|").replace('.', r"\.").replace('*', r"\*");
    format!("^({names})(,({names}))*$")
}

/// Content of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "describes downloads in the document; they are streamed")]
pub(crate) struct Blob(Vec<u8>);

/// Declares how strings in requests are read.
macro_rules! read_texts {
    ($($name:ident => $read:ty: $parse:expr;)+) => {
        $(impl Text for $name {
            type Read = $read;

            fn inline() -> RefOr<Schema> {
                <Self as PartialSchema>::schema()
            }

            fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
                reference::<Self>(schemas)
            }

            fn parse(field: &str, text: String) -> Result<$read, Violations> {
                let parse: fn(&str, String) -> Result<$read, Violations> = $parse;
                parse(field, text)
            }
        })+
    };
}

read_texts! {
    MessageState => MessageStatus: parsed;
    DeliveryOutcome => Outcome: parsed;
    QueueStateName => QueueState: parsed;
    TokenType => TokenKind: parsed;
    PermissionName => Permission: parsed;
    DkimAlgorithmName => DkimAlgorithm: parsed;
    GroupByName => GroupBy: parsed;
    SaveSentName => SaveSent: parsed;
    AddressOrDomain => Sender: parsed;
    EventTypes => Vec<TypePattern>: |field, text| checked(field, text.split(',').map(str::parse).collect());
    EventPosition => After: parsed;
    Searched => SearchText: parsed;
    NewPassword => SecretText: PasswordRule::parse;
    PasswordHash => ImportedHash: ImportedHash::parse;
    ShortText => String: |field, text| OneLine::parse(field, &text);
    DateOrTime => Timestamp: |field, text| checked(field, Timestamp::parse_date_or_time(&text));
    // The operation validates these, to name all violations of its rules at once.
    TokenName => String: unchanged;
    HeaderText => String: unchanged;
    NamedAddressText => String: unchanged;
    MediaType => String: unchanged;
    ContentId => String: unchanged;
    RuleFieldName => String: unchanged;
    RuleComparisonName => String: unchanged;
    RuleActionName => String: unchanged;
}

/// Declares how strings without a name in the document are described and read.
macro_rules! plain_texts {
    ($($name:ty => $read:ty: $build:expr, $parse:expr;)+) => {
        $(impl Text for $name {
            type Read = $read;

            fn inline() -> RefOr<Schema> {
                let build: fn(ObjectBuilder) -> ObjectBuilder = $build;
                build(ObjectBuilder::new().schema_type(Type::String)).into()
            }

            fn parse(field: &str, text: String) -> Result<$read, Violations> {
                let parse: fn(&str, String) -> Result<$read, Violations> = $parse;
                parse(field, text)
            }
        })+
    };
}

/// File name, at most 255 bytes in UTF-8.
pub(crate) struct FileName;

plain_texts! {
    EmailAddress => Self: |text| text.format(Some(SchemaFormat::KnownFormat(KnownFormat::IdnEmail))), parsed;
    DomainName => Self: |text| text.format(Some(SchemaFormat::KnownFormat(KnownFormat::IdnHostname))), parsed;
    MessageId => Self: |text| text.format(Some(SchemaFormat::Custom("uuid".to_owned()))), parsed;
    EventCursor => Self: |text| text.min_length(Some(1)).pattern(Some(format!("^({CURSOR})$"))), parsed;
    FileName => String: |text| text.min_length(Some(1)).max_length(Some(255)).pattern(Some(ON_ONE_LINE)), unchanged;
    String => Self: |text| text, unchanged;
    SecretText => Self: |text| text, |_, text| Ok(Secret::new(text));
}

fn parsed<T: FromStr<Err: fmt::Display>>(field: &str, text: String) -> Result<T, Violations> {
    checked(field, text.parse())
}

fn unchanged(_: &str, text: String) -> Result<String, Violations> {
    Ok(text)
}

/// The error of `result` as the violation of `field`.
pub(crate) fn checked<T, E: fmt::Display>(field: &str, result: Result<T, E>) -> Result<T, Violations> {
    result.map_err(|error| Violations::of(field, error.to_string()))
}
