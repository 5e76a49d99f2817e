//! The envelope of a message: the arguments of `MAIL` and `RCPT`.
//!
//! The server fills these types and the client writes them, so a relayed message keeps its sender's
//! parameters. Addresses are plain strings in canonical form (see [`MailFrom::reverse_path`]); the host
//! converts them to its own type.

use std::fmt;

use crate::xtext;

/// Sender and recipients of a message, independent of its header fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The sender and the parameters of the message.
    pub mail: MailFrom,
    /// The recipients, in the order of their `RCPT` commands.
    pub recipients: Vec<RcptTo>,
}

impl Envelope {
    /// Returns an envelope without parameters. An empty `reverse_path` means that no failure notification is
    /// sent.
    pub fn new<R>(reverse_path: impl Into<String>, recipients: R) -> Self
    where
        R: IntoIterator,
        R::Item: Into<String>,
    {
        Self { mail: MailFrom::new(reverse_path), recipients: recipients.into_iter().map(RcptTo::new).collect() }
    }

    /// Returns whether an address requires SMTPUTF8 (RFC 6531 section 3.3).
    #[must_use]
    pub fn has_international_address(&self) -> bool {
        !self.mail.reverse_path.is_ascii() || self.recipients.iter().any(|recipient| !recipient.forward_path.is_ascii())
    }
}

/// The argument of `MAIL` (RFC 5321 section 4.1.1.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailFrom {
    /// `local-part@domain`, or empty for the null reverse path `<>`. Source routes are removed (RFC 5321
    /// appendix F.2). A local part is quoted only where it has to be. The domain may be an address literal
    /// such as `[192.0.2.1]`.
    pub reverse_path: String,
    /// Message size in bytes as declared by the client (SIZE, RFC 1870). Our client computes the size itself.
    pub size: Option<u64>,
    /// Body type as declared by the client (RFC 6152). Our client inspects the message instead.
    pub body: BodyType,
    /// Whether addresses or header fields may contain UTF-8 (RFC 6531). Our client announces it only for a
    /// message that needs it.
    pub smtputf8: bool,
    /// How much of the message a failure notification returns (RFC 3461 section 4.3).
    pub ret: Option<Ret>,
    /// The sender's identifier for this envelope, decoded: printable ASCII, at most 100 characters when
    /// encoded (RFC 3461 section 4.4).
    pub envid: Option<String>,
}

impl MailFrom {
    /// Returns a sender without parameters.
    pub fn new(reverse_path: impl Into<String>) -> Self {
        Self { reverse_path: reverse_path.into(), ..Self::default() }
    }
}

/// The `BODY` parameter (RFC 6152). `BINARYMIME` (RFC 3030) is not offered: few servers take binary bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BodyType {
    /// ASCII only; the default without the parameter.
    #[default]
    SevenBit,
    /// Bytes above 127 may occur.
    EightBitMime,
}

/// The `RET` parameter (RFC 3461 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ret {
    /// A failure notification contains the whole message.
    Full,
    /// A failure notification contains only the header fields.
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
    /// `local-part@domain` in the form of [`MailFrom::reverse_path`], or `postmaster` alone, in its original
    /// case. Every server must accept the latter (RFC 5321 section 4.5.1).
    pub forward_path: String,
    /// Conditions for a notification; `None` leaves the choice to the server.
    pub notify: Option<Notify>,
    /// The `ORCPT` parameter as received, `type;encoded-address`, so that it can be relayed unchanged (RFC
    /// 3461 section 5.2.4). [`RcptTo::original_recipient`] decodes it.
    pub orcpt: Option<String>,
}

impl RcptTo {
    /// Returns a recipient without parameters.
    pub fn new(forward_path: impl Into<String>) -> Self {
        Self { forward_path: forward_path.into(), ..Self::default() }
    }

    /// Sets `address` as the original recipient. An address outside ASCII is left out: it would need the
    /// encoding of RFC 6533 section 3.
    #[must_use]
    pub fn meaning(self, address: &str) -> Self {
        let orcpt = address.is_ascii().then(|| format!("rfc822;{}", xtext::encode(address)));
        Self { orcpt, ..self }
    }
}

/// The `NOTIFY` parameter (RFC 3461 section 4.1). Without any flag it means `NEVER`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notify {
    /// Notify the sender when the message is delivered.
    pub success: bool,
    /// Notify the sender when delivery has failed permanently.
    pub failure: bool,
    /// Notify the sender when delivery is delayed.
    pub delay: bool,
}

impl Notify {
    /// No notification in any case.
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
