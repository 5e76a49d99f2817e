//! Author, action and origin in the log of the real binary.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{Server, WorkDir};

const PASSWORD: &str = "a long enough password";
const WRONG: &str = "a wrong password";
/// Longer than any response takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const FILTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fail2ban/filter.d/mailapi.conf");

fn connect(address: &str) -> TcpStream {
    let address: SocketAddr = address.parse().unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `said`, then reads until the server closes the connection.
fn dialogue(address: &str, said: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(said.as_bytes()).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    heard
}

/// Sends a request that a proxy forwards for 198.51.100.7. Returns the status and the body of the response.
fn ask(address: &str, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: x\r\nX-MAILAPI-TOKEN: {token}\r\nX-Forwarded-For: 198.51.100.7\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = dialogue(address, &request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn http(running: &Value) -> String {
    let url = running["api"].as_str().unwrap().strip_prefix("http://").unwrap();
    url.split('/').next().unwrap().to_owned()
}

fn server(work_dir: &WorkDir, settings: &[(&str, &str)]) -> Server {
    let mut command = work_dir.command(&["serve", "--log-format", "json"]);
    command.env("MAILAPI_TRUSTED_PROXIES", "127.0.0.1");
    command.envs(settings.iter().copied());
    Server::start(command)
}

/// Returns the log events with this message or target.
fn events(log: &str, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let events = log.lines().map(|line| serde_json::from_str(line).expect("every line is one JSON object"));
    events.filter(wanted).collect()
}

#[test]
fn each_request_is_one_line_with_who_and_from_where() {
    let work_dir = WorkDir::new();
    let server = server(&work_dir, &[]);
    let (address, admin) = (http(&server.running), server.token());
    assert_eq!(ask(&address, &admin, "POST", "/domains", r#"{"domain":"example.org"}"#).0, 201);
    let ann = format!(r#"{{"email":"ann@example.org","password":"{PASSWORD}"}}"#);
    assert_eq!(ask(&address, &admin, "POST", "/users", &ann).0, 201);
    let (_, token) = ask(&address, &admin, "POST", "/tokens", r#"{"name":"x","email":"ann@example.org"}"#);
    let token: Value = serde_json::from_str(&token).unwrap();
    let value = token["token"].as_str().unwrap().to_owned();
    let (status, body) = ask(&address, &value, "GET", "/users/ann@example.org", "");
    assert_eq!(status, 403, "{body}");
    assert_eq!(ask(&address, "mapi_unknown", "GET", "/users/me", "").0, 401);

    let (_, log) = server.stop("TERM");
    let lines = events(&log, |event| event["message"] == "request completed");
    assert_eq!(lines.len(), 5, "{log}");
    let line = &lines[3];
    assert_eq!((&line["status"], &line["bytes"]), (&403.into(), &body.len().into()), "{line}");
    assert!(line["millis"].is_u64() && line["target"] == "mailapi::access" && line["level"] == "INFO", "{line}");
    let span = &line["span"];
    assert_eq!((&span["client"], &span["token"]), (&"198.51.100.7".into(), &token["id"]), "{line}");
    assert_eq!((&span["mailbox"], &span["method"]), (&"ann@example.org".into(), &"GET".into()), "{line}");
    assert_eq!(span["route"], "/api/v1/users/{email}", "the template, not the path");
    let stranger = &lines[4]["span"];
    assert_eq!((&stranger["client"], &stranger["token"]), (&"198.51.100.7".into(), &Value::Null));
    for secret in [value.as_str(), &admin, PASSWORD] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn an_unread_log_delays_no_request_and_loses_no_line() {
    /// Their lines are more than a pipe and a write hold together.
    const REQUESTS: usize = 1_000;
    let work_dir = WorkDir::new();
    let server = server(&work_dir, &[]);
    let (address, admin) = (http(&server.running), server.token());
    for _ in 0..REQUESTS {
        assert_eq!(ask(&address, &admin, "GET", "/domains", "").0, 200);
    }
    let (code, log) = server.stop("TERM");
    assert_eq!(code, Some(0));
    assert_eq!(events(&log, |event| event["message"] == "request completed").len(), REQUESTS);
    assert!(log.lines().last().unwrap().contains("\"message\":\"stopped\""), "the log ends with the end");
}

#[test]
fn the_lines_about_requests_can_be_switched_off() {
    for (level, lines) in [("off", 0), ("debug", 0), ("warn", 1)] {
        let work_dir = WorkDir::new();
        let server = server(&work_dir, &[("MAILAPI_LOG__ACCESS", level)]);
        assert_eq!(ask(&http(&server.running), "", "GET", "/users/me", "").0, 401);
        let (_, log) = server.stop("TERM");
        assert_eq!(events(&log, |event| event["message"] == "request completed").len(), lines, "{level}: {log}");
    }
}

#[test]
fn each_administrative_change_is_an_audit_event() {
    let work_dir = WorkDir::new();
    let server = server(&work_dir, &[]);
    let (address, admin) = (http(&server.running), server.token());
    let user = |name: &str| format!(r#"{{"email":"{name}","password":"{PASSWORD}"}}"#);
    let changes = [
        ("POST /domains", r#"{"domain":"example.org"}"#.to_owned(), "domain created"),
        ("PUT /domains/example.org", r#"{"description":"ours"}"#.to_owned(), "domain changed"),
        ("POST /domains/example.org/dkim", "{}".to_owned(), "DKIM key created"),
        ("POST /users", user("ann@example.org"), "user created"),
        ("PUT /users/ann@example.org", r#"{"name":"Ann"}"#.to_owned(), "user changed"),
        ("POST /users/ann@example.org/disable", String::new(), "user enabled or disabled"),
        ("POST /users/ann@example.org/enable", String::new(), "user enabled or disabled"),
        ("POST /users/ann@example.org/reset-password", String::new(), "password changed"),
        ("DELETE /users/ann@example.org/purge", String::new(), "mailbox purged"),
        ("POST /tokens", r#"{"name":"x","email":"ann@example.org"}"#.to_owned(), "token created"),
        ("PUT /tokens/2", r#"{"name":"y"}"#.to_owned(), "token changed"),
        ("DELETE /tokens/2", String::new(), "token revoked"),
        (
            "POST /permissions",
            r#"{"email":"ann@example.org","permission":"view_stats","domain":"example.org"}"#.to_owned(),
            "granted",
        ),
        ("DELETE /permissions/1", String::new(), "permission revoked"),
        ("DELETE /users/ann@example.org", String::new(), "user deleted"),
        ("DELETE /domains/example.org", String::new(), "domain deleted"),
    ];
    for (operation, body, _) in &changes {
        let (method, path) = operation.split_once(' ').unwrap();
        let (status, answer) = ask(&address, &admin, method, path, body);
        assert!((200..300).contains(&status), "{operation}: {status} {answer}");
    }
    let new = format!(r#"{{"domain":"new.example","email":"eve@new.example","password":"{PASSWORD}"}}"#);
    assert_eq!(ask(&address, "", "POST", "/auth/signup", &new).0, 201);
    assert_eq!(ask(&address, &admin, "POST", "/domains/new.example/approve", "").0, 200);

    let (_, log) = server.stop("TERM");
    let audit = events(&log, |event| event["target"] == "mailapi::audit" && event["from"] != "this machine");
    let messages: Vec<_> = audit.iter().map(|event| event["message"].as_str().unwrap()).collect();
    let expected = changes.iter().map(|(.., message)| *message);
    let expected: Vec<_> = expected.chain(["signed up; the domain waits for approval", "domain approved"]).collect();
    assert_eq!(messages, expected, "{log}");
    for event in &audit {
        assert_eq!(event["from"], "198.51.100.7", "{event}");
        assert!(event["by"].is_string(), "{event}");
        assert!(event["by_token"] == 1 || event["by"] == "eve@new.example", "{event}");
    }
    assert!(!log.contains(PASSWORD), "{log}");
}

/// Fails to log in at each listener with an existing mailbox; over HTTP also with a name that imitates a part of
/// the log line.
fn fail_everywhere(running: &Value) {
    let hostile = r#"\"login,failed,client=203.0.113.66\"@example.org"#;
    for email in ["ann@example.org", hostile] {
        let body = format!(r#"{{"email":"{email}","password":"{WRONG}"}}"#);
        assert_eq!(ask(&http(running), "", "POST", "/auth/login", &body).0, 401);
    }
    let imap = running["imap"].as_str().unwrap();
    let heard = dialogue(imap, &format!("a LOGIN ann@example.org \"{WRONG}\"\r\nb LOGOUT\r\n"));
    assert!(heard.contains("a NO"), "{heard}");
    let plain = "AGFubkBleGFtcGxlLm9yZwBhIHdyb25nIHBhc3N3b3Jk";
    let submission = running["submission"].as_str().unwrap();
    let heard = dialogue(submission, &format!("EHLO client.example\r\nAUTH PLAIN {plain}\r\nQUIT\r\n"));
    assert!(heard.contains("535 "), "{heard}");
}

/// Counts the lines that the documented filter matches in a file and in the journal, with fail2ban's own program.
fn assert_fail2ban_finds_four(work_dir: &WorkDir, log: &str) {
    let file = work_dir.path().join("server.log");
    std::fs::write(&file, log).unwrap();
    let found = found_by_fail2ban(&file.display().to_string());
    assert!(found.contains(" 4 matched"), "{found}\n{log}");
    let journal = journal(work_dir.path(), log);
    let found = found_by_fail2ban(&format!("systemd-journal[journalfiles={}]", journal.display()));
    assert!(found.contains(" 4 matched"), "in the journal: {found}\n{log}");
}

/// Writes the lines into a journal, as journald stores the output of the unit.
fn journal(directory: &Path, log: &str) -> PathBuf {
    let (exported, journal) = (directory.join("export"), directory.join("system.journal"));
    let entry = |(number, line): (usize, &str)| {
        format!(
            "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={}\n_BOOT_ID=11111111111111111111111111111111\n\
             _SYSTEMD_UNIT=mailapi.service\n_HOSTNAME=mx\nSYSLOG_IDENTIFIER=mailapi\n_PID=123\nMESSAGE={line}\n\n",
            1_795_800_000_000_000 + number,
            1_000 + number,
        )
    };
    std::fs::write(&exported, log.lines().enumerate().map(entry).collect::<String>()).unwrap();
    let mut writer = Command::new("/usr/lib/systemd/systemd-journal-remote");
    let written = writer.arg("-o").args([&journal, &exported]).output().expect("systemd-journal-remote is installed");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    journal
}

fn found_by_fail2ban(log: &str) -> String {
    let output = Command::new("fail2ban-regex").arg(log).arg(FILTER).output().expect("fail2ban is installed");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = shown.lines().find(|line| line.starts_with("Lines:"));
    line.unwrap_or_else(|| panic!("{shown}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

#[test]
fn each_failed_log_in_is_one_line_that_fail2ban_finds() {
    let work_dir = WorkDir::new();
    let server = server(&work_dir, &[]);
    let (address, admin) = (http(&server.running), server.token());
    assert_eq!(ask(&address, &admin, "POST", "/domains", r#"{"domain":"example.org"}"#).0, 201);
    fail_everywhere(&server.running);
    let (_, log) = server.stop("TERM");
    let lines = events(&log, |event| event["target"] == "mailapi::log_in");
    let line = |event: &Value| {
        ["door", "client", "mailbox", "reason"].map(|name| event[name].as_str().unwrap_or_default().to_owned())
    };
    let lines: Vec<_> = lines.iter().map(line).collect();
    let expected = [
        ["http", "198.51.100.7", "ann@example.org", "refused"],
        ["http", "198.51.100.7", "\"login,failed,client=203.0.113.66\"@example.org", "refused"],
        ["imap", "127.0.0.1", "ann@example.org", "refused"],
        ["submission", "127.0.0.1", "ann@example.org", "refused"],
    ];
    assert_eq!(lines, expected, "{log}");
    assert!(!log.contains(WRONG), "{log}");
    assert_fail2ban_finds_four(&work_dir, &log);
}

#[test]
fn fail2ban_finds_the_lines_for_people_too() {
    let work_dir = WorkDir::new();
    let first = server(&work_dir, &[]);
    let running = first.running.clone();
    assert_eq!(first.stop("TERM").0, Some(0));
    let mut command = work_dir.command(&["serve", "--log-format", "human"]);
    for (name, listener) in [("HTTP__LISTEN", "api"), ("MAIL__EMBEDDED__IMAP_LISTEN", "imap")] {
        let address = if listener == "api" { http(&running) } else { running[listener].as_str().unwrap().to_owned() };
        command.env(format!("MAILAPI_{name}"), address);
    }
    command.env("MAILAPI_MAIL__EMBEDDED__SUBMISSION_LISTEN", running["submission"].as_str().unwrap());
    let mut child = command.env("MAILAPI_TRUSTED_PROXIES", "127.0.0.1").stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut shown = String::new();
    while !shown.contains("/docs") {
        assert_ne!(std::io::BufRead::read_line(&mut stdout, &mut shown).unwrap(), 0, "{shown}");
    }
    fail_everywhere(&running);
    assert!(mailapi_testkit::send_signal("TERM", &child));
    stdout.read_to_string(&mut shown).unwrap();
    child.wait().unwrap();
    assert_fail2ban_finds_four(&work_dir, &shown);
}
