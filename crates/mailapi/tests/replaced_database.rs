//! A database file that is replaced while a server has it open. The mail that was answered is never lost.

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Answer, Dialogue, Server, WorkDir};

/// Messages that the server accepts before its file is replaced.
const MESSAGES: i64 = 10;

/// Every command that opens the database.
const COMMANDS: &[&[&str]] = &[
    &["serve"],
    &["migrate"],
    &["domain", "list"],
    &["domain", "add", "example.net"],
    &["user", "list"],
    &["user", "add", "cid@example.org"],
    &["user", "import", "users.csv"],
    &["user", "remove", "ann@example.org", "--yes"],
    &["alias", "list"],
    &["token", "list"],
    &["webhook", "list"],
    &["events"],
    &["queue", "list"],
    &["import", "ann@example.org", "mbox", "mail.mbox"],
    &["export", "ann@example.org", "maildir", "exported"],
    &["backup", "backups"],
    &["restore", "kept"],
];

/// A server that has accepted some messages, and an older database.
struct Fixture {
    work_dir: WorkDir,
    server: Server,
}

impl Fixture {
    fn new() -> Self {
        let work_dir = WorkDir::new();
        work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
        work_dir.run_with_input(&["user", "add", "ann@example.org"], "a long enough password\n").answer();
        for (name, text) in [("users.csv", "email\n"), ("mail.mbox", "From x Thu Jan  1 00:00:00 1970\n\nHi\n")] {
            std::fs::write(work_dir.path().join(name), text).unwrap();
        }
        std::fs::copy(work_dir.data().join("mailapi.db"), work_dir.path().join("older.db")).unwrap();
        assert_eq!(work_dir.run(&["backup", "kept"]).code, Some(0));
        let server = work_dir.serve();
        let fixture = Self { work_dir, server };
        fixture.receive_mail();
        fixture
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.work_dir.data().join(format!("mailapi.db{suffix}"))
    }

    fn receive_mail(&self) {
        let mut client = Dialogue::begin(self.server.running["smtp"].as_str().unwrap(), "220");
        client.say("EHLO elsewhere.example", "250 ");
        for number in 1..=MESSAGES {
            client.say("MAIL FROM:<bob@elsewhere.example>", "250");
            client.say("RCPT TO:<ann@example.org>", "250");
            client.say("DATA", "354");
            client.say(&format!("Subject: mail {number}\r\nFrom: bob@elsewhere.example\r\n\r\nHello\r\n."), "250");
        }
    }

    /// Puts the older database in place of the open one, which is moved to `former`, or removed.
    fn replace(&self, former: Option<&Path>) {
        if let Some(former) = former {
            std::fs::rename(self.file(""), former).unwrap();
        }
        let new = self.file(".new");
        std::fs::copy(self.work_dir.path().join("older.db"), &new).unwrap();
        std::fs::rename(new, self.file("")).unwrap();
    }

    /// Runs every command. Each is refused, and changes neither the new file nor the server's log.
    fn try_commands(&self) {
        // The server itself writes at any time.
        let stopped = self.server.stop_for_a_while();
        let (database, log) = (read(&self.file("")), read(&self.file("-wal")));
        assert!(!log.is_empty(), "the server has not written its log into the former file");
        for arguments in COMMANDS {
            let complaint = self.work_dir.run(arguments).complaint();
            assert!(complaint.contains(&format!("process {}", self.server.id())), "{arguments:?}: {complaint}");
            if !["serve", "restore"].contains(&arguments[0]) {
                assert!(complaint.contains("first stop the server"), "{arguments:?}: {complaint}");
            }
            assert!(read(&self.file("")) == database, "{arguments:?} changed the new file");
            assert!(read(&self.file("-wal")) == log, "{arguments:?} changed the log");
        }
        drop(stopped);
        let doctor = self.work_dir.run(&["doctor"]);
        assert_ne!(doctor.code, Some(0));
        assert!(doctor.stdout.contains("WRONG  database: "), "{doctor:?}");
        assert!(doctor.stdout.contains("to fix it: put the former file back"), "{doctor:?}");
    }
}

fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap_or_default()
}

/// Counts the messages from outside in a database that no server has open.
fn received(file: &Path) -> i64 {
    let database = rusqlite::Connection::open(file).unwrap();
    let check: String = database.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok", "{}", file.display());
    let sql = "SELECT COUNT(*) FROM drop_messages";
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

async fn health(server: &Server) -> (u16, String) {
    let answer = reqwest::get(server.api("/health").replace("/api/v1/", "/")).await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["checks"]["database"].as_str().unwrap().to_owned())
}

