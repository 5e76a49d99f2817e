//! Selects bodies and attachments; the only home of that rule.

use super::filename;
use super::limits::Limits;
use super::plain;
use super::structure::Part;

/// Indexes of the selected parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chosen {
    /// The first text/plain part that is not an attachment.
    pub(super) text: Option<usize>,
    /// The first text/html part that is not an attachment.
    pub(super) html: Option<usize>,
    /// Every other leaf, in message order.
    pub(super) attachments: Vec<usize>,
}

/// Selects among all parts of a message; the first is the message itself.
pub(super) fn choose(parts: &[Part]) -> Chosen {
    let leaves = || parts.iter().enumerate().filter(|(_, part)| !part.has_parts);
    let first = |kind| leaves().find(|(at, part)| part.media_type == kind && may_be_body(*at, part)).map(|(at, _)| at);
    let (text, html) = (first("text/plain"), first("text/html"));
    let attachments = leaves().map(|(at, _)| at).filter(|&at| text != Some(at) && html != Some(at)).collect();
    Chosen { text, html, attachments }
}

/// Returns whether a text part may be a body. One with a file name is an attachment, unless it is the only
/// part.
fn may_be_body(index: usize, part: &Part) -> bool {
    part.disposition.value != "attachment" && (index == 0 || given_name(part).is_none())
}

fn given_name(part: &Part) -> Option<&str> {
    part.disposition.parameter("filename").or_else(|| part.content_type.parameter("name"))
}

/// Returns the type parameters to report with a file: charset, format of lines (RFC 3676), calendar method
/// (RFC 6047).
///
/// Parameters of a replaced type have no meaning. US-ASCII is the default (RFC 2045 section 5.2), which some
/// servers add themselves, so it is omitted.
pub(super) fn type_parameters(part: &Part) -> String {
    const NAMES: [&str; 4] = ["charset", "method", "format", "delsp"];
    /// Longer than any meaningful value.
    const MAX_BYTES: usize = 75;
    if part.content_type.value != part.media_type {
        return String::new();
    }
    let parameters = NAMES.iter().filter_map(|name| part.content_type.parameter(name).map(|value| (name, value)));
    let parameters = parameters.filter(|(_, value)| !value.eq_ignore_ascii_case("us-ascii"));
    let plain = parameters.filter(|(_, value)| value.len() <= MAX_BYTES && plain::is_word(value));
    plain.map(|(name, value)| format!("; {name}={value}")).collect()
}

/// Returns whether a part is a forwarded message.
pub(super) fn is_message(part: &Part) -> bool {
    matches!(part.media_type.as_str(), "message/rfc822" | "message/global")
}

/// Returns the sender's file name; for a forwarded message without one, its subject.
pub(super) fn name(part: &Part, index: usize, limits: &Limits, subject: impl FnOnce() -> String) -> String {
    let max = limits.max_filename_characters;
    let given = given_name(part).and_then(|name| filename::as_sent(name, max));
    if !is_message(part) {
        return given.unwrap_or_else(|| filename::made_up(index, &part.media_type));
    }
    let name = given.or_else(|| filename::as_sent(&subject(), max));
    name.map_or_else(|| filename::made_up(index, &part.media_type), |name| filename::as_eml(&name, max))
}
