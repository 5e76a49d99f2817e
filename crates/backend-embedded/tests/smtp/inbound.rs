//! Inbound recipients, and their statistics.

use mailapi_backend::Provisioning;
use mailapi_model::InboundOutcome::{Accepted, Rejected};

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

#[tokio::test]
async fn only_recipients_in_local_domains_are_counted() {
    let host = MailHost::open().await;
    let mut line = Line::to(host.smtp).await;
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
    assert_eq!(host.counted(), [event(Rejected), event(Accepted)]);
    let refused = host.refused();
    let [(recipient, stage, reply)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((recipient.as_str(), *stage), ("nobody@here.example", "rcpt"));
    assert!(reply.starts_with("550 5.1.1 "), "{reply}");
}

#[tokio::test]
async fn a_refused_message_is_reported_for_each_recipient() {
    let host = MailHost::open().await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in [
        "EHLO client.example",
        "MAIL FROM:<zoe@far.example>",
        "RCPT TO:<bob@here.example>",
        "RCPT TO:<ann@here.example>",
    ] {
        assert!(line.say(command).await.starts_with("250"), "{command}");
    }
    line.say("DATA").await;
    // A loop.
    line.send(format!("{}{}", "Received: x\r\n".repeat(200), mail("Hello")).as_bytes()).await;
    let reply = line.say(".").await;
    assert!(reply.starts_with("554 5."), "{reply}");
    let refused = host.refused();
    let shown: Vec<_> =
        refused.iter().map(|(recipient, stage, reply)| (recipient.as_str(), *stage, &reply[..5])).collect();
    assert_eq!(shown, [("bob@here.example", "data", &reply[..5]), ("ann@here.example", "data", &reply[..5])]);
}

#[tokio::test]
async fn a_refusal_that_may_pass_is_not_counted() {
    let host = MailHost::open().await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say("MAIL FROM:<zoe@far.example> SIZE=5000").await;
    assert!(line.say("RCPT TO:<full@here.example>").await.starts_with("452 4.2.2"));
    line.say("RSET").await;
    // Without a declared size, the message is too long only at its end.
    for command in ["MAIL FROM:<zoe@far.example>", "RCPT TO:<full@here.example>", "DATA"] {
        assert!(line.say(command).await.starts_with(['2', '3']), "{command}");
    }
    line.send(format!("Subject: long\r\n\r\n{}\r\n", "x".repeat(600)).as_bytes()).await;
    assert!(line.say(".").await.starts_with("452 4.2.2"));
    assert_eq!(host.counted(), []);
    assert_eq!(host.refused(), []);
}

#[tokio::test]
async fn a_broken_mailbox_does_not_keep_mail_from_others() {
    let host = MailHost::open().await;
    // An earlier import used up the UIDs of ann's INBOX; nothing can be added to that of bob.
    let damage = "UPDATE drop_folders SET uid_next = 4294967295 WHERE name = 'INBOX' AND mailbox_id =
            (SELECT id FROM drop_mailboxes WHERE address = 'ann@here.example');
        CREATE TRIGGER refuse BEFORE INSERT ON drop_entries WHEN NEW.folder_id = (SELECT f.id FROM drop_folders f
            JOIN drop_mailboxes m ON m.id = f.mailbox_id WHERE m.address = 'bob@here.example' AND f.name = 'INBOX')
        BEGIN SELECT RAISE(ABORT, 'damaged'); END;";
    host.database().execute_batch(damage).unwrap();
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    for (recipients, expected) in [(&["ann", "bob"][..], "250"), (&["bob"], "451 4.2.0")] {
        line.say("MAIL FROM:<zoe@far.example>").await;
        for recipient in recipients {
            assert!(line.say(&format!("RCPT TO:<{recipient}@here.example>")).await.starts_with("250"));
        }
        line.say("DATA").await;
        line.send(mail("Hello").as_bytes()).await;
        let reply = line.say(".").await;
        assert!(reply.starts_with(expected), "{recipients:?}: {reply}");
    }
    assert_eq!(host.inbox("ann@here.example").await.len(), 1);
    assert_eq!(host.inbox("bob@here.example").await.len(), 0);
}

#[tokio::test]
async fn senders_may_have_addresses_that_users_here_may_not() {
    let host = MailHost::open().await;
    for (sender, shown) in [
        ("u@under_score.example", "u@under_score.example"),
        ("u@[192.0.2.1]", "u@[192.0.2.1]"),
        ("u.@docomo.example", "\"u.\"@docomo.example"),
    ] {
        let mut line = Line::to(host.smtp).await;
        line.reply().await;
        for command in ["EHLO client.example", &format!("MAIL FROM:<{sender}>"), "RCPT TO:<bob@here.example>"] {
            assert!(line.say(command).await.starts_with("250"), "{command}");
        }
        line.say("DATA").await;
        line.send(mail("Hello").as_bytes()).await;
        assert!(line.say(".").await.starts_with("250"));
        let inbox = host.inbox("bob@here.example").await;
        let newest = inbox.last().unwrap();
        assert!(newest.starts_with(&format!("Return-Path: <{shown}>\r\n")), "{newest}");
    }
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>"] {
        line.say(command).await;
    }
    for recipient in ["bob.@here.example", "bob@[127.0.0.1]", "bob@under_score.example"] {
        assert!(line.say(&format!("RCPT TO:<{recipient}>")).await.starts_with('5'), "{recipient}");
    }
}

