//! The fields that a delivery status notification has about one recipient (RFC 3464 section 2.3), as servers write them.

use mailapi_model::{EmailAddress, EnhancedCode};

use super::super::{Limits, fields, parameters};
use super::reply::{enhanced_code, reply_class};
use super::{Fields, ReturnedAction};

/// What a group of fields says about a recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecipientGroup {
    pub(super) original: Option<EmailAddress>,
    pub(super) tried: Option<EmailAddress>,
    pub(super) action: GroupAction,
    /// The field Status, if it has an enhanced code.
    pub(super) status: Option<EnhancedCode>,
    /// The reply, or the comment of the status; empty if missing.
    pub(super) diagnostic: String,
}

/// The action for a recipient, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupAction {
    /// The field Action has it.
    Written(ReturnedAction),
    /// It is missing, and a code has the class.
    OfClass(ReturnedAction),
    /// The field Action has an unknown word.
    Unknown,
    /// The group has nothing but addresses.
    Missing,
}

impl RecipientGroup {
    /// Reads a group; `None` if it names no mail address.
    pub(super) fn of(fields: &Fields) -> Option<Self> {
        let named = |name| fields.get(name).and_then(recipient);
        let (original, tried) = (named("Original-Recipient"), named("Final-Recipient"));
        if original.is_none() && tried.is_none() {
            return None;
        }
        let written = fields.get("Status").unwrap_or_default();
        let status = written.split([' ', '\t', '\n', '(', ';']).find(|word| !word.is_empty());
        let status = status.and_then(|status| status.parse::<EnhancedCode>().ok());
        let diagnostic = diagnostic(fields, written, status);
        let class = || status.map(|status| status.class).or_else(|| reply_class(std::iter::once(diagnostic.as_str())));
        let action = match fields.get("Action").map(written_action) {
            Some(Some(action)) => GroupAction::Written(action),
            Some(None) => GroupAction::Unknown,
            None => class().map_or(GroupAction::Missing, |class| GroupAction::OfClass(action_of(class))),
        };
        Some(Self { original, tried, action, status, diagnostic })
    }

    /// Returns the more precise of the field's code and the reply's: `x.0.0` says nothing, but Exim, Courier and others
    /// always write it. A failure is no success.
    pub(super) fn code(&self, action: ReturnedAction, said: &str) -> Option<EnhancedCode> {
        let code = match self.status {
            Some(EnhancedCode { subject: 0, detail: 0, .. }) | None => enhanced_code(said).or(self.status),
            status => status,
        };
        code.filter(|code| action != ReturnedAction::Failed || code.class != 2)
    }
}

const fn action_of(class: u8) -> ReturnedAction {
    match class {
        5 => ReturnedAction::Failed,
        4 => ReturnedAction::Delayed,
        _ => ReturnedAction::Delivered,
    }
}

/// Parses an action; `None` if it is unknown. A comment may follow it.
fn written_action(value: &str) -> Option<ReturnedAction> {
    let (written, _) = parameters::written(value);
    let word = written.split(|c: char| !c.is_ascii_alphabetic()).find(|word| !word.is_empty())?;
    Some(match word.to_ascii_lowercase().as_str() {
        "failed" | "failure" | "fail" | "error" | "undeliverable" | "bounced" => ReturnedAction::Failed,
        "delayed" | "delay" => ReturnedAction::Delayed,
        "delivered" => ReturnedAction::Delivered,
        "relayed" => ReturnedAction::Relayed,
        "expanded" => ReturnedAction::Expanded,
        _ => return None,
    })
}

/// Returns the reply of the remote server: in its field, or in the field Status behind or instead of the code.
fn diagnostic(fields: &Fields, status: &str, code: Option<EnhancedCode>) -> String {
    let field = fields.get("Diagnostic-Code").unwrap_or_default();
    let said = match field.split_once(';') {
        Some((kind, text)) if !kind.trim().contains(char::is_whitespace) => text,
        _ => field,
    };
    let behind = || {
        let status = status.trim();
        let comment =
            status.split_once([' ', '\t', '\n', '(', ';']).map_or("", |(code, _)| status[code.len()..].trim());
        comment.strip_prefix('(').and_then(|comment| comment.strip_suffix(')')).unwrap_or(comment)
    };
    let said = match (said.trim().is_empty(), code) {
        (false, _) => said,
        (true, Some(_)) => behind(),
        (true, None) => status,
    };
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Parses `rfc822; ann@example.org` or `utf-8; …` (RFC 6533 section 3), with brackets and comments.
fn recipient(value: &str) -> Option<EmailAddress> {
    let (kind, address) = value.split_once(';').unwrap_or(("", value));
    let parse = |text: &str| {
        let text = text.trim();
        let named = || {
            let max = Limits::default().max_parameter_bytes;
            EmailAddress::as_given(&fields::correspondents(text.as_bytes(), max).into_iter().next()?.email).ok()
        };
        EmailAddress::as_given(text).ok().or_else(named)
    };
    let decoded = if kind.trim().eq_ignore_ascii_case("utf-8") { from_unitext(address) } else { from_xtext(address) };
    parse(&decoded).or_else(|| parse(address))
}

/// Decodes what SMTP alone encodes (xtext, RFC 3461 section 4). A plus sign with two digits may also be a tag, as in
/// `ann+20@example.org`; so only what the encoding exists for, and an encoded `@`, is decoded.
fn from_xtext(text: &str) -> String {
    let has_at = text.contains('@');
    let mut parts = text.split('+');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii_graphic);
        match byte.filter(|byte| !has_at || matches!(byte, b'+' | b'=')) {
            Some(byte) => {
                decoded.push(char::from(byte));
                decoded.push_str(&part[2..]);
            }
            None => {
                decoded.push('+');
                decoded.push_str(part);
            }
        }
    }
    decoded
}

/// Decodes `\x{e4}` (RFC 6533 section 3).
fn from_unitext(text: &str) -> String {
    let (mut decoded, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once("\\x{") {
        let Some((digits, next)) = behind.split_once('}') else { break };
        let Some(letter) = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) else { break };
        decoded.push_str(before);
        decoded.push(letter);
        rest = next;
    }
    decoded.push_str(rest);
    decoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_as_servers_write_them() {
        for (value, expected) in [
            ("rfc822; zoe@far.example", "zoe@far.example"),
            ("RFC822;<zoe@far.example>", "zoe@far.example"),
            ("rfc822; zoe@far.example (Zoe)", "zoe@far.example"),
            ("zoe@far.example", "zoe@far.example"),
            ("rfc822; zoe+2Btag@far.example", "zoe+tag@far.example"),
            ("rfc822; zoe+20@far.example", "zoe+20@far.example"),
            ("rfc822; zoe+40far.example", "zoe@far.example"),
            ("utf-8; z\\x{f6}e@far.example", "zöe@far.example"),
        ] {
            assert_eq!(recipient(value).unwrap().as_str(), expected, "{value}");
        }
        assert_eq!(recipient("rfc822; zoe"), None);
    }

    proptest! {
        #[test]
        fn any_field_is_read(value in "(rfc822;|utf-8;|a@b.example|[+]2B|[+]|\\\\x[{]|[}]|e4|\\PC){0,20}") {
            let _ = (recipient(&value), written_action(&value));
        }
    }
}
