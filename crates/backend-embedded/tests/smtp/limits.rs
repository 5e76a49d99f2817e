//! Connection limits, time-outs and shutdown.

use std::time::Duration;

use mailapi_backend::Mailboxes;
use tokio::time::timeout;

use crate::mail_host::{MailHost, mail};
use crate::socket::Line;

#[tokio::test]
async fn a_client_with_too_many_connections_gets_a_temporary_failure() {
    let host = MailHost::open_with(|listeners, _| listeners.smtp_connections.max_connections_per_client = 1).await;
    let mut first = Line::to(host.smtp).await;
    assert!(first.reply().await.starts_with("220"));
    let mut second = Line::to(host.smtp).await;
    assert!(second.reply().await.starts_with("421 4.7.0"));
    assert!(second.read().await.is_none());
    assert_eq!(first.say("QUIT").await, "221 2.0.0 Bye");
}

#[tokio::test]
async fn a_client_that_fills_one_listener_blocks_no_others() {
    const MOST: usize = 3;
    const SAME: [u8; 4] = [127, 0, 0, 1];
    const OTHER: [u8; 4] = [127, 0, 0, 2];
    for number in 0..3 {
        let host = MailHost::open_with(|listeners, _| {
            for limits in [
                &mut listeners.smtp_connections,
                &mut listeners.submission_connections,
                &mut listeners.imap_connections,
            ] {
                limits.max_connections_per_client = MOST;
            }
        })
        .await;
        let listeners = [host.smtp, host.submission, host.imap];
        let greeting = async |client, listener| Line::from(client, listener).await.read().await.unwrap();
        let is_welcome = |greeting: &str| greeting.starts_with("220 ") || greeting.starts_with("* OK ");
        let mut held = Vec::new();
        for _ in 0..MOST {
            let mut line = Line::from(SAME, listeners[number]).await;
            assert!(is_welcome(&line.read().await.unwrap()));
            held.push(line);
        }
        for _ in 0..MOST {
            let refused = greeting(SAME, listeners[number]).await;
            assert!(refused.starts_with("421 ") || refused.starts_with("* BYE "), "{refused}");
        }
        for (other, &listener) in listeners.iter().enumerate() {
            assert!(is_welcome(&greeting(OTHER, listener).await), "another client at listener {other}");
            assert!(
                other == number || is_welcome(&greeting(SAME, listener).await),
                "the same client at listener {other}"
            );
        }
    }
}

#[tokio::test]
async fn a_silent_client_and_one_that_stays_too_long_are_sent_away() {
    let short = Duration::from_millis(1);
    let silent = MailHost::open_with(|listeners, _| listeners.smtp.idle_timeout = short).await;
    let long = MailHost::open_with(|listeners, _| listeners.smtp.session_timeout = short).await;
    for host in [silent, long] {
        let mut line = Line::to(host.smtp).await;
        assert!(line.reply().await.starts_with("220"));
        assert!(line.reply().await.starts_with("421 4.4.2"));
        assert!(line.read().await.is_none());
    }
}

#[tokio::test]
async fn shutdown_finishes_a_message_in_flight_and_closes_the_rest() {
    let host = MailHost::open().await;
    let mut idle = Line::to(host.smtp).await;
    idle.reply().await;
    let mut busy = Line::to(host.smtp).await;
    busy.reply().await;
    busy.say("EHLO client.example").await;
    busy.say("MAIL FROM:<zoe@far.example>").await;
    busy.say("RCPT TO:<bob@here.example>").await;
    assert!(busy.say("DATA").await.starts_with("354"));
    host.ask_to_leave();
    assert!(idle.reply().await.starts_with("421 4.3.2"));
    busy.send(mail("Late").as_bytes()).await;
    assert!(busy.say(".").await.starts_with("250 2.0.0"));
    assert!(busy.reply().await.starts_with("421 4.3.2"));
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
    host.close().await;
}

