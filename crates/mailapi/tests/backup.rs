//! `mailapi backup` beside a running server, and `mailapi restore` elsewhere.

mod support;

use std::collections::{BTreeMap, HashSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Client;
use serde_json::{Value, json};
use support::{Answer, Server, WorkDir};
use tokio::sync::mpsc;

/// A running server with the users Ann and Bob, and a directory for backups.
struct Host {
    work_dir: WorkDir,
    server: Server,
    client: Client,
    token: String,
}

impl Host {
    async fn new() -> Self {
        let work_dir = WorkDir::new();
        let mut server = work_dir.serve();
        server.drain();
        let host = Self { client: Client::new(), token: server.token(), work_dir, server };
        host.post("/domains", json!({ "domain": "example.org" })).await;
        for name in ["ann", "bob"] {
            host.post("/users", json!({ "email": format!("{name}@example.org"), "password": "correct horse" })).await;
        }
        host
    }

    fn backups(&self) -> String {
        self.work_dir.path().join("backups").to_str().unwrap().to_owned()
    }

    /// Makes a backup; returns what the command printed.
    fn backup(&self, options: &[&str]) -> String {
        self.work_dir.run(&[&["backup", &self.backups()], options].concat()).answer()
    }

    /// Kills the server, and starts another one on a restored backup in another directory.
    fn restored(self, options: &[&str]) -> (Self, WorkDir) {
        let (backups, Self { work_dir: first, server, client, token }) = (self.backups(), self);
        server.kill();
        let work_dir = WorkDir::new();
        work_dir.run(&[&["restore", &backups], options].concat()).answer();
        let mut server = work_dir.serve();
        assert_eq!(server.first_start, None, "the admin token is in the backup");
        server.drain();
        (Self { work_dir, server, client, token }, first)
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, body) = post(&self.client, &self.server.api(path), &self.token, body).await.unwrap();
        assert!((200..300).contains(&status), "{path}: {body}");
        body
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.client.get(self.server.api(path)).header("X-MAILAPI-TOKEN", &self.token);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.json().await.unwrap()
    }

    async fn send(&self, text: &str) -> String {
        sent_id(&self.post("/mail/send", message(text)).await)
    }

    /// Returns all items of a list.
    async fn all(&self, path: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let page = self.get(&format!("{path}?limit=200&offset={}", all.len())).await;
            all.extend(page["messages"].as_array().unwrap().iter().cloned());
            if all.len() as u64 >= page["total"].as_u64().unwrap() {
                return all;
            }
        }
    }
}

async fn post(client: &Client, url: &str, token: &str, body: Value) -> reqwest::Result<(u16, Value)> {
    let answer = client.post(url).header("X-MAILAPI-TOKEN", token).json(&body).send().await?;
    Ok((answer.status().as_u16(), answer.json().await?))
}

fn message(text: &str) -> Value {
    json!({ "from": "ann@example.org", "to": ["bob@example.org"], "subject": "Hi", "body": { "text": text } })
}

fn sent_id(answer: &Value) -> String {
    answer["message_id"].as_str().unwrap().to_owned()
}

/// Paths, lengths and modes of all files below a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, (u64, u32)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        if metadata.is_dir() {
            assert_eq!(mode, 0o700, "{}", path.display());
            found.extend(files(&path));
        } else {
            found.insert(path, (metadata.len(), mode));
        }
    }
    found
}

