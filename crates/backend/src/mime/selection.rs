//! Which part is the body and which leaves are attachments: the one home of that rule.

use super::filename;
use super::limits::Limits;
use super::plain;
use super::structure::Part;

/// Indexes of the chosen parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chosen {
    /// The first text/plain part that is no attachment.
    pub(super) text: Option<usize>,
    /// The first text/html part that is no attachment.
    pub(super) html: Option<usize>,
    /// Every other leaf, in the order of the message.
    pub(super) attachments: Vec<usize>,
}

/// Chooses among all parts of a message; the first is the message itself.
pub(super) fn choose(parts: &[Part]) -> Chosen {
    let leaves = || parts.iter().enumerate().filter(|(_, part)| !part.has_parts);
    let first = |kind| leaves().find(|(at, part)| part.media_type == kind && may_be_body(*at, part)).map(|(at, _)| at);
    let (text, html) = (first("text/plain"), first("text/html"));
    let attachments = leaves().map(|(at, _)| at).filter(|&at| text != Some(at) && html != Some(at)).collect();
    Chosen { text, html, attachments }
}

/// Whether a text part is for reading in place. One with a file name is for keeping, unless it is all there is.
fn may_be_body(index: usize, part: &Part) -> bool {
    part.disposition.value != "attachment" && (index == 0 || given_name(part).is_none())
}

fn given_name(part: &Part) -> Option<&str> {
    part.disposition.parameter("filename").or_else(|| part.content_type.parameter("name"))
}

/// The parameters of its type that are told with the file: how its characters are written, where its lines end (RFC
/// 3676), what a calendar asks for (RFC 6047). Those of a type that is shown as another mean nothing; US-ASCII is what a
/// text is in that names nothing (RFC 2045 section 5.2), and some servers name it for it.
pub(super) fn type_parameters(part: &Part) -> String {
    const TOLD: [&str; 4] = ["charset", "method", "format", "delsp"];
    /// Longer than any that means something.
    const MAX_OCTETS: usize = 75;
    if part.content_type.value != part.media_type {
        return String::new();
    }
    let told = TOLD.iter().filter_map(|name| part.content_type.parameter(name).map(|value| (name, value)));
    let told = told.filter(|(_, value)| !value.eq_ignore_ascii_case("us-ascii"));
    let plain = told.filter(|(_, value)| value.len() <= MAX_OCTETS && plain::is_word(value));
    plain.map(|(name, value)| format!("; {name}={value}")).collect()
}

/// Whether it is a message that was forwarded.
pub(super) fn is_message(part: &Part) -> bool {
    matches!(part.media_type.as_str(), "message/rfc822" | "message/global")
}

/// The name that the sender gave; that of a forwarded message is its subject when the sender gave none.
pub(super) fn name(part: &Part, index: usize, limits: &Limits, subject: impl FnOnce() -> String) -> String {
    let max = limits.max_filename_characters;
    let given = given_name(part).and_then(|name| filename::as_sent(name, max));
    if !is_message(part) {
        return given.unwrap_or_else(|| filename::made_up(index, &part.media_type));
    }
    let name = given.or_else(|| filename::as_sent(&subject(), max));
    name.map_or_else(|| filename::made_up(index, &part.media_type), |name| filename::as_eml(&name, max))
}
