//! Serialisation of [`MessageStructure`] for one database column. Only this file reads the format; it is not part of
//! the API.

use mailapi_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::message_structure::{AttachmentPart, BodyPart, MessageStructure, PartSpan};
use super::selection::BodyRole;
use super::transfer::TransferEncoding;
use crate::{AttachmentInfo, Correspondent};

/// The first byte. A structure of another version is parsed again from the message.
const VERSION: u8 = 3;

/// The bytes are not a structure of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a message structure of version {VERSION}")]
pub struct MessageStructureError;

type Person = (String, String);
/// Offset, length and encoding.
type Span = (u64, u64, u8);
/// Position, charset, and the three bits of its role.
type Body = (Span, Option<String>, u8);
/// File name, media type with parameters, decoded size, Content-ID, and position.
type Attachment = (String, String, u64, Option<String>, Span);

#[derive(Serialize, Deserialize)]
struct Stored {
    message_id: String,
    from: Person,
    to: Vec<Person>,
    cc: Vec<Person>,
    subject: String,
    date: Option<i64>,
    header_len: u64,
    bodies: Vec<Body>,
    attachments: Vec<Attachment>,
}

impl MessageStructure {
    /// Serialises the structure.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        serde_json::to_writer(&mut bytes, &self.to_stored())
            .expect("strings and numbers always serialize, and a vector takes every byte");
        bytes
    }

    /// Deserialises the output of [`MessageStructure::to_bytes`].
    ///
    /// # Errors
    /// [`MessageStructureError`] for anything else, including other versions.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MessageStructureError> {
        let (&version, rest) = bytes.split_first().ok_or(MessageStructureError)?;
        if version != VERSION {
            return Err(MessageStructureError);
        }
        Self::from_stored(serde_json::from_slice(rest).map_err(|_| MessageStructureError)?)
    }

    fn to_stored(&self) -> Stored {
        let people = |people: &[Correspondent]| people.iter().map(person).collect();
        let body = |body: &BodyPart| (span(&body.span), body.charset.clone(), role(body.role));
        Stored {
            message_id: self.message_id.clone(),
            from: person(&self.from),
            to: people(&self.to),
            cc: people(&self.cc),
            subject: self.subject.clone(),
            date: self.date.map(Timestamp::as_millis),
            header_len: self.header_len,
            bodies: self.bodies.iter().map(body).collect(),
            attachments: self.attachments.iter().map(attachment).collect(),
        }
    }

    fn from_stored(stored: Stored) -> Result<Self, MessageStructureError> {
        let people = |people: Vec<Person>| people.into_iter().map(correspondent).collect();
        let attachments = stored.attachments.into_iter().enumerate().map(read_attachment);
        Ok(Self {
            message_id: stored.message_id,
            from: correspondent(stored.from),
            to: people(stored.to),
            cc: people(stored.cc),
            subject: stored.subject,
            date: stored.date.map(Timestamp::from_millis),
            header_len: stored.header_len,
            bodies: stored.bodies.into_iter().map(read_body).collect::<Result<_, _>>()?,
            attachments: attachments.collect::<Result<_, _>>()?,
        })
    }
}

fn person(person: &Correspondent) -> Person {
    (person.name.clone(), person.email.clone())
}

fn correspondent((name, email): Person) -> Correspondent {
    Correspondent { name, email }
}

fn span(span: &PartSpan) -> Span {
    let encoding = match span.encoding {
        TransferEncoding::Identity => 0,
        TransferEncoding::Base64 => 1,
        TransferEncoding::QuotedPrintable => 2,
    };
    (span.offset, span.length, encoding)
}

fn read_span((offset, length, encoding): Span) -> Result<PartSpan, MessageStructureError> {
    let encoding = match encoding {
        0 => TransferEncoding::Identity,
        1 => TransferEncoding::Base64,
        2 => TransferEncoding::QuotedPrintable,
        _ => return Err(MessageStructureError),
    };
    Ok(PartSpan { offset, length, encoding })
}

fn role(role: BodyRole) -> u8 {
    u8::from(role.is_html) | u8::from(role.in_text) << 1 | u8::from(role.in_html) << 2
}

fn read_body((span, charset, bits): Body) -> Result<BodyPart, MessageStructureError> {
    if bits > 0b111 {
        return Err(MessageStructureError);
    }
    let role = BodyRole { is_html: bits & 1 != 0, in_text: bits & 2 != 0, in_html: bits & 4 != 0 };
    Ok(BodyPart { span: read_span(span)?, charset, role })
}

fn attachment(attachment: &AttachmentPart) -> Attachment {
    let info = attachment.info.clone();
    let content_type = info.content_type + &info.type_parameters;
    (info.filename, content_type, info.size, info.content_id, span(&attachment.span))
}

fn read_attachment((index, stored): (usize, Attachment)) -> Result<AttachmentPart, MessageStructureError> {
    let (filename, mut content_type, size, content_id, span) = stored;
    // Structures stored before parameters were added have none.
    let type_parameters = content_type.split_off(content_type.find(';').unwrap_or(content_type.len()));
    let index = u32::try_from(index).map_err(|_| MessageStructureError)?;
    Ok(AttachmentPart {
        info: AttachmentInfo { index, filename, content_type, type_parameters, size, content_id },
        span: read_span(span)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn foreign_and_older_bytes_are_refused() {
        let good = MessageStructure::of(b"Subject: hi\r\n\r\nhello").to_bytes();
        assert!(MessageStructure::from_bytes(&good).is_ok());
        for bytes in [&b""[..], b"\x01", b"\x01{}", b"\x00", b"\x03{}", b"\x02{}", &good[1..], &good[..good.len() - 1]]
        {
            assert_eq!(MessageStructure::from_bytes(bytes), Err(MessageStructureError));
        }
    }

    #[test]
    fn a_digest_from_before_parameters_were_kept_is_read() {
        let part = "Content-Type: text/plain; charset=koi8-r\r\nContent-Disposition: attachment; filename=a\r\n\r\nhi";
        let mut structure = MessageStructure::of(part.as_bytes());
        assert_eq!(structure.attachments[0].info.type_parameters, "; charset=koi8-r");
        let stored = String::from_utf8(structure.to_bytes()).unwrap();
        assert_eq!(MessageStructure::from_bytes(stored.as_bytes()).as_ref(), Ok(&structure));
        let older = stored.replace("; charset=koi8-r", "");
        assert!(older.contains("[\"a\",\"text/plain\",2,null,"), "{older}");
        structure.attachments[0].info.type_parameters.clear();
        assert_eq!(MessageStructure::from_bytes(older.as_bytes()), Ok(structure));
    }

    proptest! {
        #[test]
        fn what_was_stored_is_read_again(raw in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "((From|To|Cc|Subject|Message-ID|Date|Content-Type|X): ([ -~é]{0,30}|([a-c]@[a-c],? ?){0,9}|<[a-z@.]{0,9}>|multipart/mixed; boundary=b)\r\n){0,8}(\r\n((--b|Content-Type: text/html; charset=[a-z;/]{1,3}|x|)\r\n){0,8})?"
                    .prop_map(String::into_bytes),
            ], foreign in "\\x01\\PC{0,80}") {
            let structure = MessageStructure::of(&raw);
            prop_assert_eq!(MessageStructure::from_bytes(&structure.to_bytes()), Ok(structure));
            let _ = MessageStructure::from_bytes(foreign.as_bytes());
            let _ = MessageStructure::from_bytes(&raw);
        }
    }
}
