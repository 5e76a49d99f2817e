//! The address that a message was sent to, as the server that stored it wrote it.
//!
//! Each server writes its fields above those that the message brought (RFC 5321 section 4.4, RFC 9228 section 3). So
//! only fields above the first Received count, and the Received fields of the server that accepted the message and of the
//! one that stored it. A sender can write everything below.

use std::borrow::Cow;

use mailapi_model::EmailAddress;

use super::date::without_comments;
use super::fields::{self, Field};
use super::limits::Limits;

/// Fields with the address before aliases were expanded: Postfix's and Exim's.
const ORIGINAL: [&str; 2] = ["X-Original-To", "Envelope-To"];
/// The field with the address that the delivery agent was given (RFC 9228).
const DELIVERED: &str = "Delivered-To";
const RECEIVED: &str = "Received";

/// Returns the address that a message was sent to, according to its header block; `None` if it is not known.
#[must_use]
pub fn recipient_of(header: &[u8]) -> Option<EmailAddress> {
    let all = fields::fields(header, Limits::default().max_fields);
    let is_received = |field: &Field<'_>| field.name.eq_ignore_ascii_case(RECEIVED);
    let end = all.iter().position(is_received).unwrap_or(all.len());
    let (own, rest) = all.split_at(end);
    let mut trace = rest.iter().filter(|field| is_received(field)).map(|field| fields::unfolded(&field.value));
    let stored = trace.next();
    // Dovecot writes its address after Postfix expanded the alias. Postfix writes the one before.
    ORIGINAL
        .iter()
        .find_map(|name| named(own, name))
        .or_else(|| accepted_for(stored.as_deref()?, trace.next()))
        .or_else(|| named(own, DELIVERED))
        .or_else(|| TraceHop::read(stored.as_deref()?).recipient())
}

/// Returns the address in the first field with this name.
fn named(fields: &[Field<'_>], name: &str) -> Option<EmailAddress> {
    let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
    address(&fields::text_line(&field.value))
}

fn address(text: &str) -> Option<EmailAddress> {
    let text = text.trim();
    text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text).parse().ok()
}

/// Returns the address for which the server that accepted the message received it. Servers name it if there was only one.
fn accepted_for(stored: &str, before: Option<Cow<'_, str>>) -> Option<EmailAddress> {
    let stored = TraceHop::read(stored);
    if !stored.is_lmtp() {
        return stored.recipient();
    }
    // The server before the store is the operator's only if the store received the message from it.
    let before = before?;
    let before = TraceHop::read(&before);
    let is_own = before.by.as_ref().zip(stored.from.as_ref()).is_some_and(|(by, from)| by.eq_ignore_ascii_case(from));
    if is_own { before.recipient() } else { None }
}

/// What a Received field says (RFC 5321 section 4.4).
#[derive(Debug, Default)]
struct TraceHop {
    from: Option<String>,
    by: Option<String>,
    with: Option<String>,
    recipient: Option<String>,
}

impl TraceHop {
    fn read(field: &str) -> Self {
        let text = without_comments(field);
        let mut words = text.split(';').next().unwrap_or_default().split_whitespace();
        let mut hop = Self::default();
        // Each clause is a name and a value. A client may call itself `for`.
        while let Some(word) = words.next() {
            let place = match word.to_ascii_lowercase().as_str() {
                "from" => &mut hop.from,
                "by" => &mut hop.by,
                "with" => &mut hop.with,
                "for" => &mut hop.recipient,
                _ => continue,
            };
            let value = words.next().map(str::to_owned);
            if place.is_none() {
                *place = value;
            }
        }
        hop
    }

    fn is_lmtp(&self) -> bool {
        self.with.as_ref().is_some_and(|with| with.to_ascii_uppercase().starts_with("LMTP"))
    }

