//! The envelope of a message: what `MAIL` and `RCPT` say.
//!
//! The server fills these types, the client writes them out, so that a relayed message keeps what
//! its sender asked for. Addresses are plain strings in canonical form (see [`MailFrom::reverse_path`]);
//! the embedder turns them into its own type.

use std::fmt;

use crate::xtext;

/// Who sends a message to whom, apart from what its headers say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The sender and the parameters of the message.
    pub mail: MailFrom,
    /// The recipients, in the order in which they were given.
    pub recipients: Vec<RcptTo>,
}

impl Envelope {
    /// An envelope without parameters. An empty `reverse_path` means that nobody wants to hear of a failure.
    pub fn new<R>(reverse_path: impl Into<String>, recipients: R) -> Self
    where
        R: IntoIterator,
        R::Item: Into<String>,
    {
        Self { mail: MailFrom::new(reverse_path), recipients: recipients.into_iter().map(RcptTo::new).collect() }
    }

    /// Whether an address needs SMTPUTF8 to be written at all (RFC 6531 section 3.3).
    pub fn has_international_address(&self) -> bool {
        !self.mail.reverse_path.is_ascii() || self.recipients.iter().any(|recipient| !recipient.forward_path.is_ascii())
    }
}

/// The argument of `MAIL` (RFC 5321 section 4.1.1.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailFrom {
    /// `local-part@domain`, or empty for the null reverse path `<>`. Source routes are dropped
    /// (RFC 5321 appendix F.2); a local part is in quotes only where it needs them; the domain may be a
    /// literal such as `[192.0.2.1]`.
    pub reverse_path: String,
    /// How long the client says the message is, in bytes (SIZE, RFC 1870). Our client computes its own.
    pub size: Option<u64>,
    /// What the client says the body may contain (RFC 6152). Our client looks at the message itself.
    pub body: BodyType,
    /// Whether addresses or headers may hold UTF-8 (RFC 6531). Our client announces it only for a message that
    /// needs it.
    pub smtputf8: bool,
    /// How much of the message a failure notification returns (RFC 3461 section 4.3).
    pub ret: Option<Ret>,
    /// The sender's own name for this envelope, decoded: printable ASCII, at most 100 characters
    /// in its encoded form (RFC 3461 section 4.4).
    pub envid: Option<String>,
}

impl MailFrom {
    /// A sender without parameters.
    pub fn new(reverse_path: impl Into<String>) -> Self {
        Self { reverse_path: reverse_path.into(), ..Self::default() }
    }
}

/// The `BODY` parameter (RFC 6152). `BINARYMIME` is not here, since CHUNKING is not offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BodyType {
    /// ASCII only; also what is meant without the parameter.
    #[default]
    SevenBit,
    /// Bytes above 127 may occur.
    EightBitMime,
}

/// The `RET` parameter (RFC 3461 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ret {
    /// The whole message comes back with a failure notification.
    Full,
    /// Only its headers do.
    Headers,
}

impl fmt::Display for Ret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full => "FULL",
            Self::Headers => "HDRS",
        })
    }
}

/// The argument of `RCPT` (RFC 5321 section 4.1.1.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RcptTo {
    /// `local-part@domain` in the form of [`MailFrom::reverse_path`], or `postmaster` alone, in
    /// whatever case it came, which every server must take (RFC 5321 section 4.5.1).
    pub forward_path: String,
    /// When the sender wants a notification; `None` leaves it to the server.
    pub notify: Option<Notify>,
    /// The `ORCPT` parameter as it was written, `type;encoded-address`, so that it can be passed on
    /// unchanged (RFC 3461 section 5.2.4). [`RcptTo::original_recipient`] decodes it.
    pub orcpt: Option<String>,
}

impl RcptTo {
    /// A recipient without parameters.
    pub fn new(forward_path: impl Into<String>) -> Self {
        Self { forward_path: forward_path.into(), ..Self::default() }
    }

    /// The same recipient, with `address` named as the one that the sender first wrote to. One outside of ASCII would
    /// need the encoding of RFC 6533 section 3, and is not named.
    #[must_use]
    pub fn meaning(self, address: &str) -> Self {
        let orcpt = address.is_ascii().then(|| format!("rfc822;{}", xtext::encode(address)));
        Self { orcpt, ..self }
    }

    /// The address type (`rfc822`, `utf-8`) and the address that the sender first wrote to. An `rfc822`
    /// address comes decoded, one of another type as it was written (RFC 6533 section 3 lets it go
    /// into a notification like that).
    pub fn original_recipient(&self) -> Option<(&str, String)> {
        let (address_type, address) = self.orcpt.as_deref()?.split_once(';')?;
        let decoded =
            if address_type.eq_ignore_ascii_case("rfc822") { xtext::decode(address)? } else { address.to_owned() };
        Some((address_type, decoded))
    }
}

/// The `NOTIFY` parameter (RFC 3461 section 4.1). With no flag set it means `NEVER`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notify {
    /// Tell the sender when the message is delivered.
    pub success: bool,
    /// Tell the sender when delivery has failed for good.
    pub failure: bool,
    /// Tell the sender when delivery takes unusually long.
    pub delay: bool,
}

impl Notify {
    /// No notification whatever happens.
    pub const NEVER: Self = Self { success: false, failure: false, delay: false };
}

impl fmt::Display for Notify {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen = [(self.success, "SUCCESS"), (self.failure, "FAILURE"), (self.delay, "DELAY")];
        let names: Vec<&str> = chosen.into_iter().filter_map(|(wanted, name)| wanted.then_some(name)).collect();
        match names.as_slice() {
            [] => formatter.write_str("NEVER"),
            names => formatter.write_str(&names.join(",")),
        }
    }
}
