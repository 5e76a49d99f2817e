//! Conversion between the port's replies and SMTP replies.

use mailapi_model::{EnhancedCode, Reply};
use mailapi_smtp::Reply as WireReply;

/// Converts a reply for the wire.
pub(crate) fn to_wire(reply: &Reply) -> WireReply {
    let enhanced = reply.enhanced.map(|code| (code.class, code.subject, code.detail).into());
    WireReply { code: reply.code, enhanced, text: reply.text.clone() }
}

/// Converts a reply for storage: one line, without control characters.
pub(crate) fn from_wire(reply: &WireReply) -> Reply {
    let enhanced = reply.enhanced.map(|code| EnhancedCode::new(code.class, code.subject, code.detail));
    Reply { code: reply.code, enhanced, text: one_line(&reply.text) }
}

/// Joins another server's text into one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split(|character: char| character.is_control()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_several_lines_is_recorded_on_one() {
        let reply = from_wire(&WireReply::new(550, (5, 7, 1), "no\nsee\r\n\u{7}there"));
        assert_eq!(reply.to_string(), "550 5.7.1 no see there");
        assert_eq!(to_wire(&reply).to_string(), "550 5.7.1 no see there");
    }
}