    fn recipient(&self) -> Option<EmailAddress> {
        address(self.recipient.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LMTP: &str = "Received: from mx.here.example ([127.0.0.1])\r\n\tby mx.here.example with LMTP\r\n\tid \
                        OPx3 (envelope-from <eve@far.example>)\r\n\tfor <bob@here.example>; Fri, 20 Nov 2026\r\n";
    const FORGED: &str = "Received: from x by mx.here.example for <forged@here.example>; x\r\n\
                          Delivered-To: forged@here.example\r\nX-Original-To: forged@here.example\r\n";

    fn postfix(recipient: &str) -> String {
        format!(
            "Received: from far.example (far.example [192.0.2.1])\r\n\t(using TLSv1.3 with cipher X (256/256 bits))\r\n\
             \tby mx.here.example (Postfix) with ESMTPS id 4CqG{recipient};\r\n\tFri, 20 Nov 2026\r\n"
        )
    }

    fn recipient(header: &str) -> Option<String> {
        recipient_of(format!("Return-Path: <eve@far.example>\r\n{header}{FORGED}Subject: x\r\n\r\n").as_bytes())
            .map(|address| address.as_str().to_owned())
    }

    #[test]
    fn what_a_sender_wrote_is_not_the_recipient() {
        assert_eq!(recipient(&postfix("")), None);
        let stranger = "Received: from x by mx.far.example for <forged@here.example>; x\r\n";
        let from_elsewhere = LMTP.replace("for <bob@here.example>", "") + stranger;
        assert_eq!(recipient(&from_elsewhere), None, "the store received it from another server");
        assert_eq!(recipient(&(LMTP.replace("for <bob@here.example>", "") + &postfix(""))), None);
        assert_eq!(recipient_of(b"Delivered-To: bob\r\nDelivered-To: x@y.example\r\n\r\n"), None, "a local user");
    }

    #[test]
    fn the_address_before_the_alias_is_found() {
        let sales = " for <Sales@here.example>";
        let own = "Delivered-To: bob@here.example\r\n";
        for (header, expected) in [
            (format!("{own}{LMTP}{}", postfix(sales)), "sales@here.example"),
            (format!("{own}{LMTP}{}", postfix("")), "bob@here.example"),
            (format!("{LMTP}{}", postfix("")), "bob@here.example"),
            (format!("X-Original-To: sales@here.example\r\n{own}{}", postfix("")), "sales@here.example"),
            (format!("Envelope-to: sales@here.example\r\n{own}{}", postfix("")), "sales@here.example"),
            (format!("Envelope-to: a@here.example, b@here.example\r\n{own}{}", postfix("")), "bob@here.example"),
            (format!("{own}{}", postfix(sales)), "sales@here.example"),
            ("delivered-to: <bob+Tag@here.example>\r\n".to_owned() + &postfix(""), "bob+tag@here.example"),
            ("Delivered-To: =?utf-8?Q?=C3=A9@here.example?=\r\n".to_owned() + &postfix(""), "é@here.example"),
        ] {
            assert_eq!(recipient(&header).as_deref(), Some(expected), "{header}");
        }
    }

    #[test]
    fn a_client_cannot_name_the_recipient() {
        let named =
            "Received: from for (<forged@here.example> [192.0.2.1]) by mx.here.example (for <b@c.example>) id 1;\r\n";
        assert_eq!(recipient(named), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read(header in prop::collection::vec(any::<u8>(), 0..200), value in "\\PC{0,60}") {
            let _ = recipient_of(&header);
            let _ = recipient_of(format!("Delivered-To: {value}\r\nReceived: {value}\r\n\r\n").as_bytes());
        }

        #[test]
        fn nothing_below_the_trace_changes_the_recipient(below in "(Delivered-To|Received|X-Original-To): \\PC{0,60}") {
            let header = format!("{LMTP}{}", postfix(""));
            prop_assert_eq!(recipient(&header), recipient(&format!("{header}{below}\r\n")));
        }
    }
}
