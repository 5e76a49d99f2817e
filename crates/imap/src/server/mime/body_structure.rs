//! BODYSTRUCTURE's values.

use super::envelope::Envelope;

/// The structure of a message or part (RFC 3501 section 7.4.2). All texts are as written in the
/// header, except that the encoder turns what is not ASCII into encoded words.
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
    /// Its media type and what depends on it.
    pub kind: SinglePartKind,
    /// Content-Type's parameters.
    pub parameters: Vec<(String, String)>,
    /// Content-ID with its angle brackets.
    pub id: Option<String>,
    /// Content-Description.
    pub description: Option<String>,
    /// Content-Transfer-Encoding; `7bit` where the header has none.
    pub encoding: String,
    /// Octets of the body as transferred.
    pub octets: u32,
    /// Content-MD5.
    pub md5: Option<String>,
    /// The rest.
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
        /// Lines of the body as transferred.
        lines: u32,
    },
    /// message/rfc822
    Message {
        /// The inner message's envelope.
        envelope: Box<Envelope>,
        /// The inner message's structure.
        body: BodyStructure,
        /// Lines of the body as transferred.
        lines: u32,
    },
}

/// A multipart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// The parts. Where there is none, the encoder writes one empty text part, since the grammar
    /// demands one.
    pub parts: Vec<BodyStructure>,
    /// Such as `mixed`.
    pub subtype: String,
    /// Content-Type's parameters.
    pub parameters: Vec<(String, String)>,
    /// The rest.
    pub extension: Extension,
}

/// Extension data of every part; BODY leaves it out.
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
