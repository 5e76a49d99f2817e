//! Writers for responses, one file per family, without IO.

pub(super) mod body_structure;
mod encoded_word;
mod envelope;
pub(super) mod fetch;
pub(super) mod list;
pub(super) mod quota;
pub(super) mod search;
pub(super) mod select;
pub(super) mod status;
pub(super) mod thread;

use crate::token::Writer;

/// Writes text. Non-ASCII becomes encoded words unless the client enabled UTF-8; control characters become spaces.
fn header_text(writer: &mut Writer, text: &str) {
    let text = encoded_word::on_one_line(text);
    if writer.is_utf8() {
        writer.string(text.as_bytes());
    } else {
        writer.string(encoded_word::encode(&text).as_bytes());
    }
}

fn header_ntext(writer: &mut Writer, text: Option<&str>) {
    match text {
        Some(text) => header_text(writer, text),
        None => {
            writer.raw("NIL");
        }
    }
}
