//! What the door for mail from outside tells for statistics.

use mailapi_model::InboundOutcome::{Accepted, Rejected};

use crate::office::{Office, mail};
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
