//! Which mail the feed reports as submitted by a mail program.

use mailapi_backend::DeliveryFeed;
use mailapi_model::{FeedCursor, Outcome, SubmittedFact, SubmittedReport};
use mailapi_testkit::SmtpSink;

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

async fn reports(host: &MailHost) -> Vec<SubmittedReport> {
    host.message_store.read_after(&FeedCursor::default(), 1000).await.unwrap().submitted
}

/// Sends a message after these commands.
async fn converse(line: &mut Line, commands: &[&str], message: &str) {
    line.reply().await;
    line.say("EHLO client.example").await;
    for command in commands.iter().chain(&["DATA"]) {
        assert!(line.say(command).await.starts_with(['2', '3']), "{command}");
    }
    line.send(message.as_bytes()).await;
    assert!(line.say(".").await.starts_with("250"));
}

#[tokio::test]
async fn mail_from_outside_in_the_name_of_a_user_is_not_marked() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let commands = ["MAIL FROM:<ann@here.example>", "RCPT TO:<bob@here.example>"];
    converse(&mut Line::to(host.smtp).await, &commands, &mail("Hello")).await;
    // As the API does, and the server itself for its notices.
    host.send(&["zoe@far.example", "bob@here.example"], &mail("Hello")).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(host.events().await.len(), 3);
    assert_eq!(reports(&host).await, []);
}

#[tokio::test]
async fn mail_of_a_log_in_is_marked_from_its_acceptance_to_its_end() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.0 Come again later"]);
    let commands = [
        "AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0",
        "MAIL FROM:<ann@here.example>",
        "RCPT TO:<Bob@here.example>",
        "RCPT TO:<full@here.example>",
        "RCPT TO:<zoe@far.example>",
    ];
    let message = format!("From: info@team.example\r\n\r\n{}\r\n", "x".repeat(600));
    converse(&mut Line::to(host.submission).await, &commands, &message).await;
    let agent = host.agent_to(&sink);
    agent.deliver_due_once().await.unwrap();
    host.wait(60 * 24);
    agent.deliver_due_once().await.unwrap();

    let reports = reports(&host).await;
    let SubmittedFact::Accepted { recipients, size } = &reports[0].fact else { panic!("{reports:?}") };
    assert_eq!(*recipients, ["bob@here.example", "zoe@far.example"].map(address));
    assert!(*size > 600);
    let attempts: Vec<_> = reports[1..]
        .iter()
        .map(|report| match &report.fact {
            SubmittedFact::Attempted { report, attempts, is_mailbox } => {
                (report.recipient.as_str(), report.outcome, *attempts, *is_mailbox)
            }
            SubmittedFact::Accepted { .. } => panic!("{report:?}"),
        })
        .collect();
    let expected = [
        ("full@here.example", Outcome::Bounced, 0, false),
        ("bob@here.example", Outcome::Sent, 0, true),
        ("zoe@far.example", Outcome::Deferred, 0, false),
        ("zoe@far.example", Outcome::Sent, 1, false),
    ];
    assert_eq!(attempts, expected, "the notice to ann is no mail of a mail program");
    let mail = &reports[0].mail;
    assert_eq!((&mail.mailbox, &mail.from), (&address("ann@here.example"), &address("info@team.example")));
    assert!(reports.iter().all(|report| report.mail == *mail), "{reports:?}");
    assert_eq!(host.events().await.len(), 5, "the four, and the notice");
}
