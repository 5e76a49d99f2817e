//! Support for tests of the real binary.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mailapi_testkit::{StoppedProcess, send_signal};
use serde_json::Value;
use tempfile::TempDir;

/// Working directory of one test and its processes.
pub(crate) struct WorkDir {
    directory: TempDir,
}

impl WorkDir {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("mailapi-data")
    }

    /// Returns the command with free ports, no rate limits and cheap password hashes, without mailapi's variables
    /// from the caller's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mailapi"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAILAPI_")) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.path())
            .stdin(Stdio::null())
            .env("MAILAPI_HTTP__LISTEN", "127.0.0.1:0")
            .env("MAILAPI_MAIL__EMBEDDED__SMTP_LISTEN", "127.0.0.1:0")
            .env("MAILAPI_MAIL__EMBEDDED__SUBMISSION_LISTEN", "127.0.0.1:0")
            .env("MAILAPI_MAIL__EMBEDDED__IMAP_LISTEN", "127.0.0.1:0")
            .env("MAILAPI_LIMITS__REQUESTS_PER_MINUTE", "0")
            .env("MAILAPI_LIMITS__REQUESTS_PER_HOUR", "0")
            .env("MAILAPI_ADVANCED__AUTH__PASSWORD_ROUNDS", "1000");
        command
    }

    /// Runs one command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.command(arguments).output().unwrap())
    }

    /// Runs one command with `input` on its standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Answer {
        Answer::of_command(self.command(arguments), input)
    }

    /// Starts a server and waits until it is ready.
    pub(crate) fn serve(&self) -> Server {
        Server::start(self.command(&["serve", "--log-format", "json"]))
    }

    /// Like `serve`, with the listener for monitoring.
    pub(crate) fn serve_measured(&self) -> Server {
        let mut command = self.command(&["serve", "--log-format", "json"]);
        command.env(MEASURED.0, MEASURED.1);
        Server::start(command)
    }
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// Runs a command with `input` on its standard input.
    pub(crate) fn of_command(mut command: Command, input: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails before it reads closes the pipe; this is no failure of the test.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Self::of(child.wait_with_output().unwrap())
    }

    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Returns the standard output of a command that succeeded without warnings.
    pub(crate) fn answer(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// Returns the error line of a command that failed.
    pub(crate) fn complaint(self) -> String {
        assert_ne!(self.code, Some(0), "{self:?}");
        assert_eq!((self.stdout.as_str(), self.stderr.lines().count()), ("", 1), "{self:?}");
        self.stderr.trim_end().strip_prefix("mailapi: ").expect("an error line starts with `mailapi: `").to_owned()
    }
}

/// A running server; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    /// Event with the addresses of the listeners.
    pub(crate) running: Value,
    /// Event of a first start.
    pub(crate) first_start: Option<Value>,
    /// All events before the server was ready.
    pub(crate) start: Vec<Value>,
    rounds: Rounds,
}

/// The rounds that each background loop has begun, from a server's log.
pub(crate) type Rounds = Arc<Mutex<BTreeMap<String, u64>>>;

/// The setting that makes a server log the rounds of its background loops.
pub(crate) const REPORT_ROUNDS: (&str, &str) = ("MAILAPI_LOG__LEVEL", "info,mailapi::rounds=trace");

/// The setting that opens the listener for monitoring.
pub(crate) const MEASURED: (&str, &str) = ("MAILAPI_METRICS__LISTEN", "127.0.0.1:0");
/// The line of a server that lost no recipient.
pub(crate) const ALL_ACCOUNTED_FOR: &str = "\nmailapi_unaccounted_recipients 0.0\n";

