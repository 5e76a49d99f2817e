//! Random messages over one pooled connection to a real Postfix: the reported results must match what it accepted.
//!
//! `PROPTEST_CASES` sets the number of messages.

use std::collections::BTreeMap;

use mailapi_backend_external::smtp_pool::{CommitGate, SmtpPool, SmtpSettings};
use mailapi_model::Entropy;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{End, Outcome, RecipientOutcome};
use mailapi_testkit::{Postfix, PostfixSettings, Received, SeededEntropy, SmtpSink};
use mailapi_tls::{Trust, client_config};
use proptest::test_runner::Config;

/// The first word of an address selects how Postfix treats it.
const REFUSALS: [(&str, &str); 4] = [
    (
        "smtpd_sender_restrictions",
        "check_sender_access regexp:{{/^mail4-/ 450 4.7.1 no}, {/^mail5-/ 550 5.7.1 no}, {/^mail421-/ 421 4.7.0 no}}",
    ),
    (
        "smtpd_recipient_restrictions",
        "check_recipient_access regexp:{{/^no4-/ 450 4.7.1 no}, {/^no5-/ 550 5.7.1 no}, {/^no421-/ 421 4.7.0 no}}",
    ),
    (
        "smtpd_data_restrictions",
        "check_sender_access regexp:{{/^data4-/ 451 4.7.1 no}, {/^data5-/ 554 5.7.1 no}, {/^data421-/ 421 4.7.0 no}}",
    ),
    (
        "smtpd_end_of_data_restrictions",
        "check_sender_access regexp:{{/^dot4-/ 451 4.7.1 no}, {/^dot5-/ 554 5.7.1 no}, {/^dot421-/ 421 4.7.0 no}}",
    ),
];

const SENDERS: [&str; 13] = [
    "mail4", "mail5", "mail421", "data4", "data5", "data421", "dot4", "dot5", "dot421", "header", "gone", "dropped",
    "ok",
];
const RECIPIENTS: [&str; 9] = ["no4", "no5", "no4", "no5", "no421", "ok", "ok", "ok", "ok"];

/// Returns a number below `end`.
fn below(entropy: &SeededEntropy, end: usize) -> usize {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    u32::from_le_bytes(bytes) as usize % end
}

struct Message {
    kind: &'static str,
    sender: String,
    recipients: Vec<String>,
    bytes: Vec<u8>,
}

/// Creates a message. Half of the senders are accepted; of these, half have only accepted recipients.
fn message(entropy: &SeededEntropy, number: usize) -> Message {
    let kind = if below(entropy, 2) == 0 { "ok" } else { SENDERS[below(entropy, SENDERS.len())] };
    let all_welcome = below(entropy, 3) == 0;
    let recipient = |at| {
        let kind = if all_welcome { "ok" } else { RECIPIENTS[below(entropy, RECIPIENTS.len())] };
        format!("{kind}-{number}-{at}@far.example")
    };
    let recipients = (0..=below(entropy, 4)).map(recipient).collect();
    let subject = if kind == "header" { "refuse this" } else { "Hi" };
    let sender = format!("{kind}-{number}@example.org");
    let body: String =
        (0..below(entropy, 8)).map(|at| format!("{}{number} {at}\r\n", [".", "..", ""][at % 3])).collect();
    let bytes = format!(
        "Message-ID: <{number}@example.org>\r\nDate: Fri, 20 Nov 2026 10:15:30 +0000\r\nFrom: {sender}\r\n\
         To: undisclosed-recipients:;\r\nSubject: {subject}\r\n\r\n{body}"
    );
    Message { kind, sender, recipients, bytes: bytes.into_bytes() }
}

/// Sends a message. Returns `None` if the caller was cancelled.
async fn send(pool: &SmtpPool, entropy: &SeededEntropy, message: &Message) -> Option<Outcome> {
    let envelope = Envelope::new(message.sender.as_str(), message.recipients.iter().cloned());
    let bytes = || message.bytes.clone().into();
    match message.kind {
        "gone" => {
            let (opener, commit_gate) = CommitGate::closed();
            drop(opener);
            let sent = pool.send(&envelope, bytes(), commit_gate).await;
            assert!(!matches!(&sent, Ok(Outcome { end: End::Accepted(_) | End::OutcomeUnknown(_), .. })), "{sent:?}");
            sent.ok()
        }
        "dropped" => {
            let patience = async {
                for _ in 0..below(entropy, 300) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                () = patience => None,
                sent = pool.send(&envelope, bytes(), CommitGate::opened()) => Some(sent.expect("Postfix is there")),
            }
        }
        _ => Some(pool.send(&envelope, bytes(), CommitGate::opened()).await.expect("Postfix is there")),
    }
}

