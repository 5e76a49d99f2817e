//! Notices received as mail: reports of remote servers about messages that they had accepted. Most are delivery status
//! notifications (RFC 3464); others have only a text. The address that a notice came to proves it, not its form.

use std::convert::Infallible;
use std::io;

use mailapi_model::{Blob, DomainName, EmailAddress, EnhancedCode, MessageId, NoticeKind};

use super::{Limits, MessageStructure, PartSpan, decode};

mod lines;
mod notice;
mod notice_text;
mod recipient_group;
mod reply;
mod verdict;

use notice::Notice;

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

/// A mail, read as a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedMail {
    /// Its reports; none if it is not a notification.
    pub reports: Vec<ReturnedReport>,
    /// What it says otherwise.
    pub summary: NoticeSummary,
}

/// What a notice says, besides its reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeSummary {
    /// What the server did instead of failing: a delay, for example.
    pub kind: NoticeKind,
    /// The domain of its author.
    pub server: Option<DomainName>,
    /// The beginning of what its author wrote.
    pub text: String,
}

/// Reads a mail as a notice about a message sent here.
#[must_use]
pub fn returned_mail(raw: &[u8]) -> ReturnedMail {
    let Ok(read) = read(&MessageStructure::of(raw), |span| Ok::<_, Infallible>(span.of(raw)));
    read
}

/// Like [`returned_mail`], for a parsed mail that may not be in memory. May block.
///
/// # Errors
/// When the mail cannot be read.
pub fn returned_mail_in(bytes: &Blob, structure: &MessageStructure) -> io::Result<ReturnedMail> {
    read(structure, |span| span.within(bytes).to_bytes())
}

/// Types of a whole message.
const MESSAGE_TYPES: [&str; 2] = ["message/rfc822", "message/global"];
/// More than a gateway that joins notices produces.
const MAX_STATUS_PARTS: usize = 10;

/// Reads a mail. `bytes` reads its encoded bytes. Its outer type says nothing: servers write
/// `multipart/mixed`, omit `report-type`, and gateways wrap notices.
fn read<T: AsRef<[u8]>, E>(
    structure: &MessageStructure,
    bytes: impl Fn(PartSpan) -> Result<T, E>,
) -> Result<ReturnedMail, E> {
    let notice = Notice::of(structure, &bytes)?;
    let mut found = notice.reports();
    if found.is_empty() && notice.may_be_wrapper() {
        for part in parts(structure, &MESSAGE_TYPES).take(MAX_STATUS_PARTS) {
            let raw = content(part, &bytes)?;
            let Ok(wrapped) =
                Notice::of(&MessageStructure::of(&raw), |span: PartSpan| Ok::<_, Infallible>(span.of(&raw)));
            if notice.wraps(&wrapped) {
                found.extend(wrapped.reports().into_iter().map(|report| ReturnedReport {
                    message_id: notice.in_return_address().or(report.message_id),
                    ..report
                }));
            }
        }
    }
    let summary = notice.summary(&found, &structure.from.email);
    Ok(ReturnedMail { reports: found, summary })
}

