//! How many may come in, how long they may stay, and how they are sent away.

use std::time::Duration;

use crate::office::{Office, mail};
use crate::socket::Line;

#[tokio::test]
async fn a_client_with_too_many_connections_is_told_to_come_again() {
    let office = Office::open_with(|doors, _| doors.smtp_connections.max_connections_per_client = 1).await;
    let mut first = Line::to(office.smtp).await;
    assert!(first.reply().await.starts_with("220"));
    let mut second = Line::to(office.smtp).await;
    assert!(second.reply().await.starts_with("421 4.7.0"));
    assert!(second.read().await.is_none());
    assert_eq!(first.say("QUIT").await, "221 2.0.0 Bye");
}

#[tokio::test]
async fn a_silent_client_and_one_that_stays_too_long_are_sent_away() {
    let short = Duration::from_millis(1);
    let silent = Office::open_with(|doors, _| doors.smtp.idle_timeout = short).await;
    let long = Office::open_with(|doors, _| doors.smtp.session_timeout = short).await;
    for office in [silent, long] {
        let mut line = Line::to(office.smtp).await;
        assert!(line.reply().await.starts_with("220"));
        assert!(line.reply().await.starts_with("421 4.4.2"));
        assert!(line.read().await.is_none());
    }
}

#[tokio::test]
async fn at_the_end_a_message_on_its_way_still_comes_in_and_others_have_to_leave() {
    let office = Office::open().await;
    let mut idle = Line::to(office.smtp).await;
    idle.reply().await;
    let mut busy = Line::to(office.smtp).await;
    busy.reply().await;
    busy.say("EHLO client.example").await;
    busy.say("MAIL FROM:<zoe@far.example>").await;
    busy.say("RCPT TO:<bob@here.example>").await;
    assert!(busy.say("DATA").await.starts_with("354"));
    office.ask_to_leave();
    assert!(idle.reply().await.starts_with("421 4.3.2"));
    busy.send(mail("Late").as_bytes()).await;
    assert!(busy.say(".").await.starts_with("250 2.0.0"));
    assert!(busy.reply().await.starts_with("421 4.3.2"));
    assert_eq!(office.inbox("bob@here.example").await.len(), 1);
    office.close().await;
}

#[tokio::test]
async fn a_message_that_does_not_come_to_its_end_in_time_is_not_taken() {
    let office = Office::open_with(|doors, _| doors.smtp_connections.grace = Duration::from_millis(1)).await;
    let mut busy = Line::to(office.smtp).await;
    busy.reply().await;
    busy.say("EHLO client.example").await;
    busy.say("MAIL FROM:<zoe@far.example>").await;
    busy.say("RCPT TO:<bob@here.example>").await;
    busy.say("DATA").await;
    busy.send(b"Subject: half\r\n").await;
    office.ask_to_leave();
    assert!(busy.reply().await.starts_with("421 4.3.2"));
    assert!(office.inbox("bob@here.example").await.is_empty());
}
