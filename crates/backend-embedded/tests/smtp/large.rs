//! Messages that are too large for memory.

use mailapi_testkit::SmtpSink;

use crate::mail_host::MailHost;
use crate::socket::Line;

/// Returns lines of dots and text, about 200 KB.
fn long() -> String {
    (0..5_000).map(|n| format!(".{n}: {}\r\n", "x".repeat(30))).collect()
}

async fn greeted(host: &MailHost) -> Line {
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line
}

/// Sends a message to bob. Returns the reply to its end.
async fn send(line: &mut Line, message: &str) -> String {
    for command in ["MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(line.say(command).await.starts_with("250"), "{command}");
    }
    assert!(line.say("DATA").await.starts_with("354"));
    line.send(message.replace("\r\n.", "\r\n..").as_bytes()).await;
    line.say(".").await
}

#[tokio::test]
async fn with_a_full_disk_only_large_messages_fail_temporarily() {
    let small_disk = |buffer: &mut mailapi_backend::BufferSettings| {
        (buffer.max_memory_bytes, buffer.write_bytes, buffer.max_inbound_disk_bytes) = (10_000, 5_000, 50_000);
    };
    let host = MailHost::open_buffering(|_, _| {}, small_disk).await;
    let mut line = greeted(&host).await;
    assert!(send(&mut line, &format!("Subject: large\r\n\r\n{}", long())).await.starts_with("452 4.3.1"));
    assert!(send(&mut line, "Subject: small\r\n\r\nHello.\r\n").await.starts_with("250"));
    let inbox = host.inbox("bob@here.example").await;
    assert_eq!(inbox.len(), 1);
    assert!(inbox[0].ends_with("Subject: small\r\n\r\nHello.\r\n"), "no byte of the refused message is in it");
}

#[tokio::test]
async fn what_strangers_may_not_fill_is_left_for_users() {
    let small_part = |buffer: &mut mailapi_backend::BufferSettings| {
        (buffer.max_memory_bytes, buffer.write_bytes, buffer.max_inbound_disk_bytes) = (10_000, 5_000, 50_000);
    };
    let small_inline = |_: &mut _, message_store: &mut mailapi_backend_embedded::MessageStoreSettings| {
        message_store.inline_bytes = 10_000;
    };
    let (host, sink) = (MailHost::open_buffering(small_inline, small_part).await, SmtpSink::start().await);
    let message = format!("Subject: large\r\n\r\n{}", long());
    assert!(send(&mut greeted(&host).await, &message).await.starts_with("452 4.3.1"));
    host.send(&["carl@elsewhere.example"], &message).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(sink.received().len(), 1);
}

#[tokio::test]
async fn hops_are_counted_in_headers_longer_than_memory() {
    let host = MailHost::open_buffering(|_, _| {}, |buffer| buffer.max_memory_bytes = 1_000).await;
    let mut line = greeted(&host).await;
    let fields = format!("X-Long: {}\r\n", "x".repeat(500)).repeat(10);
    let text = format!("Subject: large\r\n\r\n{}", long());
    let circling = format!("{fields}{}{text}", "Received: from there\r\n".repeat(51));
    assert!(send(&mut line, &circling).await.starts_with("554 5.4.6"));
    assert!(send(&mut line, &format!("{fields}{text}")).await.starts_with("250"));
}

#[tokio::test]
async fn a_large_message_lies_in_the_inbox_as_it_was_sent() {
    let host = MailHost::open_buffering(|_, _| {}, |buffer| buffer.max_memory_bytes = 10_000).await;
    let message = format!("Subject: large\r\n\r\n{}", long());
    assert!(send(&mut greeted(&host).await, &message).await.starts_with("250"));
    assert!(host.inbox("bob@here.example").await[0].ends_with(&format!("\r\n{message}")));
}

#[tokio::test]
async fn a_message_of_the_announced_size_is_accepted() {
    let host = MailHost::open_with(|_, message_store| message_store.max_message_bytes = 1_000).await;
    let mut line = greeted(&host).await;
    let of = |length: usize| format!("Subject: x\r\n\r\n{}\r\n", "x".repeat(length - 16));
    assert!(send(&mut line, &of(1_001)).await.starts_with("552 5.3.4"));
    assert!(send(&mut line, &of(1_000)).await.starts_with("250"));
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
}

#[tokio::test]
async fn a_large_message_in_chunks_lies_in_the_inbox_as_it_was_sent() {
    let host = MailHost::open_buffering(|_, _| {}, |buffer| buffer.max_memory_bytes = 10_000).await;
    let message = format!("Subject: large\r\n\r\n{}", long());
    let mut line = greeted(&host).await;
    for command in ["MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(line.say(command).await.starts_with("250"), "{command}");
    }
    // Chunks that are longer and shorter than what is kept in memory.
    let (first, rest) = message.split_at(70_000);
    let (second, third) = rest.split_at(5_001);
    for (chunk, end) in [(first, ""), (second, ""), (third, " LAST")] {
        line.send(format!("BDAT {}{end}\r\n{chunk}", chunk.len()).as_bytes()).await;
        assert!(line.reply().await.starts_with("250 2.0.0 Ok"), "{end}");
        assert!(line.say("NOOP").await.starts_with("250"));
    }
    let inbox = host.inbox("bob@here.example").await;
    assert_eq!(inbox.len(), 1);
    assert!(inbox[0].ends_with(&format!("\r\n{message}")));
}

#[tokio::test]
async fn chunks_that_were_given_up_are_in_no_message() {
    let host = MailHost::open_buffering(|_, _| {}, |buffer| buffer.max_memory_bytes = 10_000).await;
    let mut line = greeted(&host).await;
    for command in ["MAIL FROM:<zoe@far.example>", "RCPT TO:<bob@here.example>"] {
        assert!(line.say(command).await.starts_with("250"), "{command}");
    }
    let text = long();
    line.send(format!("BDAT {}\r\n{text}", text.len()).as_bytes()).await;
    assert!(line.reply().await.starts_with("250 2.0.0 Ok"));
    assert!(line.say("RSET").await.starts_with("250"));
    assert!(send(&mut line, "Subject: small\r\n\r\nHello.\r\n").await.starts_with("250"));
    let inbox = host.inbox("bob@here.example").await;
    assert_eq!(inbox.len(), 1);
    assert!(inbox[0].ends_with("Subject: small\r\n\r\nHello.\r\n") && inbox[0].len() < 2_000);
}

#[tokio::test]
async fn a_large_message_goes_on_to_another_server_as_it_was_sent() {
    let sink = SmtpSink::start().await;
    let small_inline = |_: &mut _, message_store: &mut mailapi_backend_embedded::MessageStoreSettings| {
        message_store.inline_bytes = 10_000;
    };
    let host = MailHost::open_buffering(small_inline, |buffer| buffer.max_memory_bytes = 10_000).await;
    let message = format!("Subject: large\r\n\r\n{}", long());
    host.send(&["carl@elsewhere.example"], &message).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let received = sink.received();
    assert_eq!(received.len(), 1);
    assert!(String::from_utf8_lossy(&received[0].data).ends_with(&message));
    assert!(host.queue_is_empty().await);
}
