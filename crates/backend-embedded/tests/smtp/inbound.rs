//! Who is reached from outside, and what is told of it for statistics.

use mailapi_model::InboundOutcome::{Accepted, Rejected};

use crate::office::{Office, address, mail};
use crate::socket::Line;

#[tokio::test]
async fn every_recipient_of_ours_is_counted_and_nobody_elses() {
    let office = Office::open().await;
    let mut line = Line::to(office.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say("MAIL FROM:<zoe@far.example>").await;
    assert!(line.say("RCPT TO:<nobody@here.example>").await.starts_with("550 5.1.1"));
    assert!(line.say("RCPT TO:<zoe@elsewhere.example>").await.starts_with("550 5.7.1"));
    assert!(line.say("RCPT TO:<bob@here.example>").await.starts_with("250"));
    line.say("DATA").await;
    line.send(mail("Hello").as_bytes()).await;
    assert!(line.say(".").await.starts_with("250"));

    let event = |outcome| ("here.example".to_owned(), Some("far.example".to_owned()), outcome);
    assert_eq!(office.counted(), [event(Rejected), event(Accepted)]);
}

/// What `RCPT TO:<postmaster>` is answered where these are the candidates.
async fn asked_for_postmaster(candidates: &[&str]) -> (Office, String) {
    let postmasters = candidates.iter().map(|text| address(text)).collect();
    let office = Office::open_with(|listeners, _| listeners.postmasters = postmasters).await;
    let mut line = Line::to(office.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say("MAIL FROM:<zoe@far.example>").await;
    let answer = line.say("RCPT TO:<postmaster>").await;
    if answer.starts_with("250") {
        line.say("DATA").await;
        line.send(mail("Hello").as_bytes()).await;
        assert!(line.say(".").await.starts_with("250"));
    }
    (office, answer)
}

#[tokio::test]
async fn the_postmaster_is_the_first_who_has_a_mailbox_here() {
    let (office, answer) =
        asked_for_postmaster(&["postmaster@here.example", "ann@far.example", "bob@here.example", "ann@here.example"])
            .await;
    assert!(answer.starts_with("250"), "{answer}");
    assert_eq!((office.inbox("bob@here.example").await.len(), office.inbox("ann@here.example").await.len()), (1, 0));

    for nobody in [&["postmaster@here.example", "ann@far.example"][..], &[]] {
        let (office, answer) = asked_for_postmaster(nobody).await;
        assert!(answer.starts_with("550 5.1.1"), "{answer}");
        assert_eq!(office.inbox("ann@here.example").await.len(), 0);
    }
}