#[tokio::test]
async fn a_message_that_does_not_come_to_its_end_in_time_is_not_taken() {
    let host = MailHost::open_with(|listeners, _| listeners.smtp_connections.grace = Duration::from_millis(1)).await;
    let mut busy = Line::to(host.smtp).await;
    busy.reply().await;
    busy.say("EHLO client.example").await;
    busy.say("MAIL FROM:<zoe@far.example>").await;
    busy.say("RCPT TO:<bob@here.example>").await;
    busy.say("DATA").await;
    busy.send(b"Subject: half\r\n").await;
    host.ask_to_leave();
    assert!(busy.reply().await.starts_with("421 4.3.2"));
    assert!(host.inbox("bob@here.example").await.is_empty());
}

#[tokio::test]
async fn a_message_that_comes_too_slowly_is_not_taken() {
    let host = MailHost::open_with(|listeners, _| listeners.smtp.idle_timeout = Duration::from_millis(300)).await;
    let mut slow = Line::to(host.smtp).await;
    slow.reply().await;
    for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(slow.say(command).await.starts_with("250"), "{command}");
    }
    assert!(slow.say("DATA").await.starts_with("354"));
    // Never silent for long, but without an end.
    let reply = loop {
        slow.send(b"x\r\n").await;
        if let Ok(reply) = timeout(Duration::from_millis(20), slow.read()).await {
            break reply;
        }
    };
    assert!(reply.unwrap().starts_with("421 4.4.2"));
    assert!(host.inbox("bob@here.example").await.is_empty());
}

#[tokio::test]
async fn a_client_leaves_memory_for_the_messages_of_others() {
    let host = MailHost::open_with(|listeners, _| listeners.max_message_memory_bytes = 400_000).await;
    let begun = async |from: u8| {
        let mut line = Line::from([127, 0, 0, from], host.smtp).await;
        line.reply().await;
        for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
            assert!(line.say(command).await.starts_with("250"), "{command}");
        }
        line
    };
    let mut greedy = Vec::new();
    for number in 0..4 {
        let mut line = begun(1).await;
        let reply = line.say("DATA").await;
        if !reply.starts_with("354") {
            assert!(reply.starts_with("452 4.3.1") && number > 0, "{reply}");
            continue;
        }
        line.send(format!("{}\r\n", "x".repeat(90_000)).as_bytes()).await;
        greedy.push(line);
    }
    let mut other = begun(2).await;
    assert!(other.say("DATA").await.starts_with("354"));
    other.send(mail("others").as_bytes()).await;
    assert!(other.say(".").await.starts_with("250"));
    drop(greedy);
}

#[tokio::test]
async fn messages_under_way_have_so_much_memory_and_no_more() {
    let host = MailHost::open_with(|listeners, _| listeners.max_message_memory_bytes = 100_000).await;
    let mut lines = Vec::new();
    for _ in 0..2 {
        let mut line = Line::to(host.smtp).await;
        line.reply().await;
        for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
            assert!(line.say(command).await.starts_with("250"), "{command}");
        }
        lines.push(line);
    }
    let [big, small] = &mut lines[..] else { panic!() };
    let half = format!("{}\r\n", "x".repeat(60_000));
    assert!(big.say("DATA").await.starts_with("354"));
    big.send(half.as_bytes()).await;
    big.send(half.as_bytes()).await;
    assert!(big.say(".").await.starts_with("452 4.3.1"), "the message exceeded the budget");
    assert!(small.say("DATA").await.starts_with("354"));
    small.send(mail("fits").as_bytes()).await;
    assert!(small.say(".").await.starts_with("250"), "the refused message released its bytes");
    for command in ["MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(big.say(command).await.starts_with("250"), "{command}");
    }
    assert!(big.say("DATA").await.starts_with("354"));
    big.send(&half.as_bytes()[..20_000]).await;
    big.hang_up().await;
    assert!(big.read().await.is_none());
    for command in ["MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(small.say(command).await.starts_with("250"), "{command}");
    }
    assert!(small.say("DATA").await.starts_with("354"));
    small.send(&half.as_bytes()[..40_000]).await;
    small.send(b"\r\n").await;
    assert!(small.say(".").await.starts_with("250"), "the closed connection released its bytes");
    assert_eq!(host.inbox("bob@here.example").await.len(), 2);
}

