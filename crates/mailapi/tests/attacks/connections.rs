//! Clients that hold connections.

use tokio::io::AsyncWriteExt;

use crate::house::{House, size};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_read_stop_nobody() {
    let house = House::open(&[]).await;
    let mut stuck = Vec::new();
    let request = "GET /n HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2_000);
    for _ in 0..size(1010, 200) {
        let mut stream = house.attacker("http").await;
        // As much as the server takes.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(5), stream.write_all(request.as_bytes())).await;
        stuck.push(stream);
    }
    house.doors_answer("clients that never read").await;
    drop(stuck);
    house.stands("clients that never read").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_heads_stay_small() {
    let house = House::open(&[]).await;
    let unfinished = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(400_000));
    let mut held = Vec::new();
    for _ in 0..size(1020, 300) {
        let mut stream = house.attacker("http").await;
        // The server reads no further than the limit, and may close.
        let _ = stream.write_all(&unfinished.as_bytes()[..16_000]).await;
        held.push(stream);
    }
    house.doors_answer("unfinished heads").await;
    for stream in &mut held {
        let _ = stream.write_all(&unfinished.as_bytes()[16_000..]).await;
    }
    house.doors_answer("heads that are too long").await;
    drop(held);
    house.stands("unfinished heads").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_at_every_door_stop_nobody() {
    let house = House::open(&[]).await;
    let mut idle = Vec::new();
    for door in ["http", "smtp", "submission", "imap"] {
        for _ in 0..size(1010, 150) {
            idle.push(house.attacker(door).await);
        }
        house.doors_answer(door).await;
    }
    drop(idle);
    house.stands("idle connections").await;
}