fn total(directory: &Path) -> u64 {
    files(directory).values().map(|(size, _)| size).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsuitable_directories_are_refused() {
    let host = Host::new().await;
    let (backups, data) = (host.backups(), host.work_dir.data());
    let inside = data.join("backups");
    let strange = host.work_dir.path().join("strange");
    std::fs::create_dir(&strange).unwrap();
    std::fs::write(strange.join("file"), "keep me").unwrap();
    let (inside, strange) = (inside.to_str().unwrap(), strange.to_str().unwrap());
    for (arguments, expected) in [
        (&["restore", &backups][..], "No such file or directory"),
        (&["backup", "--verify", strange], "the directory has no backups of mailapi"),
        (&["backup", strange], "the directory is not empty, and has no backups of mailapi"),
        (&["backup", inside], "a backup must be outside the data directory"),
        (&["backup", &backups, "--keep", "0"], "invalid value '0'"),
        (&["backup", &backups, "--keep", "1", "--verify"], "cannot be used with"),
    ] {
        let complaint = host.work_dir.run(arguments).complaint();
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
    host.backup(&[]);
    let restore = |options: &[&str]| host.work_dir.run(&[&["restore", &backups], options].concat()).complaint();
    assert!(restore(&[]).contains("another server (process "), "the server is running");
    let Host { work_dir, server, .. } = host;
    assert_eq!(server.stop("TERM").0, Some(0));
    let before = files(&work_dir.data());
    let complaint = work_dir.run(&["restore", &backups]).complaint();
    assert!(complaint.ends_with("is not empty; nothing was restored"), "{complaint}");
    assert!(files(&work_dir.data()).keys().eq(before.keys()), "nothing was changed");
    let complaint = WorkDir::new().run(&["restore", &backups, "--number", "7"]).complaint();
    assert_eq!(complaint, "there is no backup 7; see --list");
    let mut external = work_dir.command(&["backup", &backups]);
    external.env("MAILAPI_MAIL__BACKEND", "external").env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "secret");
    assert!(Answer::of_command(external, "").complaint().contains("docs/operating.md"));
}

const SENDS: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_before_a_backup_is_restored() {
    let host = Host::new().await;
    let (answers, mut answered) = mpsc::channel(SENDS);
    for number in 0..SENDS {
        let (client, url) = (host.client.clone(), host.server.api("/mail/send"));
        let (token, answers) = (host.token.clone(), answers.clone());
        tokio::spawn(async move {
            if let Ok((202, answer)) = post(&client, &url, &token, message(&"x".repeat(20 * number))).await {
                answers.send(sent_id(&answer)).await.unwrap();
            }
        });
    }
    drop(answers);
    let mut before = HashSet::new();
    while before.len() < SENDS / 4 {
        before.insert(answered.recv().await.unwrap());
    }
    host.get("/mail/delivery-log/sync").await;
    let backup = host.work_dir.command(&["backup", &host.backups()]);
    let backup = tokio::task::spawn_blocking(|| Answer::of_command(backup, "").answer());
    assert!(backup.await.unwrap().starts_with("backup 1: "));
    let (host, _first) = host.restored(&[]);
    host.get("/mail/delivery-log/sync").await;
    let sent = host.all("/mail/sent").await;
    let statuses: BTreeMap<&str, &str> =
        sent.iter().map(|sent| (sent["message_id"].as_str().unwrap(), sent["status"].as_str().unwrap())).collect();
    let inbox = host.all("/mailbox/bob@example.org/messages").await;
    let inbox: HashSet<&str> = inbox.iter().map(|message| message["message_id"].as_str().unwrap()).collect();
    for id in before {
        assert_eq!(statuses.get(id.as_str()), Some(&"sent"), "{id}");
        assert!(inbox.contains(format!("<{id}@example.org>").as_str()), "{id}");
    }
    host.send("and the restored server sends").await;
    let newest = &host.get("/mailbox/bob@example.org/messages?limit=1").await["messages"][0];
    assert!(newest["uid"].as_u64().unwrap() > 1_000_000, "no UID after the backup is used again: {newest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_log_does_not_know_later_cursors() {
    let host = Host::new().await;
    host.send("before the backup").await;
    let known = host.get("/events?after=now").await["cursor"].as_str().unwrap().to_owned();
    host.backup(&[]);
    host.send("after the backup").await;
    let lost = host.get("/events?after=now").await["cursor"].as_str().unwrap().to_owned();
    let (host, _first) = host.restored(&[]);
    // The log of the restored server has other events with these numbers.
    for _ in 0..3 {
        host.send("after the restore").await;
    }
    let after = async |cursor: &str| host.get(&format!("/events?after={cursor}")).await;
    assert_eq!(after(&known).await["truncated"], false);
    let (again, all) = (after(&lost).await, after("start").await);
    assert_eq!(again["truncated"], true);
    assert_eq!(again["events"][0], all["events"][0], "reading goes on at the oldest event");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_code_in_a_backup_is_not_restored() {
    let host = Host::new().await;
    host.send("before the backup").await;
    let file = host.work_dir.data().join("mailapi.db");
    let schema = |file: &Path| -> Vec<(String, String)> {
        let database = rusqlite::Connection::open(file).unwrap();
        let mut rows =
            database.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1").unwrap();
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    let ours = schema(&file);
    let foreign = "
        CREATE TABLE kept (address TEXT);
        CREATE TRIGGER copies AFTER INSERT ON drop_messages BEGIN INSERT INTO kept VALUES ('eve@example.net'); END;
        DROP TRIGGER sent_messages_added;
        CREATE TRIGGER sent_messages_added AFTER INSERT ON sent_messages BEGIN DELETE FROM kept; END;
        DROP VIEW mailapi_credentials;
        CREATE VIEW mailapi_credentials (email, password_hash, active) AS SELECT address, '', TRUE FROM kept;
        CREATE TRIGGER changes INSTEAD OF INSERT ON mailapi_credentials BEGIN DELETE FROM kept; END;
        CREATE VIEW of_the_operator (address) AS SELECT address FROM kept;";
    rusqlite::Connection::open(&file).unwrap().execute_batch(foreign).unwrap();
    host.backup(&[]);
    let backups = host.backups();
    let target = WorkDir::new();
    let answer = target.run(&["restore", &backups]);
    for object in ["trigger changes", "trigger copies", "trigger sent_messages_added", "view mailapi_credentials"] {
        assert!(answer.stderr.contains(&format!("\"object\":\"{object}\"")), "{object}: {}", answer.stderr);
    }
    let restored = schema(&target.data().join("mailapi.db"));
    let others: Vec<&str> = restored.iter().filter(|row| !ours.contains(row)).map(|(name, _)| name.as_str()).collect();
    assert_eq!(others, ["kept", "of_the_operator"], "nothing runs a table or a view of the operator");
    assert!(ours.iter().all(|row| restored.contains(row)), "the triggers and views are those of mailapi again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_backup_writes_only_what_changed() {
    let host = Host::new().await;
    // Attachments are not in the search index, which changes at any time.
    for number in 0..40_u8 {
        let file = STANDARD.encode([number; 80_000]);
        let mut with_file = message("with a file");
        with_file["attachments"] =
            json!([{ "filename": "x", "content_type": "application/octet-stream", "content": file }]);
        host.post("/mail/send", with_file).await;
    }
    host.get("/mail/delivery-log/sync").await;
    assert!(host.backup(&[]).starts_with("backup 1: "));
    let backups = PathBuf::from(host.backups());
    let first = total(&backups);
    assert!(first > 2_000_000, "{first}");
    let old = host.send("a small message").await;
    host.get("/mail/delivery-log/sync").await;
    assert!(host.backup(&[]).starts_with("backup 2: "));
    let second = total(&backups) - first;
    assert!(second < first / 2, "{second} of {first} bytes again");
    let new = host.send("another small message").await;
    assert_eq!(host.backup(&["--keep", "2"]).lines().last(), Some("removed older backups: 1"));
    let listed = host.work_dir.run(&["backup", "--list", &host.backups()]).answer();
    let numbers: Vec<_> = listed.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(numbers, ["2", "3"]);
    assert_eq!(host.work_dir.run(&["backup", "--verify", &host.backups()]).answer().lines().count(), 2);
    let (host, _first) = host.restored(&["--number", "2"]);
    assert_eq!(host.get(&format!("/mail/{old}/status")).await["status"], "sent");
    let later = host.client.get(host.server.api(&format!("/mail/{new}/status"))).header("X-MAILAPI-TOKEN", &host.token);
    assert_eq!(later.send().await.unwrap().status(), 404, "backup 2 is older than this message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_files_are_restored_for_their_owner_alone() {
    let host = Host::new().await;
    let data = host.work_dir.data();
    std::fs::create_dir_all(data.join("acme/ca.example")).unwrap();
    std::fs::set_permissions(data.join("acme"), Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(data.join("acme/ca.example"), Permissions::from_mode(0o700)).unwrap();
    std::fs::write(data.join("acme/ca.example/account.json"), "{}").unwrap();
    std::fs::set_permissions(data.join("acme/ca.example/account.json"), Permissions::from_mode(0o600)).unwrap();
    host.work_dir.run(&["domain", "add", "example.net"]).answer();
    host.backup(&[]);
    assert!(files(Path::new(&host.backups())).values().all(|(_, mode)| *mode == 0o600));
    let saved = files(&data);
    let target = WorkDir::new();
    target.run(&["restore", &host.backups()]).answer();
    let restored = files(&target.data());
    let names: Vec<_> =
        restored.keys().map(|path| path.strip_prefix(target.data()).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["acme/ca.example/account.json", "admin-token", "audit.log", "mailapi.db"]);
    for (name, path) in names.iter().zip(restored.keys()) {
        assert_eq!(restored[path].1, saved[&data.join(name)].1, "{name}");
        let is_same = std::fs::read(path).unwrap() == std::fs::read(data.join(name)).unwrap();
        assert!(is_same || *name == "mailapi.db", "{name}");
    }
}

/// Flips one bit of a file.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_is_found_wherever_it_is() {
    let host = Host::new().await;
    host.backup(&[]);
    let backups = host.backups();
    let verify = || host.work_dir.run(&["backup", "--verify", &backups]);
    for (file, _) in files(Path::new(&backups)).into_iter().filter(|(file, _)| !file.ends_with("mailapi-backups")) {
        damage(&file);
        let complaint = verify().complaint();
        assert!(complaint.starts_with("backup 1: ") && complaint.ends_with("the file is damaged"), "{complaint}");
        let target = WorkDir::new();
        assert!(target.run(&["restore", &backups]).complaint().ends_with("the file is damaged"));
        assert!(!target.data().exists() || files(&target.data()).is_empty(), "nothing is restored");
        damage(&file);
    }
    verify().answer();
    damage(&Path::new(&backups).join("backups/1"));
    // No chunk is removed while a manifest is damaged.
    assert!(
        host.work_dir.run(&["backup", &backups]).stderr.contains("backup 2 is complete; old ones cannot be removed")
    );
    assert!(verify().complaint().starts_with("backup 1: "));
    assert!(host.backup(&["--keep", "1"]).ends_with("removed older backups: 2\n"));
    verify().answer();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_backup_repairs_a_damaged_chunk() {
    let host = Host::new().await;
    host.backup(&[]);
    let chunks = Path::new(&host.backups()).join("chunks");
    let largest = files(&chunks).into_iter().max_by_key(|(_, (size, _))| *size).unwrap().0;
    std::fs::write(&largest, "too short").unwrap();
    let answer = host.work_dir.run(&["backup", &host.backups()]);
    let verified = host.work_dir.run(&["backup", "--verify", &host.backups()]);
    if answer.stderr.contains("were damaged, and were written again") {
        verified.answer();
    } else {
        // The server changed this part of the database meanwhile.
        assert!(verified.complaint().starts_with("backup 1: "), "backup 2 is whole");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_backup_leaves_the_others_usable() {
    let host = Host::new().await;
    host.send("before").await;
    host.backup(&[]);
    let backups = PathBuf::from(host.backups());
    let before = files(&backups);
    for number in 0..20 {
        host.send(&format!("{number} ").repeat(20_000)).await;
    }
    // A limit of 512 KiB for each file stops the copy of the database, as a full disk does.
    let backup = host.work_dir.command(&["backup", &host.backups()]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$@\"", "sh"]).arg(backup.get_program());
    limited.args(backup.get_args()).current_dir(host.work_dir.path());
    let complaint = Answer::of_command(limited, "").complaint();
    assert!(complaint.contains("cannot be copied"), "{complaint}");
    assert_eq!(files(&backups), before, "nothing is left of it");
    // A backup that was killed leaves its work, and chunks that no manifest names.
    let mut killed = host.work_dir.command(&["backup", &host.backups()]).spawn().unwrap();
    while !backups.join("work").exists() && killed.try_wait().unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let _ = killed.kill();
    killed.wait().unwrap();
    std::fs::create_dir_all(backups.join("work")).unwrap();
    std::fs::write(backups.join("work/database"), "a part").unwrap();
    std::fs::create_dir_all(backups.join("chunks/00")).unwrap();
    let unused = backups.join("chunks/00").join("1".repeat(62));
    std::fs::write(&unused, "a part").unwrap();
    host.work_dir.run(&["backup", "--verify", &host.backups()]).answer();
    host.backup(&[]);
    assert!(!backups.join("work").exists() && !unused.exists());
    host.work_dir.run(&["backup", "--verify", &host.backups()]).answer();
}

#[test]
fn a_server_refuses_the_part_of_a_restore() {
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    std::fs::create_dir(work_dir.data().join("restoring")).unwrap();
    for arguments in [&["serve"][..], &["domain", "list"], &["migrate"]] {
        let complaint = work_dir.run(arguments).complaint();
        assert!(complaint.contains("empty the directory and restore again"), "{complaint}");
    }
}
