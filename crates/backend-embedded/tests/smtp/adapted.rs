//! Messages for servers that take less than 8-bit text and UTF-8 headers.

use std::sync::Arc;

use mailapi_model::Outcome;
use mailapi_testkit::SmtpSink;

use crate::mail_host::{MailHost, Seal};

/// What a server without any extension of text offers.
const PLAIN: [&str; 2] = ["PIPELINING", "ENHANCEDSTATUSCODES"];
const EIGHT_BIT: [&str; 2] = ["PIPELINING", "8BITMIME"];

const HEAD: &str = "From: ann@here.example\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n";

/// Sends the message through a server with these extensions. Returns what it got, and what was reported.
async fn sent(message: &str, offered: &[&str]) -> (Vec<String>, Vec<(Outcome, String)>) {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.offer(offered);
    host.send(&["zoe@far.example"], message).await;
    let agent = host.agent_to(&sink);
    agent.sign_with(Arc::new(Seal));
    agent.deliver_due_once().await.unwrap();
    let received = sink.received().into_iter().map(|message| String::from_utf8(message.data).unwrap()).collect();
    let reported = host.reported().await.into_iter().filter(|(recipient, ..)| recipient == "zoe@far.example");
    (received, reported.map(|(_, outcome, code)| (outcome, code)).collect())
}

#[tokio::test]
async fn a_signed_part_is_returned_rather_than_changed() {
    let message = "From: ann@here.example\r\nContent-Type: multipart/signed; boundary=s\r\n\r\n\
        --s\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n--s\r\n\r\nsignature\r\n--s--\r\n";
    let (received, reported) = sent(message, &PLAIN).await;
    assert!(received.is_empty());
    assert_eq!(reported, [(Outcome::Bounced, "5.6.3".to_owned())]);
    let (received, _) = sent(message, &EIGHT_BIT).await;
    assert_eq!(received, [message]);
}

#[tokio::test]
async fn an_address_in_the_header_without_an_ascii_form_bounces() {
    let (received, reported) = sent("From: ann@here.example\r\nCc: jürgen@far.example\r\n\r\nHi\r\n", &EIGHT_BIT).await;
    assert!(received.is_empty());
    assert_eq!(reported, [(Outcome::Bounced, "5.6.7".to_owned())]);
}

#[tokio::test]
async fn eight_bit_text_is_encoded_for_a_server_that_takes_none() {
    let message = format!("{HEAD}Content-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n");
    let (received, reported) = sent(&message, &PLAIN).await;
    assert_eq!(received, [format!("{HEAD}Content-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe\r\n")]);
    assert_eq!(reported, [(Outcome::Sent, "2.0.0".to_owned())]);
    let (received, _) = sent(&message, &EIGHT_BIT).await;
    assert_eq!(received, [message]);
}

#[tokio::test]
async fn a_header_in_utf_8_is_encoded_for_a_server_that_takes_ascii() {
    let (received, reported) =
        sent("From: Jürgen <ann@here.example>\r\nSubject: Grüße\r\n\r\nTschüß\r\n", &EIGHT_BIT).await;
    let (header, body) = received[0].split_once("\r\n\r\n").unwrap();
    assert!(header.is_ascii() && header.contains("=?") && header.ends_with("?="), "{header}");
    assert!(header.contains("<ann@here.example>"), "{header}");
    assert_eq!(body, "Tschüß\r\n");
    assert_eq!(reported, [(Outcome::Sent, "2.0.0".to_owned())]);
}

#[tokio::test]
async fn our_signature_is_made_again_after_the_conversion() {
    let signed = format!(
        "DKIM-Signature: d=here.example;\r\n b=old\r\nDKIM-Signature: d=other.example; b=x\r\n{HEAD}\r\nGrüße\r\n"
    );
    let (received, _) = sent(&signed, &PLAIN).await;
    let expected = "DKIM-Signature: d=here.example\r\nDKIM-Signature: d=other.example; b=x\r\nFrom:";
    assert!(received[0].starts_with(expected), "{}", received[0]);
    assert!(received[0].ends_with("Gr=C3=BC=C3=9Fe\r\n"));
    let (received, _) = sent(&signed, &EIGHT_BIT).await;
    assert_eq!(received, [signed], "a message that is not converted keeps its signature");
}
