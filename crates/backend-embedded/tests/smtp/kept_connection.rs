//! Random messages over reused connections of the delivery agent: its reports must match what the relay
//! accepted.
//!
//! `PROPTEST_CASES` sets the number of messages.

use std::collections::BTreeMap;

use mailapi_model::{Entropy, Outcome};
use mailapi_testkit::{Moment, Reaction, SeededEntropy, StrictServer};
use proptest::test_runner::Config;

use crate::mail_host::{MailHost, relay_at};

/// Returns a random number below `end`.
fn below(entropy: &SeededEntropy, end: usize) -> usize {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    u32::from_le_bytes(bytes) as usize % end
}

/// Refuses every fourth command; some refusals also close the connection.
fn reaction(entropy: &SeededEntropy, moment: &Moment) -> Reaction {
    let seldom = matches!(moment, Moment::Reset | Moment::Midway) && below(entropy, 20) > 0;
    match below(entropy, 60) {
        _ if seldom => Reaction::Yes,
        0..6 => Reaction::No(450),
        6..12 => Reaction::No(550),
        12 => Reaction::Closing,
        13 => Reaction::HangUp,
        14 => Reaction::TakeAndHangUp,
        15 => Reaction::TakeAndMumble,
        _ if *moment == Moment::DataWithoutRecipients && below(entropy, 8) > 0 => Reaction::No(554),
        _ => Reaction::Yes,
    }
}

fn message(number: usize) -> String {
    format!("From: ann@here.example\r\nSubject: {number}\r\n\r\n.{number}\r\n..\r\n{number}\r\n")
}

/// Counts copies by recipient. Each envelope must have its own message and only its own recipients.
fn copies(server: &StrictServer) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for taken in &server.record().taken {
        for recipient in &taken.recipients {
            let number = recipient[1..].split('-').next().and_then(|number| number.parse().ok()).expect("a number");
            assert_eq!(String::from_utf8_lossy(&taken.data), message(number), "to {recipient}");
            *copies.entry(recipient.clone()).or_default() += 1;
        }
    }
    copies
}

#[tokio::test]
async fn the_delivery_agent_reports_what_the_relay_accepted() {
    let count = Config::default().cases as usize;
    let (host, entropy) = (MailHost::open().await, SeededEntropy::default());
    let for_server = SeededEntropy::new(7);
    let server = StrictServer::start(move |moment| reaction(&for_server, moment)).await;
    for number in 0..count {
        let recipients: Vec<_> = (0..=below(&entropy, 4)).map(|at| format!("r{number}-{at}@far.example")).collect();
        let recipients: Vec<_> = recipients.iter().map(String::as_str).collect();
        host.send(&recipients, &message(number)).await;
    }
    let agent = host.agent(|settings| {
        settings.relay = relay_at(server.address());
        settings.max_messages_per_connection = 20;
        settings.max_recipients = 3;
    });
    // Some recipients still wait after the fourth run.
    for minutes in [0, 5, 10, 20] {
        host.wait(minutes);
        agent.deliver_due_once().await.unwrap();
    }
    assert_eq!(server.record().faults, Vec::<String>::new());
    let mut copies = copies(&server);
    let mut reported = BTreeMap::<String, (Vec<Outcome>, usize)>::new();
    for event in host.all_events().await.into_iter().filter(|event| event.recipient.as_str().starts_with('r')) {
        let (outcomes, unknown) = reported.entry(event.recipient.to_string()).or_default();
        outcomes.push(event.outcome);
        *unknown += usize::from(event.response.contains("it may have been delivered"));
    }
    let (mut sent, mut bounced) = (0, 0);
    for (recipient, (outcomes, unknown)) in reported {
        let taken = copies.remove(&recipient).unwrap_or_default();
        let certain = outcomes.iter().filter(|outcome| **outcome == Outcome::Sent).count();
        assert!((certain..=certain + unknown).contains(&taken), "{recipient}: {taken} copies, {outcomes:?}");
        let ends = outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::Deferred)).count();
        assert!(ends <= 1, "{recipient}: {outcomes:?}");
        sent += certain;
        bounced += usize::from(outcomes.contains(&Outcome::Bounced));
    }
    assert!(copies.is_empty(), "no event for {copies:?}");
    assert!(sent > count / 4 && bounced > 0, "{sent} sent, {bounced} bounced");
}