impl Server {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut first_start, mut start) = (None, Vec::new());
        let running = loop {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the server ended before it was ready");
            let event: Value = serde_json::from_str(&line).expect("every line is one JSON object");
            match event["message"].as_str() {
                Some("first start") => first_start = Some(event.clone()),
                Some("mailapi is running") => break event,
                _ => {}
            }
            start.push(event);
        };
        Self { child, stdout: Some(stdout), running, first_start, start, rounds: Rounds::default() }
    }

    /// Reads the server's log from now on, so that a full pipe never blocks it, and counts the rounds of its loops.
    pub(crate) fn drain(&mut self) {
        let stdout = self.stdout.take().unwrap();
        self.start.iter().for_each(|event| note_round(&self.rounds, event));
        let rounds = Arc::clone(&self.rounds);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok).filter(|line| line.contains(ROUNDS)) {
                note_round(&rounds, &serde_json::from_str(&line).unwrap());
            }
        });
    }

    /// The rounds reported since [`Server::drain`].
    pub(crate) fn rounds(&self) -> BTreeMap<String, u64> {
        self.rounds.lock().unwrap().clone()
    }

    /// Reads the log up to an event with this message.
    pub(crate) fn read_until(&mut self, message: &str) -> Value {
        self.read_until_one_of(&[message])
    }

    /// Reads the log up to an event with one of these messages.
    pub(crate) fn read_until_one_of(&mut self, messages: &[&str]) -> Value {
        let stdout = self.stdout.as_mut().unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the server ended before `{messages:?}`");
            let event: Value = serde_json::from_str(&line).expect("every line is one JSON object");
            if messages.iter().any(|message| event["message"] == *message) {
                return event;
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn api(&self, path: &str) -> String {
        format!("{}{path}", self.running["api"].as_str().unwrap())
    }

    /// Returns all metrics as text; needs [`MEASURED`].
    pub(crate) async fn metrics(&self) -> String {
        let address = self.running["metrics"].as_str().expect("the listener for monitoring is on");
        reqwest::get(format!("http://{address}/metrics")).await.unwrap().text().await.unwrap()
    }

    pub(crate) fn token(&self) -> String {
        let file = self.first_start.as_ref().unwrap()["admin_token_file"].as_str().unwrap();
        std::fs::read_to_string(file).unwrap().trim_end().to_owned()
    }

    /// Kills it with SIGKILL, like a power failure.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it `signal` (TERM, INT).
    pub(crate) fn signal(&self, signal: &str) {
        assert!(send_signal(signal, &self.child));
    }

    /// Stops it, so that it does nothing until the result is dropped.
    pub(crate) fn stop_for_a_while(&self) -> StoppedProcess {
        StoppedProcess::stop(&self.child)
    }

    /// Waits for its end; returns its exit code and the rest of its log.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        if let Some(stdout) = &mut self.stdout {
            std::io::Read::read_to_string(stdout, &mut rest).unwrap();
        }
        (self.child.wait().unwrap().code(), rest)
    }

    /// Stops it with `signal`, and waits for its end.
    pub(crate) fn stop(self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Target of the events that report rounds.
const ROUNDS: &str = "mailapi::rounds";

fn note_round(rounds: &Rounds, event: &Value) {
    if event["target"] == ROUNDS {
        *rounds.lock().unwrap().entry(event["of"].as_str().unwrap().to_owned()).or_default() += 1;
    }
}

/// Maximum rounds of an idle loop while [`QUESTIONS`] are answered: one for its own interval, and others for the
/// last line of a log. A spinning loop begins thousands.
const RESTING_ROUNDS: u64 = 3;
/// Unit of time: this many requests, one after the other.
const QUESTIONS: usize = 100;
/// A loop that depends on the clock alone, and its pause: it begins one round per pause.
const CLOCKED: (&str, Duration) = ("statistics", Duration::from_millis(500));
/// Maximum units until a busy loop rests.
const MEASURES: usize = 300;
/// Waits until all loops rest.
pub(crate) async fn rests(health: &str, after: &str, rounds: impl Fn() -> BTreeMap<String, u64>) {
    let client = reqwest::Client::new();
    let (mut busy, mut last) = (Vec::new(), rounds());
    for _ in 0..MEASURES {
        let since = Instant::now();
        for _ in 0..QUESTIONS {
            client.get(health).send().await.unwrap();
        }
        let now = rounds();
        assert!(now.contains_key("deliveries"), "the rounds are reported");
        let begun = |name: &String| now[name] - last.get(name).copied().unwrap_or_default();
        let by_the_clock = u64::try_from(since.elapsed().as_millis() / CLOCKED.1.as_millis()).unwrap();
        let most = |name: &str| RESTING_ROUNDS + if name == CLOCKED.0 { by_the_clock } else { 0 };
        busy = now.keys().filter(|name| begun(name) > most(name)).cloned().collect();
        if busy.is_empty() {
            return;
        }
        last = now;
    }
    panic!("after {after}, these loops do not rest: {busy:?}");
}

/// Time limit of an SMTP or IMAP client for each response.
const DIALOGUE_PATIENCE: Duration = Duration::from_secs(120);

/// An SMTP or IMAP client that sends one line at a time.
pub(crate) struct Dialogue(BufReader<TcpStream>);

impl Dialogue {
    pub(crate) fn begin(address: &str, greeting: &str) -> Self {
        let mut dialogue = Self(BufReader::new(TcpStream::connect(address).unwrap()));
        dialogue.0.get_ref().set_read_timeout(Some(DIALOGUE_PATIENCE)).unwrap();
        dialogue.hear(greeting);
        dialogue
    }

    /// Sends a line, and waits for the response with this prefix.
    pub(crate) fn say(&mut self, line: &str, answer: &str) {
        self.write(format!("{line}\r\n").as_bytes());
        self.hear(answer);
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Reads the last line of a response.
    pub(crate) fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the connection ended before a response");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line;
            }
        }
    }

    /// Reads up to the line with this prefix; earlier lines are parts of a response (`250-`) or untagged (`*`).
    pub(crate) fn hear(&mut self, wanted: &str) {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.starts_with(wanted) {
                return;
            }
            assert!(line.as_bytes().get(3) == Some(&b'-') || line.starts_with("* "), "{line:?} instead of {wanted}");
        }
    }
}
