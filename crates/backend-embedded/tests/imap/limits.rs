//! Logins, connection limits and time-outs.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use crate::client::{Client, PATIENCE};
use crate::test_server::{TestServer, TestServerSettings};

#[tokio::test]
async fn a_failed_log_in_is_answered_late() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let server = TestServer::open_with(|settings| settings.listeners.imap.failed_login_delay = DAY).await;
    let mut guesser = server.connect().await;
    guesser.send(b"x LOGIN ann@example.org wrong\r\n").await;
    server.refused().await;
    // Other clients are served while the reply is delayed.
    let mut other = server.ann().await;
    for _ in 0..20 {
        other.ok("NOOP").await;
    }
    assert!(guesser.line().now_or_never().is_none());
}

#[tokio::test]
async fn a_client_that_does_not_log_in_is_sent_away() {
    let server = TestServer::open_with(|settings| {
        settings.listeners.imap.login_timeout = Duration::from_millis(50);
    })
    .await;
    let mut client = server.connect().await;
    assert_eq!(client.line().await.as_deref(), Some("* BYE Time-out"));
    assert_eq!(client.line().await, None);
}

#[tokio::test]
async fn words_now_and_then_do_not_win_time_before_the_log_in() {
    let server = TestServer::open_with(|settings| {
        settings.listeners.imap.login_timeout = Duration::from_millis(50);
    })
    .await;
    let mut client = server.connect().await;
    let last = loop {
        client.send_if_open(b"x NOOP\r\n").await;
        match client.line().await {
            Some(line) if line.starts_with("x OK") => {}
            last => break last,
        }
    };
    // Input that arrives after the server disconnected may discard its last response.
    assert!(last.is_none_or(|line| line == "* BYE Time-out"));
}

#[tokio::test]
async fn a_silent_client_is_logged_out_also_while_it_idles() {
    let server =
        TestServer::open_with(|settings| settings.listeners.imap.idle_timeout = Duration::from_millis(500)).await;
    let mut silent = server.ann_in("INBOX").await;
    assert_eq!(silent.line().await.as_deref(), Some("* BYE Time-out"));
    let mut idle = server.ann_in("INBOX").await;
    idle.idle().await;
    assert_eq!(idle.line().await.as_deref(), Some("* BYE Time-out"));
    assert_eq!(idle.line().await, None);
}

#[tokio::test]
async fn a_client_that_idles_hears_that_the_server_is_there() {
    let server =
        TestServer::open_with(|settings| settings.listeners.imap.keepalive_interval = Duration::from_millis(20)).await;
    let mut idle = server.ann_in("INBOX").await;
    idle.idle().await;
    for _ in 0..3 {
        assert_eq!(idle.line().await.as_deref(), Some("* OK Still here"));
    }
}

