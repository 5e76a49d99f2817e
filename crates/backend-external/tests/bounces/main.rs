//! Bounces that return as mail to a mailbox of a real Dovecot.

mod bounce_mailbox;
mod damaged;

use std::time::Duration;

use mailapi_backend::DeliveryFeed;
use mailapi_model::{DeliveryEvent, Evidence, FeedCursor, Outcome};

use bounce_mailbox::{BounceMailbox, MAILBOX};

fn recipients(events: &[DeliveryEvent]) -> Vec<&str> {
    events.iter().map(|event| event.recipient.as_str()).collect()
}

#[tokio::test]
async fn a_missing_mailbox_or_server_is_reported_and_loses_nothing() {
    let mut mailbox = BounceMailbox::open(|_| {}).await;
    mailbox.dovecot.remove_mailbox(MAILBOX);
    let error = mailbox.feed.read_after(&FeedCursor::default(), 10).await.unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert!(mailbox.feed.check().await.unwrap().is_err());

    mailbox.dovecot.put_mailbox(MAILBOX, None);
    mailbox.notice(1, 1, &["gone@example.net"]);
    assert_eq!(recipients(&mailbox.read().await), ["gone@example.net"]);
    assert_eq!(mailbox.feed.check().await, Some(Ok(())));

    mailbox.notice(2, 2, &["away@example.net"]);
    mailbox.dovecot.kill().await;
    mailbox.feed.read_after(&mailbox.cursor, 10).await.unwrap_err();
    assert!(mailbox.feed.check().await.unwrap().is_err());
    mailbox.dovecot.resume().await;
    assert_eq!(recipients(&mailbox.read().await), ["away@example.net"]);
}

#[tokio::test]
async fn a_notice_without_a_valid_return_address_changes_nothing() {
    let mut mailbox = BounceMailbox::open(|_| {}).await;
    let id = mailbox.id(1);
    // To the mailbox itself, and to addresses that resemble return addresses.
    for (number, address) in [
        MAILBOX.to_owned(),
        format!("bounces+{id}@example.org"),
        mailbox.address(1).replace("bounces+", "bounces+0"),
        BounceMailbox::addresses_of_others().of(id),
    ]
    .into_iter()
    .enumerate()
    {
        mailbox
            .mail(u32::try_from(number).unwrap(), &BounceMailbox::notice_to(&address, &["gone@example.net"], "failed"));
    }
    mailbox.mail(8, &BounceMailbox::notice_to(&mailbox.address(1), &["gone@example.net"], "delayed"));
    mailbox.mail(9, "Subject: buy now\r\n\r\nbuy\r\n");
    let batch = mailbox.feed.read_after(&FeedCursor::default(), 10).await.unwrap();
    assert_eq!((recipients(&batch.events), batch.lines_read), (vec![], 6));
}

#[tokio::test]
async fn a_failure_is_one_event_with_all_details_of_the_notice() {
    let mut mailbox = BounceMailbox::open(|_| {}).await;
    mailbox.notice(1, 1, &["gone@example.net"]);
    let events = mailbox.read().await;
    let event = &events[0];
    assert_eq!(
        (event.message_id, event.outcome, event.evidence),
        (Some(mailbox.id(1)), Outcome::Bounced, Evidence::ReturnedMail)
    );
    assert_eq!((event.dsn, event.response.as_str()), ("5.1.1".parse().ok(), "550 5.1.1 No such user"));
    assert_eq!(mailbox.read().await, []);
    // Reading set no flags.
    let unseen = mailbox.dovecot.doveadm(&["search", "-u", MAILBOX, "mailbox", "INBOX", "unseen"]);
    assert_eq!(unseen.lines().count(), 1, "{unseen}");
}

#[tokio::test]
async fn the_size_of_the_steps_makes_no_difference() {
    let mut mailbox = BounceMailbox::open(|limits| (limits.batch_messages, limits.uid_range) = (2, 3)).await;
    for number in 1..=9 {
        match number % 3 {
            0 => mailbox.mail(number, "Subject: no notice\r\n\r\nhello\r\n"),
            _ => mailbox.notice(number, number.into(), &["a@example.net", "b@example.net", "c@example.net"]),
        }
    }
    // The operator removed some.
    mailbox.dovecot.doveadm(&["expunge", "-u", MAILBOX, "mailbox", "INBOX", "uid", "2:5"]);
    let mut at_once = Vec::new();
    let (mut cursor, mut more) = (FeedCursor::default(), true);
    while more {
        let batch = mailbox.feed.read_after(&cursor, 100).await.unwrap();
        at_once.extend(batch.events);
        (cursor, more) = (batch.cursor, batch.more);
    }
    assert_eq!(at_once.len(), 9);
    for most in [1, 2, 4] {
        let (mut pieces, mut place, mut more) = (Vec::new(), FeedCursor::default(), true);
        while more {
            let batch = mailbox.feed.read_after(&place, most).await.unwrap();
            assert!(batch.events.len() <= most);
            pieces.extend(batch.events);
            (place, more) = (batch.cursor, batch.more);
        }
        assert_eq!((&pieces, &place), (&at_once, &cursor), "at most {most}");
    }
}

#[tokio::test]
async fn a_mailbox_that_was_made_anew_is_read_from_its_beginning() {
    let mut mailbox = BounceMailbox::open(|_| {}).await;
    mailbox.notice(1, 1, &["gone@example.net"]);
    assert_eq!(mailbox.read().await.len(), 1);
    mailbox.make_anew().await;
    mailbox.notice(1, 1, &["gone@example.net"]);
    mailbox.notice(2, 2, &["away@example.net"]);
    // The first one is reported again; the reader of the feed discards the duplicate.
    assert_eq!(recipients(&mailbox.read().await), ["gone@example.net", "away@example.net"]);
    assert_eq!(mailbox.read().await, []);
}

#[tokio::test]
async fn a_long_notice_is_read_as_far_as_it_matters() {
    let mut mailbox = BounceMailbox::open(|limits| limits.message_bytes = 4096).await;
    let notice = BounceMailbox::notice_to(&mailbox.address(1), &["gone@example.net"], "failed");
    let returned =
        format!("Content-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\n{}\r\n--x--\r\n", "x".repeat(100_000));
    mailbox.mail(1, &notice.replace("--x--", &format!("--x\r\n{returned}")));
    assert_eq!(recipients(&mailbox.read().await), ["gone@example.net"]);
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, mailbox.feed.changed()).await.expect("the mailbox is read again");
}
