//! A scripted rspamd.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the script does with a request.
#[derive(Debug, Clone)]
enum Script {
    /// Reads the request, and sends these bytes.
    Answer(Vec<u8>),
    /// Reads the request, and then sends this many bytes of a body.
    Endless(usize),
    /// Reads nothing and sends nothing.
    Hang,
}

/// A request that the script has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RspamdRequest {
    /// The first line and the fields, in lines.
    pub head: String,
    /// The message.
    pub message: Vec<u8>,
}

impl RspamdRequest {
    /// Returns the values of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}

/// Answers every request on a loopback port as the script says.
pub struct ScriptedRspamd {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    script: Mutex<Script>,
    requests: Mutex<Vec<RspamdRequest>>,
}

impl ScriptedRspamd {
    /// Starts a server that asks for nothing to be done with a message.
    ///
    /// # Panics
    /// When there is no free loopback port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the address it listens on");
        let shared = Arc::new(Shared { script: Mutex::new(Script::Hang), requests: Mutex::default() });
        let of_sessions = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = of_sessions.clone();
                tokio::spawn(async move { drop(session(stream, &shared).await) });
            }
        });
        let started = Self { address, shared, task };
        started.finds("no action", 0.5, "");
        started
    }

    /// Returns `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Makes it answer with an action, a score, and a text for the sender, which may be empty.
    pub fn finds(&self, action: &str, score: f64, text: &str) {
        self.answers(&format!(
            "{{\"is_skipped\":false,\"score\":{score},\"required_score\":15.0,\"action\":\"{action}\",\"symbols\":{{}},\
             \"messages\":{{\"smtp_message\":\"{text}\"}}}}"
        ));
    }

    /// Makes it answer with this body.
    pub fn answers(&self, body: &str) {
        let length = body.len();
        self.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes());
    }

    /// Makes it send these bytes instead of an answer.
    pub fn sends(&self, bytes: &[u8]) {
        self.script(Script::Answer(bytes.to_vec()));
    }

    /// Makes it answer with a body of this many bytes.
    pub fn floods(&self, bytes: usize) {
        self.script(Script::Endless(bytes));
    }

    /// Makes it accept connections only.
    pub fn hangs(&self) {
        self.script(Script::Hang);
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RspamdRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn script(&self, script: Script) {
        *self.shared.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }
}

impl Drop for ScriptedRspamd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn session(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let script = shared.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if matches!(script, Script::Hang) {
        // The connection stays open until the client closes it.
        stream.read_to_end(&mut Vec::new()).await?;
        return Ok(());
    }
    let request = request(&mut stream).await?;
    shared.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    match script {
        Script::Answer(bytes) => stream.write_all(&bytes).await,
        Script::Endless(bytes) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let piece = vec![b' '; 64 * 1024];
            for _ in 0..bytes.div_ceil(piece.len()) {
                stream.write_all(&piece).await?;
            }
            Ok(())
        }
        Script::Hang => Ok(()),
    }
}

/// Reads a request: its head, and as many bytes as `Content-Length` says.
async fn request(stream: &mut TcpStream) -> std::io::Result<RspamdRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let mut request = RspamdRequest { head: String::from_utf8_lossy(&head).into_owned(), message: Vec::new() };
    let length = request.field("content-length").first().and_then(|text| text.parse().ok()).unwrap_or(0);
    request.message = vec![0; length];
    stream.read_exact(&mut request.message).await?;
    Ok(request)
}
