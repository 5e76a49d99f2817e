//! An IMAP server that plays a script.
//!
//! Lines of a script:
//! - `S: text`: the server sends the text; `{tag}` is the tag of the last command, `\r\n` a line end within the text
//! - `C: start`: the client must send a command that begins with this text after its tag
//! - `flood: text`: the server repeats the text until the client closes the connection
//! - `drip`: the server sends a space every few milliseconds until the client closes the connection
//! - `close`, `hang`: the server closes the connection, or sends nothing more; after its last line it closes

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Time between two octets of a drip.
const DRIP: std::time::Duration = std::time::Duration::from_millis(20);

/// The start of a connection.
pub(crate) const LOGIN: &str = "\
S: * OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN LITERAL+] ready
C: AUTHENTICATE PLAIN
S: {tag} OK [CAPABILITY IMAP4rev1 LITERAL+ LIST-STATUS STATUS=SIZE ESEARCH] logged in";

/// Opens INBOX, which holds one message.
pub(crate) const INBOX: &str = "\
C: LIST \"\" \"\"
S: * LIST (\\Noselect) \"/\" \"\"
S: {tag} OK
C: EXAMINE \"INBOX\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK [READ-ONLY] open";

/// A server. Its connections play the scripts in order; further ones play the last.
pub(crate) struct ScriptedServer {
    pub(crate) port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    connections: Mutex<usize>,
    /// Client input that the script did not expect.
    surprises: Mutex<Vec<String>>,
}

impl ScriptedServer {
    pub(crate) async fn start(scripts: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(State::default());
        let (scripts, of_task) = (scripts.to_vec(), state.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut connections = of_task.connections.lock().unwrap();
                    *connections += 1;
                    *connections
                };
                let script = scripts[number.min(scripts.len()) - 1].clone();
                tokio::spawn(play(stream, script, of_task.clone()));
            }
        });
        Self { port, state, task }
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.state.connections.lock().unwrap()
    }

    /// Fails if the client sent anything that no script expected.
    pub(crate) fn assert_no_surprise(&self) {
        let surprises = self.state.surprises.lock().unwrap();
        assert!(surprises.is_empty(), "{surprises:#?}");
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn play(stream: TcpStream, script: String, state: Arc<State>) {
    let (read, mut write) = stream.into_split();
    let (mut read, mut tag) = (BufReader::new(read), String::new());
    for line in script.lines() {
        if let Some(text) = line.strip_prefix("S: ") {
            let text = text.replace("{tag}", &tag).replace("\\r\\n", "\r\n");
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
                state.surprises.lock().unwrap().push(format!("{} instead of {start}", command.trim_end()));
                return;
            }
        } else if let Some(text) = line.strip_prefix("flood: ") {
            let text = format!("{text}\r\n").repeat(1000);
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
