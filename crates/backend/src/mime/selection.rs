//! Selects bodies and attachments; the only home of that rule.

use std::borrow::Cow;

use super::filename;
use super::html;
use super::limits::Limits;
use super::plain;
use super::structure::Part;

/// Indexes of the selected parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chosen {
    /// The parts of the bodies, in message order.
    pub(super) bodies: Vec<(usize, BodyRole)>,
    /// Every other leaf, in message order.
    pub(super) attachments: Vec<usize>,
}

/// Where people see a text part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BodyRole {
    /// Whether the part is HTML; otherwise it is plain text.
    pub is_html: bool,
    /// Whether the body for readers of plain text has it.
    pub in_text: bool,
    /// Whether the body for readers of HTML has it.
    pub in_html: bool,
}

/// Selects among all parts of a message; the first is the message itself. The rule is that of RFC 8621 section 4.1.4, but
/// pictures are always attachments, and a file name counts for nothing among alternatives.
pub(super) fn choose(parts: &[Part], limits: &Limits) -> Chosen {
    let mut walk = Walk { limits, roles: vec![BodyRole::default(); parts.len()], texts: 0, htmls: 0, open: Vec::new() };
    for (at, part) in parts.iter().enumerate() {
        walk.close_above(part.level);
        walk.visit(at, part);
    }
    walk.close_above(0);
    let mut chosen = Chosen::default();
    for (at, (part, role)) in parts.iter().zip(walk.roles).enumerate().filter(|(_, (part, _))| !part.has_parts) {
        if role.in_text || role.in_html {
            chosen.bodies.push((at, role));
        } else if !part.is_blank_multipart() {
            chosen.attachments.push(at);
        }
    }
    chosen
}

/// A multipart whose parts are visited.
#[derive(Debug, Clone, Copy)]
struct OpenMultipart {
    kind: MultipartKind,
    /// Number of children visited.
    children: usize,
    is_in_alternative: bool,
    /// Whether its text parts belong to the body for readers of plain text, and of HTML.
    in_text: bool,
    in_html: bool,
    /// The first child, and the number of parts that the bodies had before it.
    first: usize,
    texts_before: usize,
    htmls_before: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MultipartKind {
    Alternative,
    Related,
    Other,
}

struct Walk<'a> {
    limits: &'a Limits,
    roles: Vec<BodyRole>,
    /// Number of parts that the bodies have.
    texts: usize,
    htmls: usize,
    open: Vec<OpenMultipart>,
}

impl Walk<'_> {
    fn visit(&mut self, at: usize, part: &Part) {
        let whole_message = OpenMultipart {
            kind: MultipartKind::Other,
            children: 0,
            is_in_alternative: false,
            in_text: true,
            in_html: true,
            first: 0,
            texts_before: 0,
            htmls_before: 0,
        };
        let holder = self.open.last().copied().unwrap_or(whole_message);
        if let Some(open) = self.open.last_mut() {
            open.children += 1;
        }
        if part.has_parts {
            self.open_multipart(at, part, holder);
        } else if is_inline(part, holder) && self.texts.max(self.htmls) < self.limits.max_bodies {
            self.place(at, part, holder);
        }
    }

    fn open_multipart(&mut self, at: usize, part: &Part, holder: OpenMultipart) {
        let kind = match part.media_type.as_str() {
            "multipart/alternative" => MultipartKind::Alternative,
            "multipart/related" => MultipartKind::Related,
            _ => MultipartKind::Other,
        };
        self.open.push(OpenMultipart {
            kind,
            children: 0,
            is_in_alternative: holder.is_in_alternative || kind == MultipartKind::Alternative,
            first: at + 1,
            texts_before: self.texts,
            htmls_before: self.htmls,
            ..holder
        });
    }

    /// Adds a text part to the bodies. Among alternatives, each body has its own kind. A text deeper in an alternative
    /// decides for which body the parts around it are.
    fn place(&mut self, at: usize, part: &Part, holder: OpenMultipart) {
        let is_html = part.media_type == "text/html";
        let (in_text, in_html) = if holder.kind == MultipartKind::Alternative {
            (holder.in_text && !is_html, holder.in_html && is_html)
        } else if holder.is_in_alternative {
            let (in_text, in_html) = (holder.in_text && !is_html, holder.in_html && is_html);
            if let Some(open) = self.open.last_mut() {
                (open.in_text, open.in_html) = (in_text, in_html);
            }
            (in_text, in_html)
        } else {
            (holder.in_text, holder.in_html)
        };
        self.roles[at] = BodyRole { is_html, in_text, in_html };
        self.texts += usize::from(in_text);
        self.htmls += usize::from(in_html);
    }

    fn close_above(&mut self, level: usize) {
        while self.open.len() > level {
            let Some(closed) = self.open.pop() else { return };
            if closed.kind != MultipartKind::Alternative || !closed.in_text || !closed.in_html {
                continue;
            }
            // An alternative in one form only is in both bodies.
            let (no_text, no_html) = (closed.texts_before == self.texts, closed.htmls_before == self.htmls);
            if no_text != no_html {
                for role in self.roles.iter_mut().skip(closed.first).filter(|role| role.in_text || role.in_html) {
                    (role.in_text, role.in_html) = (true, true);
                }
                (self.texts, self.htmls) = (self.texts.max(self.htmls), self.texts.max(self.htmls));
            }
        }
    }
}

