//! The attacked server, its clients, and the measurements.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use crate::support::{REPORT_ROUNDS, Server, WorkDir, rests};

pub(crate) const PASSWORD: &str = "correct horse battery";
/// Maximum memory of the process.
const MOST_MEMORY: u64 = 300 << 20;
/// Maximum address space of the process: its memory, thread stacks, and reserved heaps.
const ADDRESS_SPACE_KIB: u64 = 2 << 20;
/// Enough for the connections of the largest attack, and some files.
const FILES: usize = 10_000;
/// Enough for a small attack.
const FEW_FILES: usize = 4096;
/// Maximum duration of an attack.
const PATIENCE: Duration = Duration::from_secs(300);
/// Addresses of the attacker and of all other clients. All of 127.0.0.0/8 is this host (RFC 1122, section 3.2.1.3).
pub(crate) const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);
const OTHERS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);

/// Attacks run one at a time, because each measures the response times of the server.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Returns the binary for attacks in full size; without it, attacks are small and use the binary of this build.
fn full_size() -> Option<PathBuf> {
    let name = std::env::var_os("MAILAPI_ATTACKS_BINARY")?;
    Some(std::fs::canonicalize(PathBuf::from(&name)).unwrap_or_else(|_| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        PathBuf::from(root).join(&name)
    }))
}

/// Returns the size of an attack.
pub(crate) fn size(full: usize, small: usize) -> usize {
    if full_size().is_some() { full } else { small }
}

/// Maximum response time of a listener. A debug build on a busy machine is slow without any attack.
fn answer_time() -> Duration {
    Duration::from_secs(if full_size().is_some() { 1 } else { 20 })
}

/// A server with the mailboxes ann and bob of example.org, and the built-in mail server unless settings name
/// another.
pub(crate) struct EmbeddedHost {
    pub(crate) server: Server,
    /// The tokens of ann and bob.
    pub(crate) ann: String,
    pub(crate) bob: String,
    client: reqwest::Client,
    work_dir: WorkDir,
    _alone: MutexGuard<'static, ()>,
}

