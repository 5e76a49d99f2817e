//! Delivery status notifications received as mail (RFC 3464): reports of remote servers about messages that
//! they had accepted.

use std::convert::Infallible;
use std::io;

use mailapi_model::{Blob, EmailAddress, EnhancedCode, MessageId};

use super::{Limits, MessageStructure, PartSpan, decode, header_block, headers};

/// Fields that name the recipient of a delivered mail, most reliable first.
const RECIPIENT_FIELDS: [&str; 5] = ["X-Original-To", "Delivered-To", "Envelope-To", "To", "Cc"];

/// A notification's report about one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedReport {
    /// The message id, if the notification contains it: in its recipient address, as the envelope id (RFC
    /// 3461 section 4.4), or in the returned header.
    pub message_id: Option<MessageId>,
    /// The original recipient, or the final one if the notification does not name the original.
    pub recipient: EmailAddress,
    /// The final recipient, if it differs: the original one was an alias or was forwarded.
    pub final_recipient: Option<EmailAddress>,
    /// The action taken.
    pub action: ReturnedAction,
    /// The reason (RFC 3463).
    pub status: Option<EnhancedCode>,
    /// The reply of the remote server, without its type; empty if missing.
    pub diagnostic: String,
}

/// The action that a server took for a recipient (RFC 3464 section 2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnedAction {
    /// Delivery failed permanently.
    Failed,
    /// Delivery is being retried.
    Delayed,
    /// The message was delivered.
    Delivered,
    /// The message was relayed to a server that sends no notifications.
    Relayed,
    /// The message was sent to several recipients instead.
    Expanded,
}

/// Returns the reports in a notification about a message sent here; none if the mail is not a notification.
#[must_use]
pub fn returned_mail(raw: &[u8]) -> Vec<ReturnedReport> {
    let Ok(reports) = reports(&MessageStructure::of(raw), |span| Ok::<_, Infallible>(span.of(raw)));
    reports
}

/// Like [`returned_mail`], for a parsed mail that may not be in memory. May block.
///
/// # Errors
/// When the mail cannot be read.
pub fn returned_mail_in(bytes: &Blob, structure: &MessageStructure) -> io::Result<Vec<ReturnedReport>> {
    reports(structure, |span| {
        let start = usize::try_from(span.offset).unwrap_or(usize::MAX);
        bytes.slice(start..start.saturating_add(usize::try_from(span.length).unwrap_or(usize::MAX))).to_bytes()
    })
}

/// Returns the reports. `bytes` reads encoded bytes of the mail.
fn reports<T: AsRef<[u8]>, E>(
    structure: &MessageStructure,
    bytes: impl Fn(PartSpan) -> Result<T, E>,
) -> Result<Vec<ReturnedReport>, E> {
    let part = |wanted: &[&str]| {
        let mut parts = structure.attachments.iter();
        let found = parts.find(|part| wanted.contains(&part.info.content_type.to_ascii_lowercase().as_str()));
        found.map(|part| content(part.span, &bytes)).transpose()
    };
    let status = part(&["message/delivery-status", "message/global-delivery-status"])?;
    // Without this part, the mail is not a notification.
    let Some(status) = status else { return Ok(Vec::new()) };
    let returned = part(&["message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers"])?;
    let mut groups = groups(&status).into_iter().map(|group| Fields(headers(group)));
    let Some(about_message) = groups.next() else { return Ok(Vec::new()) };
    // Most reliable first: the return address, the envelope id, the returned header.
    let message_id = in_return_address(&Fields(headers(bytes(structure.header())?.as_ref())))
        .or_else(|| about_message.get("Original-Envelope-Id")?.trim().parse().ok())
        .or_else(|| MessageId::from_header(Fields(headers(header_block(&returned?))).get("Message-ID")?));
    // Some servers omit the empty line between the fields of the message and those of its only recipient.
    let alone = about_message.get("Final-Recipient").is_some().then_some(about_message);
    Ok(groups.chain(alone).filter_map(|fields| report(&fields, message_id)).collect())
}

struct Fields(Vec<(String, String)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Reads the beginning of a part; real reports and headers are shorter than the limit.
fn content<T: AsRef<[u8]>, E>(span: PartSpan, bytes: impl Fn(PartSpan) -> Result<T, E>) -> Result<Vec<u8>, E> {
    let length = span.length.min(Limits::default().max_report_bytes as u64);
    Ok(decode(span.encoding, bytes(PartSpan { length, ..span })?.as_ref()))
}

/// Splits a report into groups of fields, separated by empty lines (RFC 3464 section 2.1).
fn groups(text: &[u8]) -> Vec<&[u8]> {
    let mut groups = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line.trim_ascii().is_empty() {
            groups.push(&text[start..at]);
            start = at + line.len();
        }
        at += line.len();
    }
    groups.push(&text[start..]);
    groups.retain(|group| !group.trim_ascii().is_empty());
    groups
}

/// Returns the addresses that a mail was delivered to, according to its header, most reliable first.
pub fn delivered_to(header: &[(String, String)]) -> impl Iterator<Item = &str> {
    let fields = RECIPIENT_FIELDS
        .iter()
        .flat_map(move |name| header.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)));
    let texts = fields.flat_map(|(_, value)| value.split(['\n', ',', '<', '>', ' ', ';']));
    texts.filter(|text| text.contains('@'))
}

