//! A client that compresses its connection (RFC 4978), with zlib's algorithm of its own.

use std::io::{Read, Write};
use std::net::TcpStream;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use crate::client::PATIENCE;
use crate::test_server::{PASSWORD, TestServer};

struct CompressedClient {
    stream: TcpStream,
    inflate: Decompress,
    deflate: Compress,
    received: usize,
}

impl CompressedClient {
    /// Logs in as ann and starts the compression.
    fn connect(server: &TestServer) -> Self {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut plain = Vec::new();
        stream.write_all(format!("a LOGIN ann@example.org {PASSWORD}\r\nb COMPRESS DEFLATE\r\n").as_bytes()).unwrap();
        while !plain.ends_with(b"b OK DEFLATE active\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            plain.extend(byte);
        }
        assert!(String::from_utf8_lossy(&plain).contains("COMPRESS=DEFLATE"));
        let (inflate, deflate) = (Decompress::new(false), Compress::new(Compression::best(), false));
        Self { stream, inflate, deflate, received: 0 }
    }

    fn send(&mut self, text: &str) {
        let mut compressed = Vec::with_capacity(1000 + text.len());
        self.deflate.compress_vec(text.as_bytes(), &mut compressed, FlushCompress::Sync).unwrap();
        self.stream.write_all(&compressed).unwrap();
    }

    /// Returns the text up to the tagged response.
    fn answer(&mut self, tag: &str) -> String {
        let mut text = Vec::with_capacity(1 << 20);
        loop {
            let mut bytes = [0; 4096];
            let read = self.stream.read(&mut bytes).unwrap();
            assert!(read > 0, "an answer before the end");
            self.received += read;
            self.inflate.decompress_vec(&bytes[..read], &mut text, FlushDecompress::Sync).unwrap();
            let said = String::from_utf8_lossy(&text);
            if said.lines().any(|line| line.starts_with(tag)) {
                return said.into_owned();
            }
        }
    }

    fn run(&mut self, command: &str) -> String {
        self.send(&format!("t {command}\r\n"));
        self.answer("t ")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_session_reads_and_writes() {
    let server = TestServer::open().await;
    for _ in 0..300 {
        server.put("INBOX", "From: eve@elsewhere.example\r\nSubject: Hi\r\n\r\ntext\r\n").await;
    }
    let story = tokio::task::block_in_place(|| {
        let mut client = CompressedClient::connect(&server);
        assert!(!client.run("CAPABILITY").contains("COMPRESS"));
        assert!(client.run("COMPRESS DEFLATE").starts_with("t NO [COMPRESSIONACTIVE]"));
        assert!(client.run("APPEND INBOX {6+}\r\nx: y\r\n").contains("t OK [APPENDUID"));
        client.run("SELECT INBOX");
        client.received = 0;
        let listed = client.run("FETCH 1:* (UID FLAGS ENVELOPE)");
        (listed.matches(" FETCH (").count(), client.received * 5 < listed.len())
    });
    assert_eq!(story, (301, true), "all messages, in less than a fifth of the octets");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_never_ends_is_refused_however_small() {
    let server = TestServer::open().await;
    tokio::task::block_in_place(|| {
        let mut client = CompressedClient::connect(&server);
        client.send(&"x".repeat(50_000_000));
        assert!(client.answer("* BYE").contains("* BYE Command is too long"));
    });
    server.end().await;
}