/// Sends a message from outside. Returns the message in bob's INBOX.
async fn delivered(host: &MailHost, message: &str) -> String {
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>", "DATA"] {
        line.say(command).await;
    }
    line.send(message.as_bytes()).await;
    let answer = line.say(".").await;
    assert!(answer.starts_with("250"), "{answer}");
    host.inbox("bob@here.example").await.pop().unwrap()
}

#[tokio::test]
async fn outside_mail_says_nothing_in_the_name_of_this_server() {
    // A line of white space belongs to the field before it, so the header continues (RFC 5322 section 4.2).
    let forged = "Return-Path: <boss@here.example>\r\n \r\nAuthentication-Results:\r\n mx.here.example; dkim=pass\r\n";
    let own = "Authentication-Results: mx.far.example; spf=pass\r\nFrom: zoe@far.example\r\n\r\n";
    for (kept, body) in [(1 << 20, "hello\r\n".to_owned()), (100, "hello\r\n".repeat(4000))] {
        let host = MailHost::open_buffering(
            |_, _| {},
            |buffer| {
                (buffer.max_memory_bytes, buffer.write_bytes) = (kept, kept / 2);
            },
        )
        .await;
        let message = delivered(&host, &format!("{forged}Subject: x\r\n{forged}{own}{body}")).await;
        let (trace, rest) = message.split_once("Subject: x\r\n").unwrap();
        assert!(
            trace.starts_with(
                "Return-Path: <zoe@far.example>\r\nDelivered-To: bob@here.example\r\nReceived: from client.example"
            ),
            "{trace}"
        );
        assert!(!trace.contains("boss@") && !trace.contains("dkim="), "{trace}");
        assert_eq!(rest, format!("{own}{body}"));
    }
}

#[tokio::test]
async fn a_header_too_long_to_be_looked_at_is_refused() {
    let small = |settings: &mut mailapi_backend_embedded::ListenerSettings| settings.smtp.max_header_bytes = 1000;
    let host = MailHost::open_buffering(
        |listeners, _| small(listeners),
        |buffer| {
            (buffer.max_memory_bytes, buffer.write_bytes) = (100, 50);
        },
    )
    .await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>", "DATA"] {
        line.say(command).await;
    }
    // Larger than one read, so that it is buffered in a file.
    line.send("X: y\r\n".repeat(20_000).as_bytes()).await;
    line.send(b"Return-Path: <boss@here.example>\r\n\r\nhello\r\n").await;
    assert!(line.say(".").await.starts_with("554 5.6.0"));
    assert!(host.inbox("bob@here.example").await.is_empty());
}

/// Returns the reply to `RCPT TO:<postmaster>` with these candidates.
async fn asked_for_postmaster(candidates: &[&str]) -> (MailHost, String) {
    let postmasters = candidates.iter().map(|text| address(text)).collect();
    let host = MailHost::open_with(|listeners, _| listeners.postmasters = postmasters).await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say("MAIL FROM:<zoe@far.example>").await;
    let answer = line.say("RCPT TO:<postmaster>").await;
    if answer.starts_with("250") {
        line.say("DATA").await;
        line.send(mail("Hello").as_bytes()).await;
        assert!(line.say(".").await.starts_with("250"));
    }
    (host, answer)
}

#[tokio::test]
async fn a_server_without_any_mailbox_asks_to_come_again() {
    let host = MailHost::open_with(|listeners, _| listeners.postmasters = Vec::new()).await;
    for mailbox in ["ann@here.example", "bob@here.example", "full@here.example"] {
        host.message_store.remove_mailbox(&address(mailbox)).await.unwrap();
    }
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say("MAIL FROM:<zoe@far.example>").await;
    for recipient in ["Postmaster", "POSTMASTER@here.example"] {
        let answer = line.say(&format!("RCPT TO:<{recipient}>")).await;
        assert!(answer.starts_with("450 4.2.1"), "{answer}");
    }
    assert!(line.say("RCPT TO:<abuse@here.example>").await.starts_with("550 5.1.1"));
    let bob = address("bob@here.example");
    host.message_store.put_mailbox(&bob, None).await.unwrap();
    for recipient in ["PostMaster", "postmaster@team.example"] {
        assert!(line.say(&format!("RCPT TO:<{recipient}>")).await.starts_with("250"), "{recipient}");
    }
}

#[tokio::test]
async fn the_postmaster_is_the_first_who_has_a_mailbox_here() {
    let (host, answer) =
        asked_for_postmaster(&["postmaster@here.example", "ann@far.example", "bob@here.example", "ann@here.example"])
            .await;
    assert!(answer.starts_with("250"), "{answer}");
    assert_eq!((host.inbox("bob@here.example").await.len(), host.inbox("ann@here.example").await.len()), (1, 0));

    for recipients in [&["postmaster@here.example", "ann@far.example"][..], &[]] {
        let (host, answer) = asked_for_postmaster(recipients).await;
        assert!(answer.starts_with("250"), "{answer}");
        assert_eq!(host.inbox("ann@here.example").await.len(), 1, "the oldest mailbox");
    }
}