/// Returns whether a text part is shown in its place. After the first part, one with a file name is an attachment.
fn is_inline(part: &Part, holder: OpenMultipart) -> bool {
    let is_text = matches!(part.media_type.as_str(), "text/plain" | "text/html");
    let is_nameless = given_name(part).is_none() || holder.kind == MultipartKind::Alternative;
    let is_shown = holder.children == 0 || (holder.kind != MultipartKind::Related && is_nameless);
    is_text && is_shown && part.disposition.value != "attachment" && !part.is_blank_multipart()
}

/// Joins decoded parts to the body for readers of plain text and the one for readers of HTML. A body exists if one of its
/// parts has its kind; parts of the other kind are converted.
pub(super) fn joined(mut parts: Vec<(BodyRole, String)>) -> (Option<String>, Option<String>) {
    // Most messages have one part for each kind of reader, which is not copied.
    let only = |is_in: fn(&BodyRole) -> bool| {
        let mut places = parts.iter().enumerate().filter(|(_, (role, _))| is_in(role)).map(|(place, _)| place);
        places.next().filter(|_| places.next().is_none())
    };
    if let (Some(in_text), Some(in_html)) = (only(|role| role.in_text), only(|role| role.in_html)) {
        let mut take = |place: usize, is_html: bool| {
            let (role, text) = &mut parts[place];
            (role.is_html == is_html).then(|| std::mem::take(text))
        };
        return (take(in_text, false), take(in_html, true));
    }
    let text = body(&parts, |role| role.in_text, false, |html| Cow::Owned(html::text_of(html).trim().to_owned()));
    let html = body(&parts, |role| role.in_html, true, |text| Cow::Owned(html::of_text(text)));
    (text, html)
}

fn body(
    parts: &[(BodyRole, String)],
    is_in: impl Fn(&BodyRole) -> bool,
    is_html: bool,
    convert: impl Fn(&str) -> Cow<'_, str>,
) -> Option<String> {
    let parts = || parts.iter().filter(|(role, _)| is_in(role));
    parts().find(|(role, _)| role.is_html == is_html)?;
    let mut body = String::new();
    for (role, text) in parts().filter(|(role, text)| role.is_html == is_html || !text.trim().is_empty()) {
        if !body.is_empty() && !body.ends_with('\n') && !text.is_empty() {
            body.push('\n');
        }
        body.push_str(&if role.is_html == is_html { Cow::Borrowed(text.as_str()) } else { convert(text) });
    }
    Some(body)
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
