//! Attacks by clients that hold connections.

use tokio::io::AsyncWriteExt;

use crate::embedded_host::{EmbeddedHost, size};

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
