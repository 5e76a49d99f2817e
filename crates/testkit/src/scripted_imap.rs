//! An IMAP server that plays a script.
//!
//! Lines of a script:
//! - `S: text`  the server sends the text; `{tag}` is the tag of the last command, `\r\n` stands for a line end within
//! - `C: start`  the client must send a command that begins with this text after its tag
//! - `times N: text`  the server sends the text N times, without line ends
//! - `endless: text`  the same until the client closes the connection
//! - `flood: text`  the same with a line end each time
//! - `drip`  the server sends a space every few milliseconds, until the client closes the connection
//! - `close`, `hang`  the server closes the connection, or sends nothing more; after its last line it closes

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Time between two bytes of a drip.
const DRIP: std::time::Duration = std::time::Duration::from_millis(20);

/// The start of a connection.
pub const LOGIN: &str = "\
S: * OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN LITERAL+] ready
C: AUTHENTICATE PLAIN
S: {tag} OK [CAPABILITY IMAP4rev1 LITERAL+ LIST-STATUS STATUS=SIZE ESEARCH] logged in";

/// Opens INBOX, which holds one message.
pub const INBOX: &str = "\
C: LIST \"\" \"\"
S: * LIST (\\Noselect) \"/\" \"\"
S: {tag} OK
C: EXAMINE \"INBOX\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK [READ-ONLY] open";

/// A server. Its connections play the scripts in order; further ones play the last.
pub struct ScriptedServer {
    /// The port on the loopback.
    pub port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// Those of the next connections; the last one stays.
    scripts: Mutex<VecDeque<String>>,
    connections: Mutex<usize>,
    /// Client input that the script did not expect.
    surprises: Mutex<Vec<String>>,
}

impl State {
    fn next_script(&self) -> String {
        *locked(&self.connections) += 1;
        let mut scripts = locked(&self.scripts);
        let last = if scripts.len() > 1 { scripts.pop_front() } else { None };
        last.or_else(|| scripts.front().cloned()).unwrap_or_default()
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedServer {
    /// Starts one.
    ///
    /// # Panics
    /// When there is no free loopback port.
    pub async fn start(scripts: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(State::default());
        let of_task = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(play(stream, of_task.next_script(), of_task.clone()));
            }
        });
        let server = Self { port, state, task };
        server.play(scripts);
        server
    }

    /// From the next connection on these scripts are played.
    pub fn play(&self, scripts: &[String]) {
        *locked(&self.state.scripts) = scripts.to_vec().into();
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        *locked(&self.state.connections)
    }

    /// Fails if the client sent anything that no script expected.
    ///
    /// # Panics
    /// If it did.
    pub fn assert_no_surprise(&self) {
        let surprises = locked(&self.state.surprises);
        assert!(surprises.is_empty(), "{surprises:#?}");
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a line says without end.
fn flood(line: &str) -> Option<String> {
    let lines = line.strip_prefix("flood: ").map(|text| format!("{text}\r\n"));
    lines.or_else(|| line.strip_prefix("endless: ").map(unescaped))
}

fn unescaped(text: &str) -> String {
    text.replace("\\r\\n", "\r\n")
}

async fn play(stream: TcpStream, script: String, state: Arc<State>) {
    let (read, mut write) = stream.into_split();
    let (mut read, mut tag) = (BufReader::new(read), String::new());
    for line in script.lines() {
        if let Some(text) = line.strip_prefix("S: ") {
            let text = unescaped(&text.replace("{tag}", &tag));
            if write.write_all(format!("{text}\r\n").as_bytes()).await.is_err() {
                return;
            }
        } else if let Some(start) = line.strip_prefix("C: ") {
            let mut said = String::new();
            if read.read_line(&mut said).await.unwrap_or(0) == 0 {
                return;
            }
            let (own, command) = said.split_once(' ').unwrap_or((said.as_str(), ""));
            tag = own.to_owned();
            if !command.starts_with(start) {
                locked(&state.surprises).push(format!("{} instead of {start}", command.trim_end()));
                return;
            }
        } else if let Some((count, text)) = line.strip_prefix("times ").and_then(|rest| rest.split_once(": ")) {
            let text = unescaped(text).repeat(count.parse().expect("a number"));
            if write.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        } else if let Some(text) = flood(line) {
            let text = text.repeat(1000);
            while write.write_all(text.as_bytes()).await.is_ok() {}
            return;
        } else if line == "drip" {
            let mut pace = tokio::time::interval(DRIP);
            while write.write_all(b" ").await.is_ok() {
                pace.tick().await;
            }
            return;
        } else if line == "hang" {
            let _ = read.read_to_end(&mut Vec::new()).await;
        } else {
            assert_eq!(line, "close", "a line of the script");
            return;
        }
    }
}
