//! Composes a message from a draft (RFC 5322, RFC 2045 to 2049). Pure: the same draft, identifier and time give the
//! same bytes.

mod files;
mod header_values;

use std::borrow::Cow;
use std::io;

use mail_builder::encoders::Base64Encoder;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId as MessageIdHeader;
use mail_builder::mime::{BodyPart, MimePart};
use mail_builder::{IoWriter, MessageBuilder, Writer};
use mailapi_backend::{Buffer, BufferError};
use mailapi_model::{Blob, Draft, DraftAttachment, MessageId, Timestamp};

use self::files::{File, Files};
use self::header_values::{content_type, with_name, with_parameter};

/// The message cannot be composed: data on disk cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the message could not be composed: {0}")]
pub struct ComposeError(#[from] pub(crate) io::Error);

impl From<BufferError> for ComposeError {
    fn from(error: BufferError) -> Self {
        Self(error.into())
    }
}

/// What a composed message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For its recipients, who do not see the Bcc recipients.
    Sent,
    /// For its author, who completes it later. The Bcc recipients are a header field.
    Stored,
}

/// Composes the message of `draft`, with CRLF line ends.
///
/// # Errors
/// [`ComposeError`] if a file of the draft cannot be read from disk.
pub fn compose(draft: &Draft, form: Form, id: MessageId, now: Timestamp) -> Result<Vec<u8>, ComposeError> {
    let mut message = Vec::new();
    write(draft, form, id, now, &mut message)?;
    Ok(message)
}

/// Composes a message into the buffer for large messages. Blocks.
///
/// # Errors
/// [`ComposeError`] if a file of the draft cannot be read, or the message cannot be buffered.
pub fn compose_large(
    draft: &Draft,
    form: Form,
    id: MessageId,
    now: Timestamp,
    buffer: &Buffer,
) -> Result<Blob, ComposeError> {
    let mut message = IoWriter::new(buffer.writer());
    write(draft, form, id, now, &mut message)?;
    Ok(message.finish()?.finish()?)
}

/// Returns the Message-ID of a composed message, without angle brackets.
pub(crate) fn message_id(draft: &Draft, id: MessageId) -> String {
    format!("{id}@{}", draft.sender_domain())
}

fn write(
    draft: &Draft,
    form: Form,
    id: MessageId,
    now: Timestamp,
    output: &mut impl Writer,
) -> Result<(), ComposeError> {
    let files = Files::of(draft, id)?;
    let mut message = MessageBuilder::new()
        .date(Date::new(now.as_seconds()))
        // The Message-ID precedes the fields that rules of the mail server may match. The log lines of these rules
        // can therefore be attributed to the message.
        .message_id(MessageIdHeader::new(message_id(draft, id)))
        .header("From", header_values::people(std::slice::from_ref(draft.from())));
    let bcc = if form == Form::Stored { draft.bcc() } else { &[] };
    for (name, people) in [("To", draft.to()), ("Cc", draft.cc()), ("Bcc", bcc)] {
        if !people.is_empty() {
            message = message.header(name, header_values::people(people));
        }
    }
    if let Some(reply_to) = draft.reply_to() {
        message = message.header("Reply-To", header_values::people(std::slice::from_ref(reply_to)));
    }
    message = message.header("Subject", header_values::text(draft.subject()));
    for header in draft.headers() {
        message = message.header(header.name.as_str(), header_values::unknown(&header.value));
    }
    let body = with_files(draft, &Boundaries(id), &files);
    files.write(message.body(body), output)
}

/// Boundaries derived from the identifier, so that the same message can be composed again. They cannot occur in the
/// parts: the identifier is random, and was generated after the parts were written.
struct Boundaries(MessageId);

impl Boundaries {
    fn multipart<'x>(&self, kind: &'static str, parts: Vec<MimePart<'x>>) -> MimePart<'x> {
        let boundary = format!("=_{kind}_{}", self.0);
        MimePart::new(ContentType::new(format!("multipart/{kind}")).attribute("boundary", boundary), parts)
    }
}

/// Body and files: `mixed(related(alternative(text, html), inline…), attached…)`, without unneeded levels.
fn with_files<'x>(draft: &'x Draft, boundaries: &Boundaries, files: &Files<'x>) -> MimePart<'x> {
    let (mut inline, mut attached) = (Vec::new(), Vec::new());
    for (attachment, file) in draft.attachments().iter().zip(files.iter()) {
        let parts = if attachment.content_id.is_some() { &mut inline } else { &mut attached };
        parts.push(part(attachment, file));
    }
    let mut parts = vec![alternatives(draft, boundaries)];
    if !inline.is_empty() {
        parts.append(&mut inline);
        parts = vec![boundaries.multipart("related", parts)];
    }
    parts.append(&mut attached);
    only_or(parts, |parts| boundaries.multipart("mixed", parts))
}

fn alternatives<'x>(draft: &'x Draft, boundaries: &Boundaries) -> MimePart<'x> {
    let text = draft.text().map(|text| readable("text/plain", text));
    let html = draft.html().map(|html| readable("text/html", html));
    only_or(text.into_iter().chain(html).collect(), |parts| boundaries.multipart("alternative", parts))
}

/// A text part. The builder selects its encoding but ignores NUL, which is allowed only in base64 (RFC 2045
/// section 2.7).
fn readable<'x>(media_type: &'static str, text: &'x str) -> MimePart<'x> {
    let text = with_one_kind_of_line_end(text);
    if !text.contains('\0') {
        return MimePart::new(media_type, text);
    }
    let mut encoded = Vec::new();
    Base64Encoder::new().wrap_lines().encode_into(text.replace('\n', "\r\n").as_bytes(), &mut encoded);
    let media_type = ContentType::new(media_type).attribute("charset", "utf-8");
    MimePart::new(media_type, BodyPart::Binary(encoded.into())).transfer_encoding("base64")
}

/// Converts line ends to LF. The builder turns LF into CRLF, but would pass on a lone CR, which RFC 5321 section
/// 2.3.8 forbids.
fn with_one_kind_of_line_end(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text.into() }
}

fn only_or<'x>(mut parts: Vec<MimePart<'x>>, wrap: impl FnOnce(Vec<MimePart<'x>>) -> MimePart<'x>) -> MimePart<'x> {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            wrap(parts)
        }
    }
}

/// An already encoded file as a part.
fn part<'x>(attachment: &'x DraftAttachment, file: &File<'x>) -> MimePart<'x> {
    let content = BodyPart::Binary(file.placeholder.clone().into());
    let part = MimePart::new(with_name(content_type(file.content_type), &attachment.filename), content);
    let disposition = if attachment.content_id.is_some() { "inline" } else { "attachment" };
    let disposition = with_parameter(ContentType::new(disposition), "filename", attachment.filename.as_str().into());
    let part = part.header("Content-Disposition", disposition);
    let part = match &attachment.content_id {
        Some(id) => part.cid(id.as_str()),
        None => part,
    };
    part.transfer_encoding(file.encoding())
}
