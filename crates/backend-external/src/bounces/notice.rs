//! Parses a mail in the bounce mailbox, and decides whether it reports a failed message of this server.

use mailapi_backend::mime::{
    NoticeSummary, ReturnedAction, ReturnedMail, ReturnedReport, delivered_to, header_block, headers, returned_mail,
};
use mailapi_model::MessageId;

use mailapi_backend::ReturnAddress;

/// The classification of a mail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A server gave up this message for these recipients.
    Failure { message_id: MessageId, reports: Vec<ReturnedReport>, summary: NoticeSummary },
    /// Sent to a valid return address by a server, but reports no failure: a delay, for example, or an answer.
    Said { message_id: MessageId, summary: NoticeSummary },
    /// Sent to a valid return address by a person.
    Harmless,
    /// Sent to an address that this server did not issue, with a report or in the form of a return address.
    Forged,
    /// Not a notification.
    Other,
    /// The server cannot return it.
    Unreadable,
}

impl Notice {
    /// Classifies a mail as received; its end may be cut off.
    pub(super) fn of(raw: &[u8], addresses: &ReturnAddress) -> Self {
        let header = headers(header_block(raw));
        let recipients: Vec<&str> = delivered_to(&header).collect();
        let message_id = recipients.iter().find_map(|address| addresses.message_id(address));
        let claimed = recipients.iter().any(|address| addresses.claims_to_be_ours(address));
        let ReturnedMail { mut reports, summary } = returned_mail(raw);
        let is_report = reports.iter().any(|report| !report.is_in_text);
        reports.retain(|report| report.action == ReturnedAction::Failed);
        match message_id {
            // Mail servers send notifications with the null reverse-path (RFC 3464 section 2). Any other mail is not
            // from a mail server.
            Some(_) if has_sender(&header) => Self::Harmless,
            Some(message_id) if reports.is_empty() => Self::Said { message_id, summary },
            Some(message_id) => Self::Failure { message_id, reports, summary },
            None if claimed || is_report => Self::Forged,
            None => Self::Other,
        }
    }
}

/// Whether the delivering mail server recorded a reverse-path (RFC 5321 section 4.4) other than the null one.
fn has_sender(header: &[(String, String)]) -> bool {
    let path = header.iter().find(|(name, _)| name.eq_ignore_ascii_case("Return-Path"));
    path.is_some_and(|(_, value)| !value.trim().trim_matches(['<', '>']).trim().is_empty())
}

#[cfg(test)]
mod tests {
    use mailapi_model::NoticeKind;
    use proptest::prelude::*;

    use super::*;
    use crate::bounces::BounceKey;

    const OURS: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn addresses() -> ReturnAddress {
        let mailbox = "bounces@example.org".parse().unwrap();
        ReturnAddress::new(mailbox, '+', &BounceKey::new([7; BounceKey::BYTES])).unwrap()
    }

    fn notice(to: &str, path: &str, action: &str) -> String {
        format!(
            "Return-Path: {path}\r\nDelivered-To: {to}\r\nFrom: MAILER-DAEMON@mx.example.net\r\nTo: <{to}>\r\n\
             Content-Type: multipart/report; report-type=delivery-status; boundary=x\r\n\r\n\
             --x\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\
             --x\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example.net\r\n\r\n\
             Final-Recipient: rfc822; gone@example.net\r\nAction: {action}\r\nStatus: 5.1.1\r\n\
             Diagnostic-Code: smtp; 550 5.1.1 No such user\r\n--x--\r\n"
        )
    }

    fn judged(text: &str) -> Notice {
        Notice::of(text.as_bytes(), &addresses())
    }

    #[test]
    fn mail_to_no_return_address_is_not_believed() {
        assert_eq!(judged(&notice("bounces@example.org", "<>", "failed")), Notice::Forged);
        assert_eq!(judged(&notice(&format!("bounces+{OURS}@example.org"), "<>", "failed")), Notice::Forged);
        assert_eq!(judged("To: bounces+x@example.org\r\n\r\nbuy now\r\n"), Notice::Forged);
        assert_eq!(judged("To: bounces@example.org\r\n\r\nbuy now\r\n"), Notice::Other);
        assert_eq!(judged(""), Notice::Other);
    }

    #[test]
    fn a_delay_and_an_answer_of_a_person_are_no_failures() {
        let to = addresses().of(OURS.parse().unwrap());
        for action in ["delayed", "delivered", "relayed", "expanded", "nonsense"] {
            assert!(matches!(judged(&notice(&to, "<>", action)), Notice::Said { .. }), "{action}");
        }
        assert_eq!(judged(&notice(&to, "<eve@example.net>", "failed")), Notice::Harmless);
        let away = judged(&format!("To: {to}\r\nFrom: a@far.example\r\nSubject: I am away\r\n\r\nsoon back\r\n"));
        let Notice::Said { summary, .. } = away else { panic!("{away:?}") };
        assert_eq!((summary.kind, summary.text.as_str()), (NoticeKind::Other, "soon back"));
        assert_eq!(summary.server, "far.example".parse().ok());
    }

    #[test]
    fn a_failure_is_of_the_message_that_the_return_address_names() {
        let to = addresses().of(OURS.parse().unwrap());
        // The returned message could be any message, so its envelope id is ignored.
        let text = notice(&to, "<>", "failed").replace("Reporting-MTA", "Original-Envelope-Id: other\r\nReporting-MTA");
        let Notice::Failure { message_id, reports, .. } = judged(&text) else { panic!("no failure") };
        assert_eq!((message_id.to_string().as_str(), reports.len()), (OURS, 1));
        assert_eq!((reports[0].recipient.as_str(), reports[0].status), ("gone@example.net", "5.1.1".parse().ok()));
        let bare = text.replace("Return-Path: <>\r\nDelivered-To", "X-Delivered-To");
        assert!(matches!(judged(&bare), Notice::Failure { .. }), "the To field alone is enough");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..600_usize) {
            let addresses = addresses();
            let _ = Notice::of(&bytes, &addresses);
            let whole = notice(&addresses.of(OURS.parse().unwrap()), "<>", "failed").into_bytes();
            let at = at.min(whole.len());
            // Cut off, and damaged.
            let _ = Notice::of(&whole[..at], &addresses);
            let mut damaged = whole.clone();
            let end = (at + bytes.len()).min(damaged.len());
            damaged.splice(at..end, bytes);
            let _ = Notice::of(&damaged, &addresses);
        }
    }
}