#[tokio::test]
async fn a_mailbox_has_a_limited_number_of_sessions() {
    let server = TestServer::open_with(|settings| settings.listeners.imap.max_connections_per_user = 1).await;
    let mut first = server.ann().await;
    let mut second = server.connect().await;
    assert!(second.run("LOGIN ann@example.org secret").await.end.starts_with("NO [LIMIT]"));
    assert!(second.run("LOGIN bob@example.org secret").await.end.starts_with("OK"));
    first.ok("LOGOUT").await;
    assert_eq!(first.line().await, None);
    // The permit is released at the end of the session's task, which may be after the client received the
    // last response.
    let mut third = server.connect().await;
    let mut end = String::new();
    for _ in 0..1_000 {
        end = third.run("LOGIN ann@example.org secret").await.end;
        if end.starts_with("OK") {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(end.starts_with("OK"), "{end}");
}

#[tokio::test]
async fn connections_above_the_limit_get_bye_with_the_reason() {
    let server = TestServer::open_with(|settings| settings.listeners.imap_connections.max_connections = 1).await;
    let _first = server.connect().await;
    let mut second = Client::connect(server.address).await;
    let said = second.line().await.unwrap();
    assert_eq!(said, "* BYE [UNAVAILABLE] Too many connections, try again later");
    assert_eq!(second.line().await, None);
}

#[tokio::test]
async fn every_client_gets_bye_when_the_server_stops() {
    let server = TestServer::open().await;
    let (mut fresh, mut selected, mut idle) =
        (server.connect().await, server.ann_in("INBOX").await, server.ann_in("INBOX").await);
    idle.idle().await;
    server.end().await;
    for client in [&mut fresh, &mut selected, &mut idle] {
        assert_eq!(client.line().await.as_deref(), Some("* BYE The server is shutting down"));
        assert_eq!(client.line().await, None);
    }
}

#[tokio::test]
async fn a_client_that_never_stops_cannot_delay_shutdown() {
    let server = TestServer::open_with(without_end).await;
    let mut client = server.ann_in("INBOX").await;
    let talking = tokio::spawn(async move {
        loop {
            client.send_if_open(&b"x NOOP\r\n".repeat(100)).await;
            for _ in 0..100 {
                match client.line().await {
                    Some(line) if line == "x OK Done" => {}
                    last => return last,
                }
            }
        }
    });
    server.end().await;
    let last = timeout(PATIENCE, talking).await.expect("the client is disconnected").unwrap();
    // Input that arrives after the server disconnected may discard its last response.
    let last = last.unwrap_or_default();
    assert!(["", "x NO Command not completed", "* BYE The server is shutting down"].contains(&last.as_str()), "{last}");
}

#[tokio::test]
async fn commands_that_wait_when_the_server_ends_are_not_carried_out() {
    const COMMANDS: usize = 40;
    let server = TestServer::open_with(without_end).await;
    // More output than the buffers between server and client hold.
    server.put("INBOX", "Subject: long\r\n\r\n".to_owned() + &"line\r\n".repeat(200_000)).await;
    let mut client = server.ann_in("INBOX").await;
    client.send(&b"x FETCH 1 BODY.PEEK[]\r\n".repeat(COMMANDS)).await;
    assert!(client.line().await.unwrap().starts_with("* 1 FETCH "));
    server.stop();
    let (mut carried_out, mut rest) = (0, Vec::new());
    while let Some(line) = client.line().await {
        match line.as_str() {
            "x OK FETCH completed" => carried_out += 1,
            message if message.starts_with("* 1 FETCH ") => {}
            _ => rest.push(line),
        }
    }
    assert!(carried_out < COMMANDS, "{carried_out}");
    assert_eq!(rest, ["x NO Command not completed", "* BYE The server is shutting down"]);
    server.end().await;
}

/// Sessions are not aborted, so the server ends only when they do.
fn without_end(settings: &mut TestServerSettings) {
    settings.listeners.imap_connections.grace = Duration::from_secs(24 * 60 * 60);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let server = TestServer::open_with(|settings| {
        settings.listeners.imap.write_timeout = Duration::from_millis(50);
        without_end(settings);
    })
    .await;
    server.put("INBOX", "Subject: long\r\n\r\n".to_owned() + &"line\r\n".repeat(200_000)).await;
    let mut client = server.ann_in("INBOX").await;
    client.send(&b"x FETCH 1 BODY.PEEK[]\r\n".repeat(100)).await;
    // The server ends only when the session does, and the client reads no output.
    server.end().await;
}

#[tokio::test]
async fn a_message_that_fails_to_file_frees_its_memory_at_once() {
    let server = TestServer::open_with(|settings| {
        (settings.buffer.max_memory_bytes, settings.buffer.write_bytes) = (10_000, 1_000);
        settings.buffer.max_disk_bytes = 50_000;
    })
    .await;
    let (mut clumsy, mut other) = (server.ann().await, server.ann().await);
    let long = |lines: usize| "0123456\n".repeat(lines);
    let filed = async |other: &mut Client| other.append("INBOX", "", &long(4_500)).await.end;
    // Over the quota, into a missing folder, and with extra text after the message.
    assert!(clumsy.append("INBOX", "", &long(20_000)).await.end.starts_with("NO"));
    assert!(filed(&mut other).await.starts_with("OK"));
    assert!(clumsy.append("Nowhere", "", &long(4_500)).await.end.starts_with("NO"));
    assert!(filed(&mut other).await.starts_with("OK"));
    assert!(clumsy.append("INBOX", "", &(long(4_500) + "!")).await.end.starts_with("OK"));
    let end = clumsy.run(&format!("APPEND INBOX {{40000+}}\r\n{} again", "x".repeat(40_000))).await.end;
    assert!(end.starts_with("BAD"), "{end}");
    assert!(filed(&mut other).await.starts_with("OK"));
    assert!(filed(&mut clumsy).await.starts_with("OK"));
}

#[tokio::test]
async fn long_messages_are_appended_together_or_not_at_all() {
    let server = TestServer::open_with(|settings| {
        (settings.buffer.max_memory_bytes, settings.buffer.write_bytes) = (1_000, 300);
        settings.message_store.max_message_bytes = 10_000;
    })
    .await;
    let mut client = server.ann_in("INBOX").await;
    let bodies: Vec<String> =
        [9_000, 10, 900, 10, 4_000].iter().map(|count| format!("{count:04}\n").repeat(count / 5)).collect();
    let append = |bodies: &[String]| {
        let literals: Vec<String> = bodies.iter().map(|body| format!(" {{{}+}}\r\n{body}", body.len())).collect();
        format!("APPEND INBOX{}", literals.concat())
    };
    // The sum of all is limited to twice the largest message.
    let end = client.run(&append(&[&bodies[..], &bodies[..1]].concat())).await.end;
    assert_eq!(end, "NO [LIMIT] Too many or too large literals");
    let many = vec!["x".to_owned(); 101];
    assert_eq!(client.run(&append(&many)).await.end, "NO [LIMIT] Too many or too large literals");
    assert!(client.run(&(append(&bodies) + " again")).await.end.starts_with("BAD"));
    assert!(client.ok("UID SEARCH ALL").await[0] == "* SEARCH");
    let end = client.run(&append(&bodies)).await.end;
    assert!(end.starts_with("OK [APPENDUID ") && end.contains(" 1:5] "), "{end}");
    for (number, body) in (1..).zip(&bodies) {
        let fetched = client.ok(&format!("FETCH {number} BODY.PEEK[]")).await.remove(0);
        assert_eq!(fetched, format!("* {number} FETCH (BODY[] {{{}}}\n{body})", body.len()));
    }
    assert!(client.run(&append(&many[..100])).await.end.starts_with("OK"));
}
