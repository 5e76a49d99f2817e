//! Trace fields: adds a Received header field, and counts existing ones (RFC 5321 sections 4.4 and 6.3).

use std::borrow::Cow;
use std::net::IpAddr;

use mail_builder::headers::date::Date;
use mailapi_backend::mime::header_lines;
use mailapi_model::{EmailAddress, QueueId, Timestamp};
use mailapi_smtp::Reply;
use mailapi_smtp::server::Message;

use super::Body;

/// Origin of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceFields<'a> {
    pub(crate) hostname: &'a str,
    pub(crate) peer: IpAddr,
    pub(crate) queue_id: &'a QueueId,
    pub(crate) now: Timestamp,
}

impl TraceFields<'_> {
    /// Returns the Received header field with its line end. It names the recipient if there is only one: several must not
    /// learn of each other (RFC 5321 section 7.2).
    pub(crate) fn header(&self, message: &Message) -> String {
        let Self { hostname, queue_id, now, .. } = self;
        let client = host_name(&message.client_name);
        let address = address_literal(self.peer);
        let protocol = message.protocol;
        let date = Date::new(now.as_seconds()).to_rfc822();
        let recipient = only_recipient(message).map(|recipient| format!("\r\n\tfor <{recipient}>")).unwrap_or_default();
        format!(
            "Received: from {client} ({address})\r\n\tby {hostname} with {protocol} id {queue_id}{recipient};\r\n\t{date}\r\n"
        )
    }
}

/// Returns the only recipient of a message. One outside ASCII is left out: the message may be forwarded to a server without
/// SMTPUTF8 (RFC 6531 section 3.7.3).
fn only_recipient(message: &Message) -> Option<String> {
    let [recipient] = message.envelope.recipients.as_slice() else { return None };
    let address = EmailAddress::as_given(&recipient.forward_path).ok()?;
    Some(address.wire().into_owned()).filter(|address| address.is_ascii())
}

/// Returns the client's name without characters that could start another part of the header.
fn host_name(given: &str) -> String {
    /// Maximum length of a domain in octets (RFC 5321 section 4.5.3.1.2).
    const MAX: usize = 255;
    let harmless = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let name: String = given.chars().take(MAX).map(|c| if harmless(c) { c } else { '?' }).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Formats an address literal (RFC 5321 section 4.1.3).
fn address_literal(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => format!("[{v4}]"),
        IpAddr::V6(v6) => format!("[IPv6:{v6}]"),
    }
}

/// Returns the part of a message that may be header: all of a short one.
pub(crate) async fn header_of(body: &Body, max_header_bytes: usize) -> Result<Cow<'_, [u8]>, Reply> {
    body.beginning(max_header_bytes).await.map_err(|error| {
        tracing::error!(%error, "buffered message could not be read");
        Reply::new(451, (4, 3, 0), "The message cannot be read at the moment")
    })
}

/// Refuses a message with more than `max` hops; `beginning` contains its header.
pub(crate) fn check_hops(beginning: &[u8], max: usize) -> Result<(), Reply> {
    too_many_hops(beginning, max).map_or(Ok(()), Err)
}

/// Returns the refusal of a message with more than `max` hops.
fn too_many_hops(message: &[u8], max: usize) -> Option<Reply> {
    let hops = header_lines(message).filter(|line| is_received(line)).take(max + 1).count();
    (hops > max).then(|| Reply::new(554, (5, 4, 6), "Too many hops; the message may be in a loop"))
}

fn is_received(line: &[u8]) -> bool {
    const NAME: &[u8] = b"received";
    let Some((name, rest)) = line.split_at_checked(NAME.len()) else { return false };
    // White space before the colon is obsolete syntax but valid (RFC 5322 section 4.5).
    name.eq_ignore_ascii_case(NAME) && rest.trim_ascii_start().starts_with(b":")
}

#[cfg(test)]
mod tests {
    use mailapi_smtp::Envelope;
    use mailapi_smtp::server::Share;
    use proptest::prelude::*;

    use super::*;

    fn message(client_name: &str, recipients: &[&str]) -> Message {
        let envelope = Envelope::new("", recipients.iter().copied());
        Message {
            envelope,
            data: Vec::new(),
            client_name: client_name.to_owned(),
            protocol: "ESMTPS",
            room: Share::default(),
        }
    }

    fn header(client_name: &str, peer: &str) -> String {
        header_for(client_name, peer, &["ann@here.example", "bob@here.example"])
    }

    fn header_for(client_name: &str, peer: &str, recipients: &[&str]) -> String {
        let queue_id = QueueId("Q1".to_owned());
        let trace = TraceFields {
            hostname: "mx.here.example",
            peer: peer.parse().unwrap(),
            queue_id: &queue_id,
            now: "2026-11-20T10:15:30Z".parse().unwrap(),
        };
        trace.header(&message(client_name, recipients))
    }

    #[test]
    fn what_the_client_calls_itself_cannot_forge_the_rest() {
        assert_eq!(
            header("relay (127.0.0.1) by mx; Ü", "2001:db8::1"),
            "Received: from relay??127.0.0.1??by?mx??? ([IPv6:2001:db8::1])\r\n\
             \tby mx.here.example with ESMTPS id Q1;\r\n\tFri, 20 Nov 2026 10:15:30 +0000\r\n"
        );
        assert!(header("", "::ffff:192.0.2.1").starts_with("Received: from unknown ([192.0.2.1])\r\n"));
    }

    #[test]
    fn only_a_single_recipient_is_named() {
        let named = |recipients: &[&str]| {
            let header = header_for("a", "192.0.2.1", recipients);
            let (_, rest) = header.split_once(" id Q1").unwrap();
            rest.split_once(';').unwrap().0.to_owned()
        };
        for unnamed in [&["ann@here.example", "bob@here.example"][..], &["postmaster"], &["é@here.example"], &[]] {
            assert_eq!(named(unnamed), "", "{unnamed:?}");
        }
        assert_eq!(named(&["Bob+Key@here.example"]), "\r\n\tfor <Bob+Key@here.example>");
        assert_eq!(named(&["bob@bücher.example"]), "\r\n\tfor <bob@xn--bcher-kva.example>");
        assert_eq!(named(&["\"a; b\"@here.example"]), "\r\n\tfor <\"a");
    }

    #[test]
    fn a_mail_loop_is_refused_and_received_lines_in_a_body_are_not() {
        let twice = b"Received: a\r\nrEceived : b\r\n\tReceived: folded\r\nReceived-SPF: pass\r\n\r\nReceived: c\r\n";
        assert!(too_many_hops(twice, 2).is_none());
        assert_eq!(too_many_hops(twice, 1).map(|reply| reply.code), Some(554));
        assert!(too_many_hops(b"", 0).is_none());
    }

    proptest! {
        #[test]
        fn any_client_name_makes_one_header_and_any_message_is_counted(name in any::<String>(), to in any::<String>(), message in prop::collection::vec(any::<u8>(), 0..200)) {
            let header = header_for(&name, "192.0.2.1", &[to.as_str(), "bob@here.example"][..1 + usize::from(to.len() % 2 == 0)]);
            let lines = 3 + usize::from(header.contains("\r\n\tfor <"));
            prop_assert_eq!(header.matches('\n').count(), lines);
            prop_assert!(header.ends_with("\r\n") && header.is_ascii());
            let _ = too_many_hops(&message, 1);
        }
    }
}
