//! Attacks by clients that hold connections.

use tokio::io::AsyncWriteExt;

use crate::embedded_host::{EmbeddedHost, Talk, connect_from, head, of_network, size};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn clients_that_never_read_stop_no_other_client() {
    let host = EmbeddedHost::open(&[]).await;
    let mut stuck = Vec::new();
    let request = "GET /n HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2_000);
    for _ in 0..size(1010, 200) {
        let mut stream = host.attacker("http").await;
        // The server may stop reading.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(5), stream.write_all(request.as_bytes())).await;
        stuck.push(stream);
    }
    host.listeners_answer("clients that never read").await;
    drop(stuck);
    host.stands("clients that never read").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn unfinished_heads_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    let unfinished = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(400_000));
    let mut held = Vec::new();
    for _ in 0..size(1020, 300) {
        let mut stream = host.attacker("http").await;
        // The server reads up to the limit, and may then close the connection.
        let _ = stream.write_all(&unfinished.as_bytes()[..16_000]).await;
        held.push(stream);
    }
    host.listeners_answer("unfinished heads").await;
    for stream in &mut held {
        let _ = stream.write_all(&unfinished.as_bytes()[16_000..]).await;
    }
    host.listeners_answer("heads that are too long").await;
    drop(held);
    host.stands("unfinished heads").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn idle_connections_at_every_listener_stop_no_others() {
    let host = EmbeddedHost::open(&[]).await;
    let mut idle = Vec::new();
    for listener in ["http", "smtp", "submission", "imap"] {
        for _ in 0..size(1010, 150) {
            idle.push(host.attacker(listener).await);
        }
        host.listeners_answer(listener).await;
    }
    drop(idle);
    host.stands("idle connections").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn long_recipients_of_a_network_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    let long = format!("{}@example.org", "o".repeat(400));
    let one = |number: usize| {
        let (listener, long) = (host.listener("smtp"), &long);
        async move {
            let mut client = Talk::begin(connect_from(of_network(number, 90), listener).await).await;
            client.say("EHLO x\r\n", "250 ").await;
            client.say("MAIL FROM:<eve@stranger.example>\r\n", "250 ").await;
            let recipients = format!("RCPT TO:<ann@example.org> ORCPT=rfc822;{long}\r\n").repeat(1000);
            client.write(recipients.as_bytes()).await;
            // All replies but the last ones, which the server may still write.
            for _ in 0..900 {
                assert!(client.line().await.starts_with(['2', '4']));
            }
            client
        }
    };
    let attack = futures_util::future::join_all((0..size(900, 60)).map(one));
    let (held, ()) = tokio::join!(attack, host.listeners_answer("long recipients"));
    host.listeners_answer("long recipients that stay").await;
    drop(held);
    host.stands("long recipients").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn refused_bodies_of_a_network_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    let body = vec![b' '; 300_000];
    for (path, length) in [("/mail/send", 60 << 20), ("/mail/send", 300_000), ("/auth/login", 300_000)] {
        let mut held = Vec::new();
        for number in 0..size(7_900, 400) {
            let mut stream = connect_from(of_network(number, 1_000), host.listener("http")).await;
            stream.write_all(head(path, "no token", length).as_bytes()).await.unwrap();
            // What the connection takes at once; the server may have closed it.
            let _ = stream.try_write(&body);
            held.push(stream);
        }
        host.listeners_answer(path).await;
        drop(held);
    }
    host.stands("refused bodies").await;
}
