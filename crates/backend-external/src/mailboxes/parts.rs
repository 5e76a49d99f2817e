//! Converts the server's BODYSTRUCTURE to the form that selects bodies and attachments.

use mailapi_backend::mime::{DescribedAttachment, DescribedBody, DescribedMessage, DescribedPart};
use mailapi_imap::client::{BodyStructure, MediaDetails, SinglePart};

/// The parts of a message and their part numbers.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    /// The selected bodies and attachments.
    pub(super) chosen: DescribedMessage,
    /// The part numbers of each described part (RFC 3501 section 6.4.5).
    paths: Vec<Vec<u32>>,
    /// The server's description may be incomplete.
    pub(super) is_doubtful: bool,
}

impl Parts {
    pub(super) fn of(structure: BodyStructure) -> Self {
        let mut walk = Walk { described: Vec::new(), paths: Vec::new(), is_doubtful: false };
        walk.visit(structure, &mut Vec::new());
        Self { chosen: DescribedMessage::of(walk.described), paths: walk.paths, is_doubtful: walk.is_doubtful }
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let attachment = |one: &DescribedAttachment| {
            let texts = [&one.info.filename, &one.info.content_type, &one.info.type_parameters];
            let texts = texts.into_iter().chain(&one.info.content_id).map(String::len);
            size_of::<DescribedAttachment>() + texts.sum::<usize>()
        };
        let bodies = self.chosen.bodies.iter();
        let charset = |body: &DescribedBody| body.charset.as_ref().map_or(0, String::len);
        let charsets: usize = bodies.map(|body| size_of::<DescribedBody>() + charset(body)).sum();
        let paths: usize = self.paths.iter().map(|path| size_of::<Vec<u32>>() + size_of_val(path.as_slice())).sum();
        size_of::<Self>() + charsets + paths + self.chosen.attachments.iter().map(attachment).sum::<usize>()
    }

    /// Returns the part numbers of a described part.
    pub(super) fn path(&self, part: usize) -> &[u32] {
        self.paths.get(part).map_or(&[1], Vec::as_slice)
    }
}

/// Whether a message of this structure has attachments: the only fact about parts that a list shows.
pub(super) fn has_attachments(structure: BodyStructure) -> bool {
    let chosen = match structure {
        BodyStructure::Single(part) => {
            let part = describe(*part);
            if part.is_certainly_body() {
                return false;
            }
            DescribedMessage::of(vec![part])
        }
        structure => Parts::of(structure).chosen,
    };
    !chosen.attachments.is_empty()
}

struct Walk {
    described: Vec<DescribedPart>,
    paths: Vec<Vec<u32>>,
    is_doubtful: bool,
}

impl Walk {
    /// Visits a part and its children. The parser of the structure limits the depth.
    fn visit(&mut self, structure: BodyStructure, path: &mut Vec<u32>) {
        match structure {
            BodyStructure::Single(part) => {
                // A message that is not multipart has a single part, 1.
                let own = if path.is_empty() { vec![1] } else { path.clone() };
                // Servers describe a header without an end as a part without bytes.
                self.is_doubtful |= part.bytes == 0 && (path.is_empty() || part.media_type == "text");
                self.push(DescribedPart { level: path.len(), ..describe(*part) }, own);
            }
            BodyStructure::Multipart(multipart) => {
                let (subtype, parts) = (multipart.subtype, multipart.parts);
                let media_type = "multipart".to_owned();
                let holder = DescribedPart { media_type, subtype, level: path.len(), ..DescribedPart::default() };
                self.push(DescribedPart { has_parts: !parts.is_empty(), ..holder }, path.clone());
                for (part, number) in parts.into_iter().zip(1..) {
                    path.push(number);
                    self.visit(part, path);
                    path.pop();
                }
            }
            BodyStructure::Opaque => {
                self.is_doubtful = true;
                let media_type = "application".to_owned();
                let (subtype, level) = ("octet-stream".to_owned(), path.len());
                let part = DescribedPart { media_type, subtype, level, ..DescribedPart::default() };
                self.push(part, path.clone());
            }
        }
    }

    fn push(&mut self, part: DescribedPart, path: Vec<u32>) {
        self.described.push(part);
        self.paths.push(path);
    }
}

fn describe(part: SinglePart) -> DescribedPart {
    DescribedPart {
        media_type: part.media_type,
        subtype: part.subtype,
        parameters: part.parameters,
        disposition: part.disposition,
        content_id: part.id,
        encoding: part.encoding,
        bytes: part.bytes,
        has_parts: false,
        level: 0,
        forwarded_subject: match part.details {
            MediaDetails::Message { envelope, .. } => envelope.subject,
            MediaDetails::None => None,
        },
    }
}
