//! BINARY (RFC 3516): parts without their transfer encoding, and messages with NUL.

use crate::test_server::TestServer;

/// A message of three parts: base64 of `octets`, quoted-printable, and an unknown encoding.
fn message(octets: &[u8]) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(octets);
    let lines: Vec<_> = encoded.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let part = |encoding: &str, body: &str| {
        format!("--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n{body}\r\n")
    };
    let parts = [part("base64", &lines.join("\r\n")), part("Quoted-Printable", "a=\r\n=C3=A9"), part("x-other", "x")];
    format!("Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--\r\n", parts.concat())
}

/// Returns the first literal, and the text around it.
async fn fetched(client: &mut crate::client::Client, items: &str) -> (String, Vec<u8>) {
    client.send(format!("x FETCH 1 {items}\r\n").as_bytes()).await;
    let response = client.response().await.unwrap();
    assert!(client.line().await.unwrap().starts_with("x OK"));
    let at = response.iter().position(|byte| *byte == b'\n').unwrap();
    (String::from_utf8(response[..at].to_vec()).unwrap(), response[at + 1..response.len() - 1].to_vec())
}

#[tokio::test]
async fn a_part_is_decoded_in_any_range() {
    let octets: Vec<u8> = (0..2_000_u32).map(|n| (n % 251) as u8).collect();
    for (chunk_bytes, write_bytes) in [(61, 7), (128 * 1024, 64 * 1024)] {
        let server = TestServer::open_with(|settings| {
            settings.message_store.chunk_bytes = chunk_bytes;
            settings.listeners.imap.write_bytes = write_bytes;
        })
        .await;
        server.deliver(&message(&octets).replace("\r\n", "\n")).await;
        let mut client = server.ann_in("INBOX").await;
        let (head, body) = fetched(&mut client, "BINARY.PEEK[1]").await;
        assert_eq!((head.as_str(), &body), ("* 1 FETCH (BINARY[1] ~{2000}", &octets));
        for (origin, length) in [(0, 1), (1, 250), (1_990, 9), (1_990, 99), (2_000, 1), (4_000_000_000, 1)] {
            let (head, body) = fetched(&mut client, &format!("BINARY.PEEK[1]<{origin}.{length}>")).await;
            let expected: Vec<u8> = octets.iter().copied().skip(origin).take(length).collect();
            assert_eq!(body, expected, "{origin} {length}");
            assert!(head.starts_with(&format!("* 1 FETCH (BINARY[1]<{origin}> ~{{")), "{head}");
        }
        let sizes = client.ok("FETCH 1 (BINARY.SIZE[1] BINARY.SIZE[2] BINARY.SIZE[4])").await;
        assert_eq!(sizes, ["* 1 FETCH (BINARY.SIZE[1] 2000 BINARY.SIZE[2] 3 BINARY.SIZE[4] 0)"]);
        // The whole message has no encoding, and its size is that of BODY[].
        let whole = client.ok("FETCH 1 (BINARY.PEEK[] RFC822.SIZE)").await.remove(0);
        assert_eq!(whole, client.ok("FETCH 1 (BODY.PEEK[] RFC822.SIZE)").await[0].replace("BODY[]", "BINARY[]"));
        let last = client.ok("FETCH 1 (BINARY.PEEK[2] BINARY.PEEK[9] FLAGS)").await;
        assert_eq!(last, ["* 1 FETCH (BINARY[2] {3}\naé BINARY[9] NIL FLAGS (\\Recent))"]);
    }
}

#[tokio::test]
async fn an_unknown_encoding_fails_the_command() {
    let server = TestServer::open().await;
    server.put("INBOX", message(b"x")).await;
    let mut client = server.ann_in("INBOX").await;
    let answer = client.run("FETCH 1 (BINARY.PEEK[3] UID)").await;
    assert_eq!(answer.end, "NO [UNKNOWN-CTE] Unknown transfer encoding");
    assert_eq!(answer.untagged, ["* 1 FETCH (BINARY[3] NIL UID 1)"]);
    assert!(client.ok("FETCH 1 (FLAGS BODY.PEEK[3])").await[0].contains("BODY[3] {1}\nx"));
}

#[tokio::test]
async fn a_message_with_nul_comes_back_as_it_was() {
    let server = TestServer::open().await;
    let mut client = server.ann().await;
    let message = b"Content-Transfer-Encoding: binary\r\n\r\na\0\r\nb\0";
    let append = [format!("APPEND INBOX ~{{{}+}}\r\n", message.len()).as_bytes(), message].concat();
    assert!(client.run_bytes(&append).await.end.starts_with("OK [APPENDUID"));
    client.ok("SELECT INBOX").await;
    let (head, body) = fetched(&mut client, "BINARY[]").await;
    assert!(head.ends_with(&format!("BINARY[] ~{{{}}}", message.len())));
    assert_eq!(body[..message.len()], message[..]);
    // Without PEEK, the message is read now.
    assert!(String::from_utf8_lossy(&body).ends_with(" FLAGS (\\Seen \\Recent)"));
    let (_, text) = fetched(&mut client, "BODY[TEXT]").await;
    assert_eq!(text, b"a\x80\r\nb\x80");
}