#[tokio::test]
async fn a_message_is_not_begun_when_the_memory_is_used_up() {
    let host = MailHost::open_with(|listeners, _| listeners.max_message_memory_bytes = 0).await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(line.say(command).await.starts_with("250"), "{command}");
    }
    assert!(line.say("DATA").await.starts_with("452 4.3.1"));
}

#[tokio::test]
async fn a_client_that_tries_three_thousand_addresses_is_sent_away() {
    let host = MailHost::open_with(|listeners, _| listeners.smtp.refused_recipient_delay = Duration::ZERO).await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(line.say(command).await.starts_with("250"), "{command}");
    }
    let mut refused = 0;
    let last = loop {
        let reply = line.say(&format!("RCPT TO:<nobody{refused}@here.example>")).await;
        if !reply.starts_with("550 5.1.1") {
            break reply;
        }
        refused += 1;
        assert!(refused < 3000);
    };
    assert!(last.starts_with("421 4.7.0"), "{last}");
    assert_eq!(refused, 100);
    assert!(line.read().await.is_none());
}

/// More than the maximum number of refused recipients in a session.
const MANY: usize = 120;

/// Opens a server whose delayed replies take longer than any test.
async fn with_long_delays() -> MailHost {
    let long = Duration::from_secs(24 * 3600);
    MailHost::open_with(|listeners, _| {
        (listeners.smtp.refused_recipient_delay, listeners.submission.refused_recipient_delay) = (long, long);
    })
    .await
}

/// Sends RCPT many times. Returns the replies.
async fn answers(line: &mut Line, recipient: &str) -> Vec<String> {
    let asked = async {
        let mut answers = Vec::new();
        for _ in 0..MANY {
            answers.push(line.say(&format!("RCPT TO:<{recipient}>")).await);
        }
        answers
    };
    tokio::time::timeout(Duration::from_secs(60), asked).await.expect("replies come without delay")
}

#[tokio::test]
async fn refusals_that_may_pass_are_no_search_for_addresses() {
    let host = with_long_delays().await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    assert!(line.say("MAIL FROM:<zoe@far.example> SIZE=5000").await.starts_with("250"));
    let answers = answers(&mut line, "full@here.example").await;
    assert!(answers.iter().all(|answer| answer.starts_with("452 4.2.2")), "{answers:?}");
}

#[tokio::test]
async fn a_user_s_old_address_list_is_answered_at_once() {
    let host = with_long_delays().await;
    let mut line = Line::to(host.submission).await;
    line.reply().await;
    for command in ["EHLO client.example", "AUTH LOGIN YW5uQGhlcmUuZXhhbXBsZQ==", "c2VjcmV0"] {
        assert!(line.say(command).await.starts_with(['2', '3']), "{command}");
    }
    assert!(line.say("MAIL FROM:<ann@here.example>").await.starts_with("250"));
    let answers = answers(&mut line, "nobody@here.example").await;
    assert!(answers.iter().all(|answer| answer.starts_with("550 5.1.1")), "{answers:?}");
}

#[tokio::test]
async fn a_mailbox_at_its_daily_limit_is_refused_with_the_reason() {
    let host = MailHost::open().await;
    let mut line = Line::to(host.submission).await;
    line.reply().await;
    for command in ["EHLO client.example", "AUTH LOGIN YW5uQGhlcmUuZXhhbXBsZQ==", "c2VjcmV0"] {
        assert!(line.say(command).await.starts_with(['2', '3']), "{command}");
    }
    for is_exhausted in [false, true] {
        for command in ["MAIL FROM:<ann@here.example>", "RCPT TO:<bob@here.example>", "DATA"] {
            assert!(line.say(command).await.starts_with(['2', '3']), "{command}");
        }
        line.send(mail("today").as_bytes()).await;
        let reply = line.say(".").await;
        if is_exhausted {
            let why = "452 4.7.1 Daily limit reached: the mailbox may send 7 messages a day (limits.messages_per_day)";
            assert_eq!(reply, why);
        } else {
            assert!(reply.starts_with("250"), "{reply}");
            host.exhaust_limits();
        }
    }
    let bob = "bob@here.example".parse().unwrap();
    assert_eq!(host.message_store.quota(&bob).await.unwrap().messages, 1);
}