/// Returns the messages that arrived from each sender: all recipients, and the text, which is the same in each copy.
fn arrived(received: Vec<Received>) -> BTreeMap<String, (Vec<String>, Vec<u8>)> {
    let mut arrived = BTreeMap::<String, (Vec<String>, Vec<u8>)>::new();
    for Received { sender, recipients, data } in received {
        // Postfix adds its own field at the top, over several lines.
        let start = data.windows(11).position(|window| window == b"Message-ID:").unwrap_or(0);
        let entry = arrived.entry(sender.clone()).or_insert_with(|| (Vec::new(), data[start..].to_vec()));
        assert_eq!(entry.1, data[start..], "two messages of {sender}");
        entry.0.extend(recipients);
    }
    arrived
}

fn compare(message: &Message, outcome: Option<&Outcome>, arrived: Option<&(Vec<String>, Vec<u8>)>) {
    let (got, text) = arrived.cloned().unwrap_or_default();
    let strangers: Vec<_> = got.iter().filter(|recipient| !message.recipients.contains(recipient)).collect();
    assert!(strangers.is_empty(), "the message of {} went to {strangers:?}", message.sender);
    let mut once = got.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), got.len(), "the message of {} came twice", message.sender);
    if !got.is_empty() {
        assert_eq!(text.escape_ascii().to_string(), message.bytes.escape_ascii().to_string());
    }
    let recipient_outcomes = outcome.into_iter().flat_map(Outcome::recipient_outcomes);
    for (recipient, recipient_outcome) in message.recipients.iter().zip(recipient_outcomes) {
        let is_reported = match recipient_outcome {
            RecipientOutcome::Accepted(_) => true,
            RecipientOutcome::Refused(_) | RecipientOutcome::Failed(_) => false,
            RecipientOutcome::Unknown(failure) => panic!("{}: {failure}", message.sender),
        };
        assert_eq!(is_reported, got.contains(recipient), "{} to {recipient}: {outcome:?}", message.sender);
    }
}

#[tokio::test]
async fn what_postfix_took_is_what_we_report() {
    let count = Config::default().cases as usize;
    let sink = SmtpSink::start().await;
    let mut settings = PostfixSettings::new(&[], sink.address());
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    settings.parameters.extend(REFUSALS.map(own));
    settings.parameters.extend(
        [
            // Refuse at the configured command, without slowing the test down.
            ("smtpd_delay_reject", "no"),
            ("smtpd_error_sleep_time", "0"),
            ("header_checks", "regexp:{{/^Subject: refuse/ REJECT no}}"),
        ]
        .map(own),
    );
    let postfix = Postfix::start(&settings).await;
    let address = postfix.api();
    let settings = SmtpSettings { max_connections: 1, ..SmtpSettings::new(address.ip().to_string(), address.port()) };
    let pool = SmtpPool::new(settings, client_config(&Trust::System).expect("authorities"));
    let entropy = SeededEntropy::default();
    let (mut sent, mut kept) = (Vec::new(), 0);
    for number in 0..count {
        kept += pool.idle_connections();
        let message = message(&entropy, number);
        let outcome = send(&pool, &entropy, &message).await;
        sent.push((message, outcome));
    }
    drop(pool);
    postfix.drained().await;
    let mut arrived = arrived(sink.received());
    for (message, outcome) in &sent {
        compare(message, outcome.as_ref(), arrived.remove(&message.sender).as_ref());
    }
    assert!(arrived.is_empty(), "{arrived:?} arrived but was never sent");
    let accepted = sent.iter().filter(|(_, outcome)| matches!(outcome, Some(Outcome { end: End::Accepted(_), .. })));
    let accepted = accepted.count();
    assert!(kept > count / 2 && accepted > count / 10, "{kept} over a kept connection, {accepted} accepted");
}