impl EmbeddedHost {
    pub(crate) async fn open(settings: &[(&str, &str)]) -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        raise_limit_of_files();
        let work_dir = WorkDir::new();
        let mut server = Server::start(command(&work_dir, settings));
        server.drain();
        // These requests come from other clients, not from the attacker.
        let client = reqwest::Client::builder().local_address(std::net::IpAddr::V4(OTHERS)).build().unwrap();
        let mut host = Self { server, ann: String::new(), bob: String::new(), client, work_dir, _alone: alone };
        let admin = host.server.token();
        host.made("/domains", &admin, json!({ "domain": "example.org" })).await;
        host.ann = host.user("ann").await;
        host.bob = host.user("bob").await;
        host
    }

    /// Creates a mailbox. Returns a token for it.
    pub(crate) async fn user(&self, name: &str) -> String {
        let admin = self.server.token();
        let email = format!("{name}@example.org");
        self.made("/users", &admin, json!({ "email": email, "password": PASSWORD })).await;
        let token = json!({ "name": "attacks", "token_type": "user", "email": email });
        self.made("/tokens", &admin, token).await["token"].as_str().unwrap().to_owned()
    }

    /// Creates something, and returns the answer.
    pub(crate) async fn made(&self, path: &str, token: &str, body: Value) -> Value {
        let (status, answer) = self.post(path, token, body.to_string()).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Sends a request as the attacker. Returns the status, and whether the response was complete.
    pub(crate) async fn get(&self, path: &str, token: &str) -> (u16, bool) {
        let client = reqwest::Client::builder().local_address(std::net::IpAddr::V4(ATTACKER)).build().unwrap();
        let answer = client.get(self.server.api(path)).header("X-MAILAPI-TOKEN", token).send().await.unwrap();
        (answer.status().as_u16(), answer.bytes().await.is_ok())
    }

    /// Returns the status and the body of a response.
    pub(crate) async fn post(&self, path: &str, token: &str, body: String) -> (u16, Value) {
        let request = self.client.post(self.server.api(path)).header("X-MAILAPI-TOKEN", token);
        let answer = request.header("Content-Type", "application/json").body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    /// Counts rows in the server's database.
    pub(crate) fn count(&self, sql: &str) -> u64 {
        let file = self.work_dir.data().join("mailapi.db");
        rusqlite::Connection::open(file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn listener(&self, name: &str) -> SocketAddr {
        let address = match name {
            "http" => self.server.api("").trim_start_matches("http://").trim_end_matches("/api/v1").to_owned(),
            _ => self.server.running[name].as_str().unwrap().to_owned(),
        };
        address.parse().unwrap()
    }

    /// Opens a connection as the attacker.
    pub(crate) async fn attacker(&self, listener: &str) -> TcpStream {
        connect_from(ATTACKER, self.listener(listener)).await
    }

    /// Opens a connection as another client.
    pub(crate) async fn owner(&self, listener: &str) -> TcpStream {
        connect_from(OTHERS, self.listener(listener)).await
    }

    /// Fails unless another client gets its response in time.
    pub(crate) async fn in_time<T>(&self, answering: impl Future<Output = T>) -> T {
        timeout(answer_time(), answering).await.expect("an answer in time")
    }

    /// Checks that every listener answers another client in time: a read and a send over HTTP, and the first
    /// commands of the mail protocols.
    pub(crate) async fn listeners_answer(&self, during: &str) {
        let (read, send) = (answer_time(), answer_time());
        let me = self.client.get(self.server.api("/tokens/me")).header("X-MAILAPI-TOKEN", &self.bob);
        let answer = timeout(read, me.send()).await.unwrap_or_else(|_| panic!("no read during {during}")).unwrap();
        assert_eq!(answer.status(), 200, "{during}");
        let message = json!({ "from": "bob@example.org", "to": ["bob@example.org"], "body": { "text": "Hi" } });
        let sent = timeout(send, self.post("/mail/send", &self.bob, message.to_string())).await;
        assert_eq!(sent.unwrap_or_else(|_| panic!("no send during {during}")).0, 202, "{during}");
        for (listener, question, end) in
            [("smtp", "EHLO x\r\n", "250 "), ("submission", "EHLO x\r\n", "250 "), ("imap", "a NOOP\r\n", "a OK")]
        {
            if self.server.running[listener].is_null() {
                continue;
            }
            let waits_for = Cell::new("a connection");
            let answering = async {
                let stream = connect_from(OTHERS, self.listener(listener)).await;
                waits_for.set("a greeting");
                let mut dialogue = Talk::begin(stream).await;
                waits_for.set("a reply");
                dialogue.say(question, end).await;
            };
            let answered = timeout(answer_time(), answering).await;
            answered.unwrap_or_else(|_| {
                panic!("{listener} is silent during {during}: the client waits for {}", waits_for.get())
            });
        }
    }

    /// Checks that the listeners answer, that memory was bounded all the time, and that all loops rest.
    pub(crate) async fn stands(self, attack: &str) {
        self.listeners_answer("the time afterwards").await;
        let memory = Memory::of(self.server.id());
        memory.report(attack);
        assert!(memory.peak < MOST_MEMORY, "{attack}: {} MiB at the peak", memory.peak >> 20);
        let health = self.server.api("").replace("/api/v1", "/health");
        let resting = rests(&health, attack, || self.server.rounds());
        timeout(PATIENCE, resting).await.expect("the loops are seen to rest");
    }
}

/// Runs `attack`, which ends without a stop, while every listener is checked repeatedly.
pub(crate) async fn answered_during<T>(host: &EmbeddedHost, name: &str, attack: impl Future<Output = T>) -> T {
    let mut attack = std::pin::pin!(timeout(PATIENCE, attack));
    loop {
        let trying = host.listeners_answer(name);
        tokio::select! {
            done = &mut attack => return done.unwrap_or_else(|_| panic!("{name} does not end")),
            () = trying => {}
        }
    }
}

fn command(work_dir: &WorkDir, settings: &[(&str, &str)]) -> Command {
    let given = work_dir.command(&["serve", "--log-format", "json"]);
    let binary = full_size().unwrap_or_else(|| given.get_program().into());
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" \"$@\"")).arg(binary);
    command.args(given.get_args()).current_dir(work_dir.path());
    for (name, value) in given.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // The relay is unreachable, so outgoing mail stays in the queue.
    command.env("MAILAPI_MAIL__EMBEDDED__RELAY", "127.0.0.1:9").env("MALLOC_ARENA_MAX", "2");
    command.env(REPORT_ROUNDS.0, REPORT_ROUNDS.1).envs(settings.iter().copied());
    command
}

/// The attacker has more connections than the usual limit of a process.
fn raise_limit_of_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let needed = size(FILES, FEW_FILES);
    assert!(maximum.is_none_or(|maximum| maximum >= needed as u64), "the attacks need {needed} open files");
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// The first of the addresses of a client that has a whole network.
const FIRST_OF_NETWORK: u8 = 20;

/// The address of a connection, of which one network has as many as each listener allows.
pub(crate) fn of_network(number: usize, per_address: usize) -> Ipv4Addr {
    let last = FIRST_OF_NETWORK + u8::try_from(number / per_address).unwrap();
    Ipv4Addr::new(127, 0, 0, last)
}

pub(crate) async fn connect_from(client: Ipv4Addr, listener: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((client, 0))).unwrap();
    timeout(PATIENCE, socket.connect(listener)).await.expect("a connection in time").unwrap()
}

