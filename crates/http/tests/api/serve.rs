//! The HTTP server over real sockets: behaviour that the router alone does not show.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use mailapi_http::{HttpSettings, serve};
use mailapi_tls::ServerTls;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::App;

/// Maximum length of a request's head.
const MAX_HEAD_BYTES: usize = 16 * 1024;

struct Running {
    app: App,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

async fn run(change: impl FnOnce(&mut HttpSettings)) -> Running {
    let app = App::with(|_, http| change(http)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (router, settings) = (app.router.clone(), app.settings.clone());
    let server = tokio::spawn(async move {
        serve(listener, router, &settings, async move { stopped.await.unwrap_or_default() }).await;
    });
    Running { app, address, stop, server }
}

/// Longer than any response takes: a test without a response fails instead of waiting forever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request. Returns everything that the server sends until it closes the connection.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let answered = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    };
    timeout(PATIENCE, answered).await.expect("the server hangs up in time")
}

#[tokio::test]
async fn a_request_is_answered_and_the_connection_kept() {
    let running = run(|_| ()).await;
    let client = reqwest::Client::new();
    let url = format!("http://{}/api/v1/tokens/me", running.address);
    for _ in 0..3 {
        let answer = client.get(&url).header("X-MAILAPI-TOKEN", &running.app.admin).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.json::<serde_json::Value>().await.unwrap()["token_type"], "admin");
    }
}

#[tokio::test]
async fn a_sender_of_too_much_gets_to_read_why() {
    let running = run(|http| http.max_request_bytes = 1_000_000).await;
    let url = format!("http://{}/api/v1/mail/send", running.address);
    for (token, length, status) in [(running.app.admin.as_str(), 9_000_000, 413), ("unknown", 900_000, 401)] {
        let request = reqwest::Client::new().post(&url).header("X-MAILAPI-TOKEN", token);
        let request = request.header("content-type", "application/json").body(vec![b' '; length]);
        assert_eq!(request.send().await.unwrap().status().as_u16(), status);
    }
}

#[tokio::test]
async fn a_client_that_waits_for_leave_to_send_is_refused_at_once() {
    let running = run(|http| http.max_request_bytes = 10).await;
    let request = format!(
        "POST /api/v1/domains HTTP/1.1\r\nHost: x\r\nX-MAILAPI-TOKEN: {}\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: 11\r\n\r\n",
        running.app.admin
    );
    // The server cannot know whether the body follows, so it ends the connection.
    let answer = timeout(PATIENCE, exchange(running.address, request.as_bytes())).await.expect("the end");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn a_refused_body_that_was_discarded_leaves_the_connection_open() {
    let running = run(|http| (http.max_request_bytes, http.discard_bytes) = (10, 20)).await;
    let post = |length: usize| {
        let head = "POST /api/v1/domains HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-MAILAPI-TOKEN: ";
        format!("{head}{}\r\nContent-Length: {length}\r\n\r\n{}", running.app.admin, " ".repeat(length))
    };
    let requests = [15, 15, 30].map(post).concat();
    let answers = timeout(PATIENCE, exchange(running.address, requests.as_bytes())).await.expect("the end");
    assert_eq!(answers.matches("HTTP/1.1 413 ").count(), 3, "{answers}");
    assert_eq!(answers.matches("\r\nconnection: close\r\n").count(), 1, "after the third alone: {answers}");
}

#[tokio::test]
async fn few_refused_bodies_of_a_client_are_received_to_their_end() {
    const WAITING: usize = 64;
    let running = run(|http| (http.max_request_bytes, http.discard_timeout) = (10, PATIENCE * 10)).await;
    let (head, body) = ("POST /api/v1/domains HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n", " ".repeat(15));
    let mut clients = FuturesUnordered::new();
    for _ in 0..WAITING + 3 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        clients.push(async {
            stream.readable().await.unwrap();
            stream
        });
    }
    for _ in 0..3 {
        let mut refused = timeout(PATIENCE, clients.next()).await.expect("an answer in time").unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, refused.read_to_string(&mut answer)).await.expect("the end").unwrap();
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    assert_eq!(clients.len(), WAITING);
    assert!(clients.next().now_or_never().is_none(), "the others wait for the rest of their bodies");
    // Room for others comes back.
    drop(clients);
    let answered = async {
        loop {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            stream.write_all(format!("{head}{body}{body}").as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(stream.read_u8().await.unwrap());
            }
            if !String::from_utf8_lossy(&answer).contains("\r\nconnection: close\r\n") {
                return;
            }
        }
    };
    timeout(PATIENCE, answered).await.expect("a body that is received to its end");
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let running = run(|http| http.header_timeout = Duration::from_millis(50)).await;
    for start in [&b""[..], b"P", b"GET /health HTTP/1.1\r\nHost: x\r\n"] {
        exchange(running.address, start).await;
    }
}

