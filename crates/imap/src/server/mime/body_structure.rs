//! The data of BODYSTRUCTURE.

use super::envelope::Envelope;

/// The structure of a message or part (RFC 3501 section 7.4.2). Texts are as in the header; the encoder writes
/// non-ASCII as encoded words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyStructure {
    /// A part that is not a multipart.
    Single(Box<SinglePart>),
    /// A multipart.
    Multipart(Multipart),
}

/// A part that is not a multipart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinglePart {
    /// The media type and the fields that depend on it.
    pub kind: SinglePartKind,
    /// Content-Type's parameters.
    pub parameters: Vec<(String, String)>,
    /// Content-ID with its angle brackets.
    pub id: Option<String>,
    /// Content-Description.
    pub description: Option<String>,
    /// Content-Transfer-Encoding; `7bit` where the header has none.
    pub encoding: String,
    /// Size of the encoded body, in octets.
    pub bytes: u32,
    /// Content-MD5.
    pub md5: Option<String>,
    /// The remaining extension data.
    pub extension: Extension,
}

/// The media type of a single part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinglePartKind {
    /// Neither text nor message/rfc822.
    Basic {
        /// Such as `image`.
        media_type: String,
        /// Such as `png`.
        subtype: String,
    },
    /// text
    Text {
        /// Such as `plain`.
        subtype: String,
        /// Number of lines of the encoded body.
        lines: u32,
    },
    /// message/rfc822
    Message {
        /// The inner message's envelope.
        envelope: Box<Envelope>,
        /// The inner message's structure.
        body: BodyStructure,
        /// Number of lines of the encoded body.
        lines: u32,
    },
}

/// A multipart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// The parts. If there is none, the encoder writes one empty text part, since the grammar requires one.
    pub parts: Vec<BodyStructure>,
    /// Such as `mixed`.
    pub subtype: String,
    /// Content-Type's parameters.
    pub parameters: Vec<(String, String)>,
    /// The remaining extension data.
    pub extension: Extension,
}

/// The extension data of all parts; BODY omits it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extension {
    /// Content-Disposition.
    pub disposition: Option<Disposition>,
    /// Content-Language.
    pub languages: Vec<String>,
    /// Content-Location.
    pub location: Option<String>,
}

/// Content-Disposition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disposition {
    /// Such as `attachment`.
    pub kind: String,
    /// Its parameters.
    pub parameters: Vec<(String, String)>,
}
