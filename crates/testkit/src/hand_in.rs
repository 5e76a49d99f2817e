//! Delivers messages to a mail server, as another mail server does.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

/// A loopback address on which no mail server listens, so that the client is not taken for the server itself.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A connection for delivering messages.
pub(crate) struct HandIn(BufReader<TcpStream>);

impl HandIn {
    /// Connects, and greets with this command.
    ///
    /// # Panics
    /// When the server does not speak SMTP or LMTP.
    pub(crate) async fn connect(address: SocketAddr, greeting: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((STRANGER, 0).into()).expect("a loopback address");
        let stream = socket.connect(address).await.expect("a connection");
        let mut connection = Self(BufReader::new(stream));
        assert!(connection.reply().await.starts_with("220"), "no greeting");
        connection.expect(greeting, "250").await;
        connection
    }

    /// Delivers one message; returns the last line of the last reply.
    ///
    /// # Panics
    /// When it is rejected.
    pub(crate) async fn message(&mut self, sender: &str, recipient: &str, message: &[u8]) -> String {
        self.expect(&format!("MAIL FROM:<{sender}>"), "250").await;
        self.expect(&format!("RCPT TO:<{recipient}>"), "250").await;
        self.expect("DATA", "354").await;
        let mut bytes = Vec::with_capacity(message.len() + 5);
        for line in message.split_inclusive(|&byte| byte == b'\n') {
            if line.starts_with(b".") {
                bytes.push(b'.');
            }
            bytes.extend_from_slice(line);
        }
        let is_whole = bytes.is_empty() || bytes.ends_with(b"\n");
        bytes.extend_from_slice(if is_whole { b".\r\n" } else { b"\r\n.\r\n" });
        self.0.write_all(&bytes).await.expect("the message is sent");
        let reply = self.reply().await;
        assert!(reply.starts_with("250"), "{reply}");
        reply
    }

    /// Returns whether a message for this recipient would be accepted; delivers none.
    pub(crate) async fn takes(&mut self, sender: &str, recipient: &str) -> bool {
        self.expect(&format!("MAIL FROM:<{sender}>"), "250").await;
        self.0.write_all(format!("RCPT TO:<{recipient}>\r\n").as_bytes()).await.expect("a command is sent");
        self.reply().await.starts_with("250")
    }

    async fn expect(&mut self, command: &str, code: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.expect("a command is sent");
        let reply = self.reply().await;
        assert!(reply.starts_with(code), "{command}: {reply}");
    }

    /// Returns the last line of a reply.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.expect("a reply");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }
}