#[tokio::test]
async fn errors_of_the_parser_have_the_form_of_all_errors() {
    let running = run(|_| ()).await;
    // Exactly as long as the server reads: a longer request would reset the connection before the response is read.
    let long_target = format!("GET /{}", "x".repeat(MAX_HEAD_BYTES - 5));
    let many_fields = format!("GET /health HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(200));
    for (request, status) in [("EHLO client.example\r\n\r\n", 400), (&long_target, 414), (&many_fields, 431)] {
        let answer = exchange(running.address, request.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(head.split(' ').nth(1), Some(status.to_string().as_str()), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["success"], &body["error"]), (&json!(false), &json!("BAD_REQUEST")), "{body}");
    }
}

#[tokio::test]
async fn a_bare_line_feed_in_a_head_is_refused() {
    let running = run(|_| ()).await;
    let whole = "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";
    let body = "POST /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n\n\n";
    for (before, answered) in [("", 0), (whole, 1), (body, 1)] {
        for head in ["GET /health/live HTTP/1.1\nHost: x\r\n\r\n", "GET /health/live HTTP/1.1\r\nHost: x\n\n"] {
            let answer = exchange(running.address, format!("{before}{head}").as_bytes()).await;
            assert_eq!(answer.matches("HTTP/1.1 ").count(), answered + 1, "{answer}");
            let (_, last) = answer.rsplit_once("HTTP/1.1 ").unwrap();
            assert!(last.starts_with("400 ") && last.contains("\"BAD_REQUEST\""), "{answer}");
        }
    }
}

#[tokio::test]
async fn no_line_of_a_chunk_hides_a_request() {
    let running = run(|_| ()).await;
    let head =
        "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked";
    let hidden = "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";
    for chunks in ["2;a\nb\r\n{}\r\n0\r\n\r\n", "2;a\rb\r\n{}\r\n0\r\n\r\n", "2\n{}\r\n0\r\n\r\n", "2\r\n{}\n0\r\n\r\n"]
    {
        let answer = exchange(running.address, format!("{head}\r\n\r\n{chunks}{hidden}").as_bytes()).await;
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.matches("HTTP/1.1 ").count() == 1,
            "{chunks:?}: {answer}"
        );
    }
    let trailer = format!("{head}\r\n\r\n2\r\n{{}}\r\n0\r\nX: y\n\r\n{hidden}");
    let answer = exchange(running.address, trailer.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
}

#[tokio::test]
async fn a_head_is_read_no_further_than_its_limit() {
    let running = run(|_| ()).await;
    let start = "GET /health HTTP/1.1\r\nHost: x\r\nX: ";
    let unfinished = format!("{start}{}", "y".repeat(MAX_HEAD_BYTES - start.len()));
    let answer = timeout(PATIENCE, exchange(running.address, unfinished.as_bytes())).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_slot_is_given_back_when_a_connection_ends() {
    let running = run(|http| http.max_connections = 1).await;
    for _ in 0..3 {
        let answer =
            exchange(running.address, b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn shutdown_finishes_requests_and_closes_idle_connections() {
    let running = run(|_| ()).await;
    let _idle = TcpStream::connect(running.address).await.unwrap();
    let mut busy = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "POST /api/v1/domains HTTP/1.1\r\nHost: x\r\nX-MAILAPI-TOKEN: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 24\r\nExpect: 100-continue\r\n\r\n",
        running.app.admin
    );
    busy.write_all(head.as_bytes()).await.unwrap();
    // The server's request for the body shows that the request is in flight.
    let mut leave = [0; 25];
    busy.read_exact(&mut leave).await.unwrap();
    assert_eq!(&leave[..21], b"HTTP/1.1 100 Continue");
    running.stop.send(()).unwrap();
    busy.write_all(b"{\"domain\":\"example.org\"}").await.unwrap();
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created"), "{answer}");
    running.server.await.unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn shutdown_ends_event_streams_and_waits_for_events() {
    let running = run(|_| ()).await;
    let mut clients = Vec::new();
    for path in ["/events/stream", "/events?wait=30"] {
        let mut client = TcpStream::connect(running.address).await.unwrap();
        // The answer to the first request shows that the server has read the second one.
        let requests = format!(
            "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n\
             GET /api/v1{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-MAILAPI-TOKEN: {}\r\n\r\n",
            running.app.admin
        );
        client.write_all(requests.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        client.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        clients.push(client);
    }
    running.stop.send(()).unwrap();
    // Much earlier than the grace period of the shutdown and the wait.
    timeout(Duration::from_secs(20), running.server).await.expect("the server does not wait for them").unwrap();
    for mut client in clients {
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.unwrap();
        let is_complete = rest.ends_with("\"truncated\":false}") || rest.ends_with("\r\n0\r\n\r\n");
        assert!(is_complete && rest.matches("HTTP/1.1 200 OK").count() == 1, "{rest}");
    }
}

#[tokio::test]
async fn slow_uploads_do_not_stop_others() {
    let running = run(|http| http.max_request_bytes_in_flight = 4_000_000).await;
    let admin = running.app.admin.clone();
    let head = |length: usize| {
        format!(
            "POST /api/v1/mail/send HTTP/1.1\r\nHost: x\r\nX-MAILAPI-TOKEN: {admin}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(head(30_000_000).as_bytes()).await.unwrap();
        // More than the part of a body that needs no permit from the budget.
        stream.write_all(&[b' '; 400_000]).await.unwrap();
        slow.push(stream);
    }
    let url = format!("http://{}/api/v1/mail/send", running.address);
    let post = |body: Vec<u8>| {
        let request = reqwest::Client::new().post(&url).header("X-MAILAPI-TOKEN", &admin);
        let request = request.header("Content-Type", "application/json").body(body);
        async { tokio::time::timeout(Duration::from_secs(30), request.send()).await.expect("an answer").unwrap() }
    };
    let small = post(b"{}".to_vec()).await;
    assert_eq!(small.status().as_u16(), 422, "a small request needs no room");
    let large = post(vec![b' '; 3_000_000]).await;
    assert_eq!(large.status().as_u16(), 503);
    assert_eq!(large.headers()["retry-after"], "10");
    drop(slow);
}

#[tokio::test]
async fn a_request_names_one_host() {
    let running = run(|_| ()).await;
    for (hosts, version, status) in
        [("", "1.1", 400), ("Host: a\r\nHost: b\r\n", "1.1", 400), ("Host: a\r\n", "1.1", 200), ("", "1.0", 200)]
    {
        let request = format!("GET /health/live HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
        let answer = exchange(running.address, request.as_bytes()).await;
        assert_eq!(answer[9..12].parse::<u16>().unwrap(), status, "{hosts:?}: {answer}");
        assert_eq!(answer.contains("\"error\":\"BAD_REQUEST\""), status == 400, "{answer}");
        assert!(answer.to_ascii_lowercase().contains("\r\nx-request-id: "), "{answer}");
    }
}

#[tokio::test]
async fn only_open_challenges_of_an_authority_are_answered() {
    let tls = ServerTls::empty();
    let running = run(|http| http.tls = Some(tls.clone())).await;
    let url = format!("http://{}/.well-known/acme-challenge/token", running.address);
    let get = async || {
        let answer = reqwest::get(&url).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(get().await.0, 404);
    let open = tls.challenges().answer_over_http("token", "token.thumbprint".to_owned());
    assert_eq!(get().await, (200, "token.thumbprint".to_owned()));
    drop(open);
    assert_eq!(get().await.0, 404);
}
