//! Notices received as mail: reports of remote servers about messages that they had accepted. Most are delivery status
//! notifications (RFC 3464); others have only a text. The address that a notice came to proves it, not its form.

use std::convert::Infallible;
use std::io;

use mailapi_model::{Blob, EmailAddress, EnhancedCode, MessageId};

use super::notice_text::{NamedFailure, NoticeText, enhanced_code};
use super::{Limits, MessageStructure, PartSpan, decode, fields, header_block, headers, html_text, parameters};

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
    /// The reply of the remote server, without its type, or what the notice says about the recipient; empty if missing.
    pub diagnostic: String,
    /// Whether only the text for people names the recipient. Such a report counts only for a recipient of the message.
    pub is_in_text: bool,
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

/// Returns the reports. `bytes` reads encoded bytes of the mail. Its outer type says nothing: servers write
/// `multipart/mixed`, omit `report-type`, and gateways wrap notices.
fn reports<T: AsRef<[u8]>, E>(
    structure: &MessageStructure,
    bytes: impl Fn(PartSpan) -> Result<T, E>,
) -> Result<Vec<ReturnedReport>, E> {
    let parts = |wanted: &'static [&'static str]| {
        let parts = structure.attachments.iter();
        parts.filter(move |part| wanted.contains(&part.info.content_type.to_ascii_lowercase().as_str()))
    };
    let header = Fields(headers(bytes(structure.header())?.as_ref()));
    let text = notice_text(structure, &bytes)?;
    if parts(&STATUS_TYPES).next().is_none() {
        let is_other_report = parts(&OTHER_REPORTS).next().is_some();
        return Ok(if is_other_report { Vec::new() } else { named_reports(&header, &text) });
    }
    let returned = parts(&RETURNED_TYPES).next().map(|part| content(part.span, &bytes)).transpose()?;
    let in_returned =
        returned.and_then(|raw| MessageId::from_header(Fields(headers(header_block(&raw))).get("Message-ID")?));
    let mut found = Vec::new();
    for part in parts(&STATUS_TYPES).take(MAX_STATUS_PARTS) {
        let status = content(part.span, &bytes)?;
        let mut groups: Vec<_> = groups(&status).into_iter().map(|group| Fields(headers(group))).collect();
        // Some servers omit the empty line between the fields of the message and those of its only recipient.
        let is_alone = |first: &Fields| first.get("Final-Recipient").or(first.get("Original-Recipient")).is_some();
        let about_message = groups.first().filter(|first| !is_alone(first)).is_some().then(|| groups.remove(0));
        let envelope_id =
            about_message.as_ref().or(groups.first()).and_then(|fields| fields.get("Original-Envelope-Id"));
        // Most reliable first: the return address, the envelope id, the returned header.
        let message_id = in_return_address(&header).or_else(|| envelope_id?.trim().parse().ok()).or(in_returned);
        let actions: Vec<_> = groups.iter().map(written_action).collect();
        // A group without action is one of several, or of a server that writes notices about failures alone.
        let others = actions.iter().flatten().all(|action| *action == ReturnedAction::Failed);
        found.extend(groups.iter().filter_map(|fields| report(fields, message_id, others, &text)));
    }
    Ok(found)
}

/// Types of the part that a machine reads (RFC 3464, RFC 6533).
const STATUS_TYPES: [&str; 2] = ["message/delivery-status", "message/global-delivery-status"];
/// Types of the returned message or its header.
const RETURNED_TYPES: [&str; 4] = ["message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers"];
/// Reports about something else than delivery: that a message was shown (RFC 8098), or a complaint (RFC 5965).
const OTHER_REPORTS: [&str; 2] = ["message/disposition-notification", "message/feedback-report"];
/// More than a gateway that joins notices produces.
const MAX_STATUS_PARTS: usize = 10;

/// Reads the text for people.
fn notice_text<T: AsRef<[u8]>, E>(
    structure: &MessageStructure,
    bytes: impl Fn(PartSpan) -> Result<T, E>,
) -> Result<NoticeText, E> {
    let max = Limits::default().max_report_bytes as u64;
    let (text, html) = structure.decode_bodies(|span| bytes(PartSpan { length: span.length.min(max), ..span }))?;
    Ok(NoticeText::of(&text.unwrap_or_else(|| html.map(|html| html_text(&html)).unwrap_or_default())))
}