/// An SMTP or IMAP client.
pub(crate) struct Talk(BufReader<TcpStream>);

impl Talk {
    /// Waits for the greeting.
    pub(crate) async fn begin(stream: TcpStream) -> Self {
        let mut talk = Self(BufReader::new(stream));
        talk.line().await;
        talk
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.unwrap();
    }

    /// Returns the next line of the server; empty after it closed the connection.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        timeout(PATIENCE, self.0.read_until(b'\n', &mut line)).await.expect("a line in time").unwrap_or_default();
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Sends a command and waits for the last line of its response.
    pub(crate) async fn say(&mut self, command: &str, end: &str) {
        self.write(command.as_bytes()).await;
        self.hear(end).await;
    }

    pub(crate) async fn hear(&mut self, end: &str) {
        loop {
            let line = self.line().await;
            if line.starts_with(end) {
                return;
            }
            assert!(line.starts_with("* ") || line.as_bytes().get(3) == Some(&b'-'), "{line:?} instead of {end}");
        }
    }
}

/// Returns the head of a POST with a JSON body of `length` bytes.
pub(crate) fn head(path: &str, token: &str, length: usize) -> String {
    format!(
        "POST /api/v1{path} HTTP/1.1\r\nHost: x\r\nX-MAILAPI-TOKEN: {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

/// Returns the status of the next response on a connection.
pub(crate) async fn status(stream: &mut TcpStream) -> u16 {
    let mut line = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut line)).await.expect("an answer in time").expect("an answer");
    std::str::from_utf8(&line[9..]).unwrap().parse().unwrap()
}

/// Returns the login data of a mail program.
pub(crate) fn auth_plain(mailbox: &str, password: &str) -> String {
    format!("AUTH PLAIN {}\r\n", STANDARD.encode(format!("\0{mailbox}\0{password}")))
}

/// Memory of a process, in bytes.
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

impl Memory {
    pub(crate) fn of(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
        };
        Self { now: value("VmRSS:"), peak: value("VmHWM:") }
    }

    #[expect(clippy::print_stdout, reason = "the figures are a result of the test")]
    fn report(&self, attack: &str) {
        println!("{attack}: {} MiB at the peak, {} MiB afterwards", self.peak >> 20, self.now >> 20);
    }
}
