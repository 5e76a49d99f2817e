//! BODY and BODYSTRUCTURE.

use super::{envelope, header_ntext, header_text};
use crate::server::mime::{BodyStructure, Extension, Multipart, SinglePart, SinglePartKind};
use crate::token::Writer;

/// Maximum nesting depth. A deeper part is written as an opaque one, so that a hostile message cannot exhaust the
/// stack of the server or a client.
const MAX_DEPTH: usize = 256;

/// Writes a structure; with `extended`, the extension data of BODYSTRUCTURE too.
pub(in crate::server) fn write(writer: &mut Writer, body: &BodyStructure, extended: bool) {
    write_level(writer, body, extended, 0);
}

fn write_level(writer: &mut Writer, body: &BodyStructure, extended: bool, depth: usize) {
    writer.raw("(");
    match body {
        _ if depth >= MAX_DEPTH => opaque(writer),
        BodyStructure::Single(part) => single(writer, part, extended, depth),
        BodyStructure::Multipart(part) => multipart(writer, part, extended, depth),
    }
    writer.raw(")");
}

fn opaque(writer: &mut Writer) {
    writer.raw("\"application\" \"octet-stream\" NIL NIL NIL \"7bit\" 0");
}

fn multipart(writer: &mut Writer, part: &Multipart, extended: bool, depth: usize) {
    for child in &part.parts {
        write_level(writer, child, extended, depth + 1);
    }
    if part.parts.is_empty() {
        // The grammar requires at least one part (RFC 3501 section 9, `body-type-mpart`).
        writer.raw("(\"text\" \"plain\" NIL NIL NIL \"7bit\" 0 0)");
    }
    writer.raw(" ").string(part.subtype.as_bytes());
    if extended {
        writer.raw(" ");
        parameters(writer, &part.parameters);
        extension(writer, &part.extension);
    }
}

fn single(writer: &mut Writer, part: &SinglePart, extended: bool, depth: usize) {
    let (media_type, subtype) = match &part.kind {
        SinglePartKind::Basic { media_type, subtype } => (media_type.as_str(), subtype.as_str()),
        SinglePartKind::Text { subtype, .. } => ("text", subtype.as_str()),
        SinglePartKind::Message { .. } => ("message", "rfc822"),
    };
    writer.string(media_type.as_bytes()).raw(" ").string(subtype.as_bytes()).raw(" ");
    parameters(writer, &part.parameters);
    writer.raw(" ");
    header_ntext(writer, part.id.as_deref());
    writer.raw(" ");
    header_ntext(writer, part.description.as_deref());
    writer.raw(" ").string(part.encoding.as_bytes()).raw(" ").number(u64::from(part.bytes));
    match &part.kind {
        SinglePartKind::Basic { .. } => {}
        SinglePartKind::Text { lines, .. } => {
            writer.raw(" ").number(u64::from(*lines));
        }
        SinglePartKind::Message { envelope, body, lines } => {
            writer.raw(" ");
            envelope::write(writer, envelope);
            writer.raw(" ");
            write_level(writer, body, extended, depth + 1);
            writer.raw(" ").number(u64::from(*lines));
        }
    }
    if extended {
        writer.raw(" ");
        header_ntext(writer, part.md5.as_deref());
        extension(writer, &part.extension);
    }
}

fn extension(writer: &mut Writer, extension: &Extension) {
    writer.raw(" ");
    match &extension.disposition {
        None => {
            writer.raw("NIL");
        }
        Some(disposition) => {
            writer.raw("(");
            header_text(writer, &disposition.kind);
            writer.raw(" ");
            parameters(writer, &disposition.parameters);
            writer.raw(")");
        }
    }
    writer.raw(" ");
    match extension.languages.as_slice() {
        [] => writer.raw("NIL"),
        languages => writer.list(languages, |writer, language| header_text(writer, language)),
    };
    writer.raw(" ");
    header_ntext(writer, extension.location.as_deref());
}

fn parameters(writer: &mut Writer, parameters: &[(String, String)]) {
    if parameters.is_empty() {
        writer.raw("NIL");
        return;
    }
    writer.list(parameters, |writer, (name, value)| {
        header_text(writer, name);
        writer.raw(" ");
        header_text(writer, value);
    });
}