/// Returns the failures of a notice without a part for machines.
fn named_reports(header: &Fields, text: &NoticeText) -> Vec<ReturnedReport> {
    let field = header.get("X-Failed-Recipients").unwrap_or_default();
    let failed: Vec<EmailAddress> = field.split([',', '\n']).filter_map(|text| text.trim().parse().ok()).collect();
    let message_id = in_return_address(header);
    let report = |failure: NamedFailure| ReturnedReport {
        message_id,
        recipient: failure.recipient,
        final_recipient: None,
        action: ReturnedAction::Failed,
        status: enhanced_code(&failure.reason),
        diagnostic: failure.reason,
        is_in_text: true,
    };
    text.failures(&failed).into_iter().map(report).collect()
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

/// Returns the action as written; `None` if it is missing or unknown. A comment may follow it.
fn written_action(fields: &Fields) -> Option<ReturnedAction> {
    let (written, _) = parameters::written(fields.get("Action")?);
    Some(match written.split_whitespace().next()?.to_ascii_lowercase().as_str() {
        "failed" | "failure" | "fail" => ReturnedAction::Failed,
        "delayed" => ReturnedAction::Delayed,
        "delivered" => ReturnedAction::Delivered,
        "relayed" => ReturnedAction::Relayed,
        "expanded" => ReturnedAction::Expanded,
        _ => return None,
    })
}

fn report(fields: &Fields, message_id: Option<MessageId>, others: bool, text: &NoticeText) -> Option<ReturnedReport> {
    let written = fields.get("Status").unwrap_or_default();
    let status = written.split_whitespace().next().and_then(|status| status.parse::<EnhancedCode>().ok());
    let action = match (written_action(fields), status.map(|status| status.class)) {
        (Some(action), _) => action,
        // An action that is unknown says nothing.
        (None, _) if fields.get("Action").is_some() => return None,
        (None, Some(5)) => ReturnedAction::Failed,
        (None, Some(4)) => ReturnedAction::Delayed,
        (None, Some(_)) => ReturnedAction::Delivered,
        (None, None) if others => ReturnedAction::Failed,
        (None, None) => return None,
    };
    let named = |name| fields.get(name).and_then(recipient);
    let (original, tried) = (named("Original-Recipient"), named("Final-Recipient"));
    let recipient = original.or_else(|| tried.clone())?;
    let behind = text.generated_from(&recipient);
    let final_recipient = behind.or(tried).filter(|tried| *tried != recipient);
    let diagnostic = diagnostic(fields, written)
        .or_else(|| final_recipient.as_ref().map(|tried| text.reason_of(tried)).filter(|said| !said.is_empty()))
        .unwrap_or_else(|| text.reason_of(&recipient));
    let status = match status {
        // Exim, Courier and others always write 5.0.0; the reply says more.
        Some(EnhancedCode { subject: 0, detail: 0, .. }) | None => enhanced_code(&diagnostic).or(status),
        status => status,
    };
    // A success is no failure.
    let is_possible = |status: &EnhancedCode| action != ReturnedAction::Failed || matches!(status.class, 4 | 5);
    Some(ReturnedReport {
        message_id,
        recipient,
        final_recipient,
        action,
        status: status.filter(is_possible),
        diagnostic,
        is_in_text: false,
    })
}

/// Returns the reply of the remote server: in its field, or in the comment of the status.
fn diagnostic(fields: &Fields, status: &str) -> Option<String> {
    let field = fields.get("Diagnostic-Code").unwrap_or_default();
    let field = field.split_once(';').map_or(field, |(_, text)| text);
    let comment = || status.split_once('(').map_or("", |(_, comment)| comment.trim_end().trim_end_matches(')'));
    let said = if field.trim().is_empty() { comment() } else { field };
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(said).filter(|said| !said.is_empty())
}

/// Parses `rfc822; ann@example.org` or `utf-8; …` (RFC 6533 section 3), with brackets and comments. Some servers write the
/// encoding that is for SMTP alone (xtext, RFC 3461 section 4).
fn recipient(value: &str) -> Option<EmailAddress> {
    let address = value.split_once(';').map_or(value, |(_, address)| address).trim();
    let parse = |text: &str| {
        let email =
            fields::correspondents(text.as_bytes(), Limits::default().max_parameter_bytes).into_iter().next()?.email;
        EmailAddress::as_given(&email).ok()
    };
    EmailAddress::as_given(address).ok().or_else(|| parse(address)).or_else(|| parse(&without_xtext(address)))
}

/// Decodes `+` with two hexadecimal digits.
fn without_xtext(text: &str) -> String {
    let mut parts = text.split('+');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii_graphic);
        match byte {
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

    fn status(fields: &str) -> Vec<String> {
        shown(&format!(
            "Content-Type: multipart/mixed; boundary=x\n\n--x\n\nSorry.\n\n<a@b.example>: host mx said: 550 5.1.1 Unknown\n\n\
             --x\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\n{fields}\n--x--\n"
        ))
    }

    #[test]
    fn fields_are_read_as_servers_write_them() {
        let unknown = "- a@b.example Failed 5.1.1 <a@b.example>: host mx said: 550 5.1.1 Unknown";
        for fields in [
            "Final-Recipient: rfc822; a@b.example\nAction: failed\nStatus: 5.0.0",
            "Final-Recipient: rfc822; a@b.example (Ann)\nAction: failed (gave up)\nStatus: 5.0.0",
            "Final-Recipient: RFC822;<a@b.example>\nAction: Failure",
            "Final-Recipient: rfc822; a@b.example\nStatus: 5.0.0 ",
            "Final-Recipient: rfc822; a@b.example",
            "Final-Recipient: a+40b.example\nAction: failed",
        ] {
            assert_eq!(status(fields), [unknown], "{fields}");
        }
        let of = |rest: &str| status(&format!("Final-Recipient: rfc822; a@b.example\nAction: failed\n{rest}"));
        assert_eq!(
            of("Status: 5.0.0\nDiagnostic-Code: smtp; 550 5.2.2 Full"),
            ["- a@b.example Failed 5.2.2 550 5.2.2 Full"]
        );
        assert_eq!(of("Status: 5.1.2 (550 Nowhere to go)"), ["- a@b.example Failed 5.1.2 550 Nowhere to go"]);
        assert_eq!(of("Status: 2.0.0\nDiagnostic-Code: smtp; 550 No"), ["- a@b.example Failed - 550 No"]);
    }

    #[test]
    fn what_is_no_failure_is_not_reported_as_one() {
        for fields in
            ["Action: delayed\nStatus: 4.0.0", "Action: delivered", "Action: strange\nStatus: 5.0.0", "Status: 4.4.1"]
        {
            let reports = status(&format!("Final-Recipient: rfc822; a@b.example\n{fields}"));
            assert!(!reports.iter().any(|report| report.contains("Failed")), "{fields}: {reports:?}");
        }
        // One group without action beside one that was delivered.
        let mixed = "Final-Recipient: rfc822; c@b.example\nAction: delivered\n\nFinal-Recipient: rfc822; a@b.example";
        assert_eq!(status(mixed).len(), 1);
    }

    #[test]
    fn a_notice_without_report_names_its_recipients_in_the_text() {
        let text = "X-Failed-Recipients: a@b.example\nSubject: Mail failure\n\nNot delivered:\n\n  a@b.example\n    Unrouteable address\n";
        assert_eq!(shown(text), ["- a@b.example Failed - a@b.example Unrouteable address"]);
        let text = "Subject: failure notice\n\n<a@b.example>: 550 5.1.1 No such user\n";
        assert_eq!(shown(text), ["- a@b.example Failed 5.1.1 <a@b.example>: 550 5.1.1 No such user"]);
        let read = "Content-Type: multipart/report; boundary=x\n\n--x\n\na@b.example: 550 read\n--x\nContent-Type: message/disposition-notification\n\nx\n--x--\n";
        assert_eq!(shown(read), [""; 0]);
    }

    #[test]
    fn a_list_is_named_with_the_address_behind_it() {
        let raw = "Content-Type: multipart/report; boundary=x\n\n--x\n\n  bad@c.example\n    (generated from list@b.example)\n    550 no\n\n\
            --x\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nAction: failed\nFinal-Recipient: rfc822;list@b.example\nStatus: 5.0.0\n--x--\n";
        let reports = shown(raw);
        assert!(reports[0].starts_with("- list@b.example (bad@c.example) Failed 5.0.0"), "{reports:?}");
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
