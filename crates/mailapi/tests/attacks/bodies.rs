//! Bodies that need much more memory than their text, and bodies that do not end.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::embedded_host::{ATTACKER, EmbeddedHost, answered_during, connect_from, head, size, status};

const MIB: usize = 1 << 20;

/// Returns bodies of at least `length` bytes, each of which becomes large in its own way.
fn bombs(length: usize) -> Vec<String> {
    let filled = |before: &str, piece: &str, behind: &str| {
        format!("{before}{}{behind}", vec![piece; length / (piece.len() + 1)].join(","))
    };
    vec![
        filled(r#"{"x":["#, r#"{"":0}"#, "]}"),
        filled(r#"{"x":["#, "[[]]", "]}"),
        filled(r#"{"to":["#, "0", "]}"),
        filled(r#"{"to":["#, r#""a@b.example""#, "]}"),
        filled(r#"{"attachments":["#, "{}", "]}"),
        filled(r#"{"attachments":["#, r#"{"filename":"","content":""}"#, "]}"),
        format!(
            r#"{{"headers":{{{}}}}}"#,
            (0..length / 12).map(|n| format!("\"X-{n}\":\"\"")).collect::<Vec<_>>().join(",")
        ),
        format!("{}{}", r#"{"x":"#.repeat(length / 10), "}".repeat(length / 10)),
        "[".repeat(length),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn bodies_of_many_tiny_values_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    let mut tokens = vec![host.ann.clone()];
    for number in 0..3 {
        tokens.push(host.user(&format!("mallory{number}")).await);
    }
    for bomb in bombs(size(34 * MIB, 5 * MIB)) {
        let attack = async {
            let one = |n: usize| {
                let (bomb, token) = (&bomb, &tokens[n % tokens.len()]);
                let listener = host.listener("http");
                async move {
                    let mut stream = connect_from(ATTACKER, listener).await;
                    stream.write_all(head("/mail/send", token, bomb.len()).as_bytes()).await.unwrap();
                    // The server may reject the rest.
                    let (mut reading, mut writing) = stream.split();
                    let _ = writing.write_all(bomb.as_bytes()).await;
                    let mut answer = [0; 12];
                    tokio::io::AsyncReadExt::read_exact(&mut reading, &mut answer).await.unwrap();
                    String::from_utf8_lossy(&answer[9..]).into_owned()
                }
            };
            futures_util::future::join_all((0..7).map(one)).await
        };
        let answers = answered_during(&host, &bomb[..30], attack).await;
        let refused = ["400", "413", "422", "503"];
        assert!(answers.iter().all(|answer| refused.contains(&answer.as_str())), "{answers:?} to {}", &bomb[..30]);
    }
    host.stands("bodies of many tiny values").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn long_texts_sent_at_once_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    let mallory = host.user("mallory").await;
    let text = "\\u0001".repeat(size(33 * MIB, 4 * MIB) / 6);
    let plain = "x".repeat(size(20 * MIB, 4 * MIB));
    for text in [text, plain] {
        let body = format!(
            r#"{{"from":"mallory@example.org","to":["mallory@example.org"],"body":{{"text":"{text}","html":"{text}"}}}}"#
        );
        // Two copies of the text may exceed the limit of a body.
        let body = if body.len() < 35 * MIB { body } else { body.replacen(&format!(",\"html\":\"{text}\""), "", 1) };
        let one = || async {
            let mut stream = host.attacker("http").await;
            stream.write_all(head("/mail/send", &mallory, body.len()).as_bytes()).await.unwrap();
            let _ = stream.write_all(body.as_bytes()).await;
            status(&mut stream).await
        };
        let attack = futures_util::future::join_all((0..7).map(|_| one()));
        let answers = answered_during(&host, "long texts", attack).await;
        assert!(answers.iter().all(|status| [202, 413, 422, 500, 503].contains(status)), "{answers:?}");
    }
    host.stands("long texts").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn slow_uploads_stop_no_other_client() {
    let host = EmbeddedHost::open(&[]).await;
    let mut slow = Vec::new();
    // Large bodies that need much of the budget, and the maximum number of small ones per client.
    for (count, length) in [(8, 30 * MIB), (size(900, 100), 200_000)] {
        for _ in 0..count {
            let mut stream = host.attacker("http").await;
            stream.write_all(head("/mail/send", &host.ann, length).as_bytes()).await.unwrap();
            let _ = stream.write_all(&vec![b' '; length.min(MIB) - 1000]).await;
            slow.push(stream);
        }
        host.listeners_answer("slow uploads").await;
    }
    drop(slow);
    host.stands("slow uploads").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn a_thousand_unfinished_texts_of_one_mailbox_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    let (count, length) = (size(1000, 100), MIB);
    let admin = host.server.token();
    let mut tokens = Vec::new();
    for number in 0..20 {
        let token = json!({ "name": number.to_string(), "token_type": "user", "email": "ann@example.org" });
        tokens.push(host.made("/tokens", &admin, token).await["token"].as_str().unwrap().to_owned());
    }
    // The last byte is missing, so that all texts are there at once.
    let text =
        format!(r#"{{"from":"ann@example.org","to":["ann@example.org"],"body":{{"text":"{}"#, "x".repeat(length));
    let one = |number: usize| {
        let (listener, token, text) = (host.listener("http"), &tokens[number % tokens.len()], &text);
        async move {
            let mut stream = connect_from(ATTACKER, listener).await;
            stream.write_all(head("/mail/send", token, text.len() + 3).as_bytes()).await.unwrap();
            let _ = stream.write_all(text.as_bytes()).await;
            status(&mut stream).await
        }
    };
    let attack = futures_util::future::join_all((0..count).map(one));
    let answers = answered_during(&host, "unfinished texts", attack).await;
    assert!(answers.iter().all(|status| [408, 503].contains(status)), "{answers:?}");
    assert!(answers.contains(&408), "some of them had room");
    host.stands("unfinished texts").await;
}
