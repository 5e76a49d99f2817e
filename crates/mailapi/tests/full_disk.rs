//! A full disk: deletions work, and everything works again after the disk has room.
//!
//! The data directory is on a small file system in a mount namespace of its own.

mod support;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mailapi_testkit::Answer;
use serde_json::Value;
use support::{Dialogue, Server, WorkDir};

/// The time within which the server notices a change of the disk.
const SOON: Duration = Duration::from_secs(30);
/// Size of the file system in MiB.
const DISK_MIB: u32 = 72;
/// Lines of a message of about a megabyte.
const LINES: usize = 13_000;
/// Size of the whole reserve.
const RESERVE: u64 = 16 * 1024 * 1024;
/// Size of the file that the operator removes: room for the reserve and for mail.
const FILLER_MIB: usize = 28;
const PASSWORD: &str = "a long enough password";

/// A machine whose small disk is mounted over the working directory.
struct SmallDisk {
    work_dir: WorkDir,
    namespace: Child,
}

impl SmallDisk {
    /// Returns `None` where namespaces cannot be made.
    fn new() -> Option<Self> {
        let work_dir = WorkDir::new();
        let mount = format!("mount -t tmpfs -o size={DISK_MIB}m tmpfs \"$1\" && echo ready && exec sleep 600");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &mount, "sh"]).arg(work_dir.path());
        let mut namespace = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(namespace.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let disk = Self { work_dir, namespace };
        (line == "ready\n").then_some(disk)
    }

    /// Returns the path of a file on the disk, from outside.
    fn path(&self, name: &str) -> PathBuf {
        let path = self.work_dir.path().join(name);
        PathBuf::from(format!("/proc/{}/root{}", self.namespace.id(), path.display()))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let inner = self.work_dir.command(arguments);
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.namespace.id()));
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(self.work_dir.path());
        command.arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    fn run(&self, arguments: &[&str], input: &str) -> support::Answer {
        support::Answer::of_command(self.command(arguments), input)
    }

    fn serve(&self) -> Server {
        let mut server = Server::start(self.command(&["serve", "--log-format", "json"]));
        server.drain();
        server
    }

    /// Takes all room that is left, down to the last byte.
    fn fill(&self, name: &str) {
        let mut file = std::fs::File::create(self.path(name)).unwrap();
        for size in [1 << 20, 4096, 1] {
            while std::io::Write::write_all(&mut file, &vec![b'x'; size]).is_ok() {}
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

/// Sends a message of a megabyte; returns the reply to its data.
fn send(server: &Server, to: &str) -> String {
    let mut client = Dialogue::begin(server.running["smtp"].as_str().unwrap(), "220");
    client.say("EHLO elsewhere.example", "250 ");
    client.say("MAIL FROM:<carl@elsewhere.example>", "250");
    client.say(&format!("RCPT TO:<{to}>"), "250");
    client.say("DATA", "354");
    let line = format!("{}\r\n", "x".repeat(76));
    // Each message differs, so that none is stored once for several mailboxes.
    static SENT: AtomicUsize = AtomicUsize::new(0);
    let id = SENT.fetch_add(1, Ordering::Relaxed);
    client.write(
        format!("Subject: big {id}\r\nFrom: carl@elsewhere.example\r\n\r\n{}.\r\n", line.repeat(LINES)).as_bytes(),
    );
    client.reply()
}

fn fill_mailboxes(server: &Server) -> usize {
    for number in 0.. {
        let reply = send(server, ["ann@example.org", "bob@example.org", "cid@example.org"][number % 3]);
        if !reply.starts_with("250") {
            assert!(reply.starts_with("452 4.3.1 "), "{reply}");
            return number;
        }
        assert!(number < 200, "the disk is never full");
    }
    unreachable!()
}

async fn database_health(server: &Server) -> (u16, String) {
    let answer = reqwest::get(server.api("/health").replace("/api/v1/", "/")).await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["checks"]["database"].as_str().unwrap().to_owned())
}

async fn until_health(disk: &SmallDisk, server: &Server, expected: (u16, &str)) {
    let began = Instant::now();
    loop {
        let found = database_health(server).await;
        if (found.0, found.1.as_str()) == expected {
            return;
        }
        assert!(began.elapsed() < SOON, "{found:?} {}", disk.run(&["doctor"], "").stdout);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Takes the room that the server and commands give back when they empty the log, until there is none.
async fn fill_until_full(disk: &SmallDisk, server: &Server) {
    let began = Instant::now();
    for number in 0.. {
        disk.fill(&format!("filler-{number}"));
        let doctor = disk.run(&["doctor"], "").stdout;
        let health = database_health(server).await;
        if health == (503, "disk_full".to_owned()) && doctor.contains("WRONG  disk: full") {
            assert!(doctor.contains("mailapi user remove"), "{doctor}");
            return;
        }
        assert!(began.elapsed() < SOON, "{health:?} {doctor}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Removes the other files; then the server stores mail and keeps the reserve, without a restart.
async fn make_room(disk: &SmallDisk, server: &Server) {
    for file in std::fs::read_dir(disk.path("")).unwrap() {
        let file = file.unwrap();
        if file.file_name().to_string_lossy().starts_with("filler") {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    until_health(disk, server, (200, "ok")).await;
    let reply = send(server, "dan@example.org");
    assert!(reply.starts_with("250"), "{reply}");
    let reserve = disk.path("mailapi-data/mailapi.db-reserve").metadata().unwrap();
    assert_eq!(reserve.len(), RESERVE);
}

fn expunge(server: &Server, user: &str) {
    let mut client = Dialogue::begin(server.running["imap"].as_str().unwrap(), "* OK");
    client.say(&format!("a LOGIN {user} \"{PASSWORD}\""), "a OK");
    client.say("b SELECT INBOX", "b OK");
    client.say("c STORE 1:* +FLAGS.SILENT (\\Deleted)", "c OK");
    client.say("d EXPUNGE", "d OK");
}

fn list_users(disk: &SmallDisk) {
    let users = disk.run(&["user", "list"], "");
    assert!(users.code == Some(0) && users.stdout.contains("ann@example.org"), "{users:?}");
}

/// Logs in to the console, where mail can be deleted.
async fn log_in(server: &Server, user: &str) {
    let credentials = serde_json::json!({ "email": user, "password": PASSWORD });
    let request = reqwest::Client::new().post(server.api("/auth/login")).json(&credentials);
    assert_eq!(Answer::of(request).await.expect(200)["success"], true);
}

/// Sends a message that the disk has no room for.
async fn fail_to_send(server: &Server, token: &str) {
    let text = "x".repeat(6 << 20);
    let message = serde_json::json!({
        "from": "ann@example.org", "to": ["dan@example.org"], "subject": "Big", "body": { "text": text },
    });
    let request = reqwest::Client::new().post(server.api("/mail/send")).header("X-MAILAPI-TOKEN", token).json(&message);
    assert_eq!(Answer::of(request).await.error(), (503, "SERVICE_UNAVAILABLE".to_owned()));
}

async fn purge(server: &Server, token: &str, mailbox: &str) {
    let path = server.api(&format!("/users/{mailbox}/purge"));
    let request = reqwest::Client::new().delete(path).header("X-MAILAPI-TOKEN", token);
    let purged = Answer::of(request).await.expect(200);
    assert!(purged["messages_removed"].as_u64().unwrap() > 0, "{purged}");
}

/// Makes four users, and fills the disk with mail for three of them and with a file. Returns `None` if no small disk can
/// be mounted here.
fn full_disk() -> Option<(SmallDisk, Server, String)> {
    let disk = SmallDisk::new()?;
    disk.run(&["domain", "add", "example.org", "--init"], "").answer();
    for name in ["ann", "bob", "cid", "dan"] {
        disk.run(&["user", "add", &format!("{name}@example.org")], &format!("{PASSWORD}\n")).answer();
    }
    let server = disk.serve();
    let token = std::fs::read_to_string(disk.path("mailapi-data/admin-token")).unwrap().trim().to_owned();
    std::fs::write(disk.path("filler-first"), vec![b'x'; FILLER_MIB << 20]).unwrap();
    assert!(fill_mailboxes(&server) > 3, "the reserve is a part of the disk only");
    disk.fill("filler");
    Some((disk, server, token))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_on_a_full_disk_make_room() {
    let Some((disk, server, token)) = full_disk() else { return };
    fill_until_full(&disk, &server).await;
    list_users(&disk);
    log_in(&server, "ann@example.org").await;
    expunge(&server, "bob@example.org");
    purge(&server, &token, "ann@example.org").await;
    let removed = disk.run(&["user", "remove", "cid@example.org", "--yes"], "");
    assert_eq!(removed.code, Some(0), "{removed:?}");
    make_room(&disk, &server).await;
    assert_eq!(server.stop("TERM").0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_on_a_full_disk_and_deletes_there() {
    let Some((disk, server, token)) = full_disk() else { return };
    assert_eq!(server.stop("TERM").0, Some(0));
    // The server has given back the room of its log.
    disk.fill("filler-after-the-stop");
    list_users(&disk);
    let server = disk.serve();
    fill_until_full(&disk, &server).await;
    fail_to_send(&server, &token).await;
    purge(&server, &token, "ann@example.org").await;

    fill_until_full(&disk, &server).await;
    server.kill();
    disk.fill("filler-after-the-kill");
    let server = disk.serve();
    expunge(&server, "bob@example.org");
    make_room(&disk, &server).await;
    assert_eq!(server.stop("TERM").0, Some(0));
}