#[test]
fn a_second_server_on_the_same_database_is_refused() {
    let fixture = Fixture::new();
    let expect_refusal = |complaint: String| {
        assert!(complaint.contains("another server is running on the database"), "{complaint}");
    };
    // With a data directory of its own.
    let mut elsewhere = fixture.work_dir.command(&["serve"]);
    elsewhere.env("MAILAPI_DATA_DIR", fixture.work_dir.path().join("elsewhere"));
    elsewhere.env("MAILAPI_DATABASE__URL", format!("sqlite:{}", fixture.file("").display()));
    expect_refusal(Answer::of_command(elsewhere, "").complaint());
    // After the file of the lock was moved.
    std::fs::rename(fixture.work_dir.data().join("mailapi.lock"), fixture.work_dir.path().join("moved.lock")).unwrap();
    expect_refusal(fixture.work_dir.run(&["serve"]).complaint());
    // The first server goes on, and after its end the next one starts.
    fixture.receive_mail();
    let Fixture { work_dir, server } = fixture;
    assert_eq!(server.stop("TERM").0, Some(0));
    assert_eq!(received(&work_dir.data().join("mailapi.db")), 2 * MESSAGES);
    assert_eq!(work_dir.serve().stop("TERM").0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_moved_is_completed_where_it_is() {
    let fixture = Fixture::new();
    let former = fixture.work_dir.path().join("former.db");
    fixture.replace(Some(&former));
    fixture.try_commands();
    assert_eq!(health(&fixture.server).await, (503, "moved".to_owned()));
    let new = read(&fixture.file(""));
    let Fixture { work_dir, server } = fixture;
    let (code, log) = server.stop("TERM");
    assert_eq!(code, Some(0));
    assert!(log.contains("former.db"), "the log names the former file: {log}");
    assert_eq!(received(&former), MESSAGES);
    assert!(read(&work_dir.data().join("mailapi.db")) == new, "the new file is as it was put there");
    // Nothing of the former file is left beside the new one.
    work_dir.run(&["user", "list"]).answer();
    assert_eq!(received(&work_dir.data().join("mailapi.db")), 0);
}

#[test]
fn a_file_that_was_removed_is_written_beside_the_new_one() {
    let fixture = Fixture::new();
    fixture.replace(None);
    fixture.try_commands();
    let Fixture { work_dir, server } = fixture;
    let (code, log) = server.stop("TERM");
    assert_eq!(code, Some(0));
    assert!(log.contains("mailapi.db.former"), "the log names the copy: {log}");
    assert_eq!(received(&work_dir.data().join("mailapi.db.former")), MESSAGES);
    work_dir.run(&["user", "list"]).answer();
    assert_eq!(received(&work_dir.data().join("mailapi.db")), 0);
}

#[test]
fn the_log_of_a_killed_server_belongs_to_the_former_file() {
    let fixture = Fixture::new();
    let former = fixture.work_dir.path().join("former.db");
    fixture.replace(Some(&former));
    let new = read(&fixture.file(""));
    let Fixture { work_dir, server } = fixture;
    server.kill();
    let file = |suffix: &str| work_dir.data().join(format!("mailapi.db{suffix}"));
    // The record of the server that was killed outlives a refused start.
    for arguments in
        [["serve", "--log-format=json"], ["serve", "--log-format=json"], ["user", "list"], ["backup", "backups"]]
    {
        let complaint = work_dir.run(&arguments).complaint();
        assert!(complaint.contains("mailapi.db was replaced"), "{arguments:?}: {complaint}");
        assert!(read(&file("")) == new, "{arguments:?}");
    }
    std::fs::rename(file("-wal"), work_dir.path().join("former.db-wal")).unwrap();
    work_dir.run(&["user", "list"]).answer();
    assert_eq!((received(&former), received(&file(""))), (MESSAGES, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_taken_away_is_written_by_the_server_alone() {
    for suffix in ["-wal", "-shm"] {
        let fixture = Fixture::new();
        let elsewhere = fixture.work_dir.path().join("elsewhere");
        std::fs::rename(fixture.file(suffix), &elsewhere).unwrap();
        for replaced in [false, true] {
            if replaced {
                std::fs::copy(&elsewhere, fixture.file(suffix)).unwrap();
            }
            let complaint = fixture.work_dir.run(&["user", "list"]).complaint();
            assert!(complaint.contains(&format!("mailapi.db{suffix} is not the file")), "{complaint}");
        }
        assert_eq!(health(&fixture.server).await, (503, "moved".to_owned()), "{suffix}");
        let Fixture { work_dir, server } = fixture;
        assert_eq!(server.stop("TERM").0, Some(0));
        assert_eq!(received(&work_dir.data().join("mailapi.db")), MESSAGES, "{suffix}");
        work_dir.run(&["user", "list"]).answer();
    }
}

#[test]
fn commands_beside_a_start_or_a_stop_are_not_refused() {
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    for _ in 0..5 {
        let server = work_dir.serve();
        work_dir.run(&["user", "list"]).answer();
        server.signal("TERM");
        let mut commands = Vec::new();
        for _ in 0..4 {
            commands.push(work_dir.command(&["user", "list"]).stdout(std::process::Stdio::null()).spawn().unwrap());
        }
        assert!(commands.iter_mut().all(|command| command.wait().unwrap().success()));
        assert_eq!(server.wait().0, Some(0));
    }
}