fn parts<'a>(
    structure: &'a MessageStructure,
    wanted: &'static [&'static str],
) -> impl Iterator<Item = PartSpan> + use<'a> {
    let attachments = structure.attachments.iter();
    let is_wanted = |media_type: &str| wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(media_type));
    attachments.filter(move |part| is_wanted(&part.info.content_type)).map(|part| part.span)
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
        returned_mail(raw.as_bytes()).reports.into_iter().map(line).collect()
    }

    #[test]
    fn what_opensmtpd_gives_up_is_a_failure() {
        let notice = |said: &str, status: &str| {
            let text = "A message is delayed for more than 0 seconds for the following list of recipients:\n\n\
                        zoe@far.example: {said}\n\nThis is only a temporary failure report.\n";
            format!(
                "From: Mailer Daemon <MAILER-DAEMON@mx.far.example>\nSubject: Delivery status notification: delayed\n\
                 Content-Type: multipart/mixed; boundary=b\n\n--b\n\n{}--b\nContent-Type: message/delivery-status\n\n\
                 Reporting-MTA: dns; mx.far.example\n\nFinal-Recipient: rfc822; zoe@far.example\nAction: delayed\n\
                 Status: {status}\n\n--b--\n",
                text.replace("{said}", said)
            )
        };
        let gone = "- zoe@far.example Failed 4.4.7 zoe@far.example: Envelope expired";
        assert_eq!(shown(&notice("Envelope expired", "4.4.7")), [gone]);
        for (said, status) in [("452 4.2.2 The box is full", "4.0.0"), ("452 4.2.2 The box is full", "4.4.7")] {
            let waiting = shown(&notice(said, status));
            assert!(waiting.len() == 1 && waiting[0].contains(" Delayed "), "{waiting:?}");
        }
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
        let id =
            |text: &str| returned_mail(text.as_bytes()).reports.first().unwrap().message_id.map(|id| id.to_string());
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
            "Final-Recipient: rfc822; a@b.example\nAction: error",
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
        assert_eq!(of("Status: 553 too large"), ["- a@b.example Failed - 553 too large"]);
        // An exit status has no words, so the text has the reason.
        assert_eq!(of("Diagnostic-Code: X-Unix; 67"), [unknown]);
        let tagged =
            "Original-Recipient: rfc822; zoe+2Btag@b.example\nFinal-Recipient: rfc822; z9@b.example\nAction: failed";
        assert_eq!(status(tagged), ["- zoe+tag@b.example (z9@b.example) Failed - "]);
        assert_eq!(of("Status: 2.0.0\nDiagnostic-Code: smtp; 550 No"), ["- a@b.example Failed - 550 No"]);
    }

    #[test]
    fn what_is_no_failure_is_not_reported_as_one() {
        for fields in [
            "Action: delayed\nStatus: 4.0.0",
            "Action: delivered",
            "Action: relayed\nDiagnostic-Code: smtp; 550 earlier",
            "Action: expanded",
            "Action: strange\nStatus: 5.0.0",
            "Status: 4.4.1",
            "Status: 2.0.0",
        ] {
            let reports = status(&format!("Final-Recipient: rfc822; a@b.example\n{fields}"));
            assert!(!reports.iter().any(|report| report.contains("Failed")), "{fields}: {reports:?}");
        }
        // Groups without action beside one that was delivered or waits.
        for other in ["Action: delivered", "Action: delayed", "Status: 4.4.1"] {
            let mixed =
                format!("Final-Recipient: rfc822; c@b.example\n{other}\n\nFinal-Recipient: rfc822; a@b.example");
            assert_eq!(status(&mixed).len(), 1, "{other}");
        }
        let failed = "Final-Recipient: rfc822; c@b.example\nAction: failed\n\nFinal-Recipient: rfc822; a@b.example";
        assert_eq!(status(failed).len(), 2);
    }

    /// Returns a report with a subject, a text, and the fields of one recipient.
    fn report(subject: &str, text: &str, fields: &str) -> String {
        format!(
            "Subject: {subject}\nContent-Type: multipart/report; boundary=x\n\n--x\n\n{text}\n\n--x\n\
             Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\n{fields}\n--x--\n"
        )
    }

    #[test]
    fn a_group_without_action_fails_in_a_notice_of_failure_alone() {
        let alone = "Final-Recipient: rfc822; a@b.example";
        assert_eq!(shown(&report("Undelivered mail", "Sorry.", alone)), ["- a@b.example Failed - "]);
        assert_eq!(shown(&report("Hello", "Sorry.", alone)), [""; 0]);
        for fields in [alone, "Final-Recipient: rfc822; a@b.example\nStatus: 5.0.0"] {
            for (subject, text) in [
                ("Delayed mail", "It could not be delivered."),
                ("Warning", "It could not be delivered."),
                ("x", "It could not be delivered yet, and will be retried. a@b.example: 550 5.1.1 earlier"),
                ("x", "It was delivered successfully."),
            ] {
                assert_eq!(shown(&report(subject, text, fields)), [""; 0], "{subject} {text} {fields}");
            }
        }
    }

    #[test]
    fn a_notice_without_groups_names_its_recipients_in_the_text() {
        let text = "X-Failed-Recipients: a@b.example\nSubject: Mail failure\n\nNot delivered:\n\n  a@b.example\n    Unrouteable address\n";
        assert_eq!(shown(text), ["- a@b.example Failed - a@b.example Unrouteable address"]);
        let text = "Subject: failure notice\n\n<a@b.example>: 550 5.1.1 No such user\n";
        assert_eq!(shown(text), ["- a@b.example Failed 5.1.1 <a@b.example>: 550 5.1.1 No such user"]);
        let part = report("x", "Delivery to these failed permanently:\n\n * a@b.example", "Arrival-Date: today");
        assert_eq!(shown(&part), ["- a@b.example Failed - "]);
        let delay = "X-Failed-Recipients: a@b.example\nSubject: Warning: message delayed\n\nAttempts will continue.\n\n  a@b.example\n";
        assert_eq!(shown(delay), [""; 0]);
        for other in ["message/disposition-notification", "message/feedback-report"] {
            let read = format!(
                "Content-Type: multipart/report; boundary=x\n\n--x\n\nFailed: a@b.example: 550 read\n--x\nContent-Type: {other}\n\nx\n--x--\n"
            );
            assert_eq!(shown(&read), [""; 0]);
        }
    }

    #[test]
    fn the_original_recipient_of_a_notice_is_no_return_address() {
        let notice = |above: &str, below: &str| {
            shown(&format!(
                "{above}Received: from mx.far.example\n{below}To: bounce+{OURS}@example.org\nSubject: Mail delivery failed\n\n\
                 There was an error delivering your mail to <a@b.example>.\n\n550 5.1.1 Unknown\n"
            ))
        };
        let field = "X-Original-To: <a@b.example>\n";
        assert_eq!(notice("", field), [format!("{OURS} a@b.example Failed 5.1.1 550 5.1.1 Unknown")]);
        assert_eq!(notice(field, ""), [""; 0]);
    }

    #[test]
    fn answers_of_programs_are_no_notices_of_servers() {
        let of =
            |from: &str| shown(&format!("From: {from}\nAuto-Submitted: auto-replied\n\na@b.example: 550 gone\n")).len();
        assert_eq!((of("Ann <ann@b.example>"), of("MAILER-DAEMON@b.example")), (0, 1));
    }

    #[test]
    fn a_wrapped_notice_is_read_and_an_older_one_is_not() {
        let own = format!("bounce+{OURS}@example.org");
        let wrapped = |from: &str, to: &str, text: &str| {
            let inner = format!(
                "From: {from}\nTo: {to}\n{}",
                report("Failure", "Sorry.", "Final-Recipient: rfc822; a@b.example\nAction: failed")
            );
            let inner = inner.replace("=x", "=y").replace("--x", "--y");
            shown(&format!(
                "To: {own}\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\n{text}\n--x\nContent-Type: message/rfc822\n\n{inner}\n--x--\n"
            ))
        };
        assert_eq!(wrapped("x@b.example", &own, "See below."), [format!("{OURS} a@b.example Failed - ")]);
        assert_eq!(wrapped("MAILER-DAEMON@b.example", "x@b.example", "See below.").len(), 1);
        // The message itself, which someone returns, has an older notice attached.
        assert_eq!(wrapped("ann@example.org", "zoe@b.example", "See below."), [""; 0]);
        assert_eq!(wrapped("x@b.example", &own, "The message is delayed."), [""; 0]);
    }

    #[test]
    fn a_list_is_named_with_the_addresses_behind_it() {
        let group = "Action: failed\nFinal-Recipient: rfc822;list@b.example\nStatus: 5.0.0";
        let text = "  bad@c.example\n    (generated from list@b.example)\n    550 5.1.1 no\n\n  worse@c.example\n    (generated from list@b.example)\n    550 5.2.1 off";
        assert_eq!(
            shown(&report("Mail delivery failed", text, &format!("{group}\n\n{group}"))),
            [
                "- list@b.example (bad@c.example) Failed 5.1.1 bad@c.example (generated from list@b.example) 550 5.1.1 no",
                "- list@b.example (worse@c.example) Failed 5.2.1 worse@c.example (generated from list@b.example) 550 5.2.1 off",
            ]
        );
        let concealed = "  an undisclosed address\n    (generated from list@b.example)";
        assert_eq!(shown(&report("Mail delivery failed", concealed, group)), [""; 0]);
        // A text in other words, with Exim's field.
        let field = format!("X-Failed-Recipients: bad@c.example\n{}", report("x", "Leider.", group));
        assert_eq!(shown(&field), ["- list@b.example (bad@c.example) Failed 5.0.0 "]);
    }

    proptest! {
        #[test]
        fn no_other_address_fails(subject in "(Warning: |Undelivered |\\PC{0,9}){0,2}", text in "(a@b[.]example|550 5[.]1[.]1 |\n|: |failed to deliver |\\PC){0,20}",
            fields in "(Action: failed|Action: delayed|Status: 5[.]1[.]1|Final-Recipient: rfc822; a@b[.]example|Original-Recipient: a@b[.]example|\n){0,9}") {
            for raw in [report(&subject, &text, &fields), format!("Subject: {subject}\n\n{text}")] {
                for report in returned_mail(raw.as_bytes()).reports {
                    prop_assert!(report.recipient.as_str().contains("@b."), "{} {raw}", report.recipient);
                    prop_assert!(!raw.contains("Subject: Warning") || fields.contains("Action: failed") || report.action != ReturnedAction::Failed);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..BOUNCE.len()) {
            let _ = returned_mail(&bytes).reports;
            let mut damaged = BOUNCE.as_bytes().to_vec();
            let end = (at + bytes.len()).min(damaged.len());
            damaged.splice(at..end, bytes);
            let _ = returned_mail(&damaged).reports;
        }
    }
}