/// Returns the message id after a plus sign in the local part of the notification's recipient address.
fn in_return_address(header: &Fields) -> Option<MessageId> {
    delivered_to(&header.0).find_map(|address| address.split_once('@')?.0.rsplit_once('+')?.1.parse().ok())
}

fn report(fields: &Fields, message_id: Option<MessageId>) -> Option<ReturnedReport> {
    let action = match fields.get("Action")?.trim().to_ascii_lowercase().as_str() {
        "failed" => ReturnedAction::Failed,
        "delayed" => ReturnedAction::Delayed,
        "delivered" => ReturnedAction::Delivered,
        "relayed" => ReturnedAction::Relayed,
        "expanded" => ReturnedAction::Expanded,
        _ => return None,
    };
    let named = |name| fields.get(name).and_then(recipient);
    let (original, tried) = (named("Original-Recipient"), named("Final-Recipient"));
    let recipient = original.or_else(|| tried.clone())?;
    let final_recipient = tried.filter(|tried| *tried != recipient);
    let status = fields.get("Status").and_then(|status| status.split_whitespace().next()?.parse().ok());
    let diagnostic = fields.get("Diagnostic-Code").unwrap_or_default();
    let diagnostic = diagnostic.split_once(';').map_or(diagnostic, |(_, text)| text);
    let diagnostic = diagnostic.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(ReturnedReport { message_id, recipient, final_recipient, action, status, diagnostic })
}

/// Parses `rfc822; ann@example.org` or `utf-8; …` (RFC 6533 section 3).
fn recipient(value: &str) -> Option<EmailAddress> {
    let address = value.split_once(';').map_or(value, |(_, address)| address).trim();
    let bare = address.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(address);
    EmailAddress::as_given(bare).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNCE: &str = include_str!("returned_mail/bounce.eml");
    const DELAY: &str = include_str!("returned_mail/delay.eml");
    const OURS: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn shown(raw: &str) -> Vec<String> {
        let raw = raw.replace('\n', "\r\n");
        let line = |report: ReturnedReport| {
            let id = report.message_id.map_or("-".to_owned(), |id| id.to_string());
            let status = report.status.map_or("-".to_owned(), |status| status.to_string());
            let tried = report.final_recipient.map_or(String::new(), |tried| format!("({}) ", tried.as_str()));
            format!("{id} {} {tried}{:?} {status} {}", report.recipient.as_str(), report.action, report.diagnostic)
        };
        returned_mail(raw.as_bytes()).into_iter().map(line).collect()
    }

    #[test]
    fn ordinary_mail_is_no_notification() {
        assert_eq!(shown(""), [""; 0]);
        assert_eq!(shown("From: a@b.org\nSubject: Action: failed\n\nFinal-Recipient: rfc822; a@b.org\n"), [""; 0]);
    }

    #[test]
    fn what_postfix_returns_is_read_for_each_recipient() {
        assert_eq!(
            shown(BOUNCE),
            [
                // Expanded by an alias: the sender named the alias.
                format!("{OURS} team@example.org (eve@other.example.net) Failed 5.7.1 550 5.7.1 Not for you"),
                format!(
                    "{OURS} gone@remote.example.net Failed 5.1.1 550 5.1.1 <gone@remote.example.net>: User unknown"
                ),
            ]
        );
    }

    #[test]
    fn a_delay_is_reported_as_such() {
        let expected =
            "67e55044-10b1-426f-9247-bb680e5fe0c9 later@remote.example.net Delayed 4.2.0 450 4.2.0 Greylisted";
        assert_eq!(shown(DELAY), [expected]);
    }

    #[test]
    fn the_return_address_and_the_header_name_the_message_too() {
        let notice = |to: &str, returned: &str| {
            format!(
                "To: {to}\nContent-Type: multipart/report; report-type=delivery-status; boundary=x\n\n--x\n\
                 Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\nFinal-Recipient: rfc822;<a@b.org>\n\
                 Action: FAILED\nStatus: 5.0.0 (sorry)\n--x\nContent-Type: message/rfc822\n\n{returned}\n--x--\n"
            )
        };
        let id = |text: &str| returned_mail(text.as_bytes()).first().unwrap().message_id.map(|id| id.to_string());
        assert_eq!(id(&notice(&format!("<bounce+{OURS}@example.org>"), "")).as_deref(), Some(OURS));
        let returned = format!("Message-ID: <{OURS}@example.org>\n\nMessage-ID: <x@y>");
        assert_eq!(id(&notice("ann@example.org", &returned)).as_deref(), Some(OURS));
        assert_eq!(id(&notice("ann@example.org", "Subject: x\n")), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..BOUNCE.len()) {
            let _ = returned_mail(&bytes);
            let mut damaged = BOUNCE.as_bytes().to_vec();
            let end = (at + bytes.len()).min(damaged.len());
            damaged.splice(at..end, bytes);
            let _ = returned_mail(&damaged);
        }
    }
}
