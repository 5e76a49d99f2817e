//! The output of `mailapi config`, applied to a private Postfix and Dovecot as an operator does, certificate
//! included, and used by an independent mail program. Only ports and directories are changed.

mod support;

use std::fs::{self, File, FileTimes, Permissions};
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use mailapi_testkit::{Dovecot, Postfix, PostfixSettings, Received, SmtpSink, free_port};
use serde_json::{Value, json};
use support::{Server, WorkDir};

const PASSWORD: &str = "correct horse battery";
const SOON: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Postfix reads a file only when it is older than this.
const OLD_ENOUGH: Duration = Duration::from_secs(60);

/// A machine that was set up as the guide describes.
struct Installation {
    work_dir: WorkDir,
    ports: Ports,
    postfix: Postfix,
    dovecot: Dovecot,
    sink: SmtpSink,
    server: Option<Server>,
    token: String,
    client: reqwest::Client,
}

/// Ports of all listeners, and whether mail programs log in with app passwords only.
struct Ports {
    require_app_passwords: bool,
    submission: SocketAddr,
    api: SocketAddr,
    imap: SocketAddr,
    imaps: SocketAddr,
    doveadm: SocketAddr,
}

impl Installation {
    async fn new() -> Self {
        Self::with(false).await
    }

    async fn with(require_app_passwords: bool) -> Self {
        let work_dir = WorkDir::new();
        fs::set_permissions(work_dir.path(), Permissions::from_mode(0o755)).unwrap();
        certify(&work_dir);
        let sink = SmtpSink::start().await;
        let mut settings = PostfixSettings::new(&[], sink.address());
        settings.long_queue_ids = false;
        let postfix = Postfix::start(&settings).await;
        let [submission, api, imap, imaps, doveadm] = [(); 5].map(|()| free_port());
        let ports = Ports { require_app_passwords, submission, api, imap, imaps, doveadm };
        prepare_database(&work_dir);
        run(command(&work_dir, &ports, &["migrate"]));
        fs::set_permissions(work_dir.path().join("db/mailapi.db"), Permissions::from_mode(0o666)).unwrap();
        let dovecot = set_dovecot_up(&work_dir, &ports, &postfix).await;
        set_postfix_up(&work_dir, &ports, &postfix).await;
        let (token, client) = (String::new(), reqwest::Client::new());
        let mut installation = Self { work_dir, ports, postfix, dovecot, sink, server: None, token, client };
        installation.start().await;
        installation
    }

    /// Starts mailapi, and creates two mailboxes.
    async fn start(&mut self) {
        let mut command = command(&self.work_dir, &self.ports, &["serve", "--log-format", "json"]);
        command.env("MAILAPI_MAIL__EXTERNAL__LOG__PATH", self.postfix.log());
        let mut server = Server::start(command);
        server.drain();
        self.token = server.token();
        self.server = Some(server);
        self.post("/domains", json!({ "domain": "example.org" })).await;
        for name in ["ann", "bob"] {
            self.post("/users", json!({ "email": format!("{name}@example.org"), "password": PASSWORD })).await;
        }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let url = self.server.as_ref().unwrap().api(path);
        let answer = self.client.post(url).header("X-MAILAPI-TOKEN", &self.token).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        let url = self.server.as_ref().unwrap().api(path);
        let answer = self.client.get(url).header("X-MAILAPI-TOKEN", &self.token).send().await.unwrap();
        answer.json().await.unwrap()
    }

    async fn put(&self, path: &str, body: Value) -> Value {
        let url = self.server.as_ref().unwrap().api(path);
        let answer = self.client.put(url).header("X-MAILAPI-TOKEN", &self.token).json(&body).send().await.unwrap();
        answer.json().await.unwrap()
    }

    /// Sends a message to bob, with the SMTP listener that a machine of the network uses.
    fn send(&self, subject: &str, header: &str) {
        let port = self.ports.api.port().to_string();
        let body = format!("Subject: {subject}\n{header}From: Zoe <zoe@far.example>\nTo: bob@example.org\n\nHello.\n");
        assert_eq!(self.mail_program(&["send", &port, "zoe@far.example", "bob@example.org", &body]), "taken");
    }

    /// Waits until a mailbox holds `count` messages.
    async fn holds(&self, mailbox: &str, count: usize) -> Value {
        self.folder_holds(mailbox, "INBOX", count).await
    }

    async fn folder_holds(&self, mailbox: &str, folder: &str, count: usize) -> Value {
        let end = Instant::now() + SOON;
        loop {
            let inbox = self.get(&format!("/mailbox/{mailbox}/messages?folder={folder}")).await;
            if inbox["total"] == count {
                return inbox;
            }
            assert!(Instant::now() < end, "{inbox}\n{}\n{}", self.log(), self.dovecot.log());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until `count` messages have left for other servers.
    async fn left(&self, count: usize) -> Vec<Received> {
        let end = Instant::now() + SOON;
        while self.sink.received().len() < count {
            assert!(Instant::now() < end, "{:?}\n{}\n{}", self.sink.received(), self.log(), self.dovecot.log());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.sink.received()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.postfix.log()).unwrap()
    }

    /// Creates an app password of a mailbox; returns its path and its value.
    async fn app_password(&self, mailbox: &str) -> (String, String) {
        let path = format!("/users/{mailbox}/app-passwords");
        let created = self.post(&path, json!({ "name": "phone" })).await;
        (format!("{path}/{}", created["app_password"]["id"]), created["password"].as_str().unwrap().to_owned())
    }

    async fn delete(&self, path: &str) {
        let url = self.server.as_ref().unwrap().api(path);
        let answer = self.client.delete(url).header("X-MAILAPI-TOKEN", &self.token).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
    }

    /// Returns the response of the submission listener to a client with these credentials.
    fn submit(&self, encryption: &str, user: &str, password: &str, sender: &str, recipient: &str) -> String {
        let port = self.ports.submission.port().to_string();
        self.mail_program(&["submit", &port, &self.certificate(), encryption, user, password, sender, recipient])
    }

    /// Returns the number of messages that a mail program sees over TLS, or its error.
    fn look(&self, user: &str, password: &str) -> String {
        let port = self.ports.imaps.port().to_string();
        self.mail_program(&["look", &port, &self.certificate(), user, password])
    }

    /// Starts a mail program that logs in over TLS, and ends when the server ends its session.
    fn stay(&self, user: &str, password: &str) -> Child {
        let port = self.ports.imaps.port().to_string();
        let mut command = mail_program(&["stay", &port, &self.certificate(), user, password]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python3 is installed");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "logged in", "{}", self.dovecot.log());
        child
    }

    fn mail_program(&self, arguments: &[&str]) -> String {
        let output = mail_program(arguments).output().expect("python3 is installed");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(output.status.success(), "{}\n{}", said(&output.stderr), self.log());
        said(&output.stdout)
    }

    fn certificate(&self) -> String {
        self.work_dir.path().join("cert.pem").display().to_string()
    }
}

fn mail_program(arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/printed_config/mail_program.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args(arguments);
    command
}

/// Creates a certificate for `localhost`.
fn certify(work_dir: &WorkDir) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(work_dir.path().join("cert.pem"), certified.cert.pem()).unwrap();
    fs::write(work_dir.path().join("key.pem"), certified.signing_key.serialize_pem()).unwrap();
}

/// Prepares an empty directory for a database that other users read.
fn prepare_database(work_dir: &WorkDir) {
    let directory = work_dir.path().join("db");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
}

/// Returns the command with the settings of the guide.
fn command(work_dir: &WorkDir, ports: &Ports, arguments: &[&str]) -> Command {
    let mut command = work_dir.command(arguments);
    command
        .env("MAILAPI_DATABASE__URL", format!("sqlite:{}", work_dir.path().join("db/mailapi.db").display()))
        .env("MAILAPI_AUTH__REQUIRE_APP_PASSWORDS", ports.require_app_passwords.to_string())
        .env("MAILAPI_MAIL__BACKEND", "external")
        .env("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", ports.api.port().to_string())
        .env("MAILAPI_MAIL__EXTERNAL__IMAP__PORT", ports.imap.port().to_string())
        .env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "master secret")
        .env("MAILAPI_MAIL__EXTERNAL__RULES", "true")
        .env("MAILAPI_MAIL__EXTERNAL__DOVEADM__URL", format!("http://{}", ports.doveadm))
        .env("MAILAPI_MAIL__EXTERNAL__DOVEADM__API_KEY", "api-key")
        .env("MAILAPI_MAIL__EXTERNAL__DOVEADM__FLUSH_AUTH_CACHE", Dovecot::flushes_auth_cache().to_string());
    command
}

/// Prints a configuration with the certificate into a directory.
fn print(work_dir: &WorkDir, ports: &Ports, kind: &[&str]) -> PathBuf {
    let directory = work_dir.path().join(kind[0]);
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| work_dir.path().join(name).display().to_string());
    let write = directory.to_str().unwrap();
    let proved = ["--write", write, "--tls-cert", &certificate, "--tls-key", &key];
    run(command(work_dir, ports, &[&["config"], kind, &proved].concat()));
    directory
}

/// Starts Dovecot with its sockets at the paths that Postfix uses.
async fn set_dovecot_up(work_dir: &WorkDir, ports: &Ports, postfix: &Postfix) -> Dovecot {
    let directory = print(work_dir, ports, &["dovecot", "--version", Dovecot::version()]);
    let sockets = postfix.config_dir().parent().unwrap().join("queue/private");
    change(
        &directory.join("dovecot.conf"),
        &[
            ("/var/spool/postfix/private", sockets.to_str().unwrap()),
            ("listen = *, ::", "listen = 127.0.0.1"),
            ("port = 993", &format!("port = {}", ports.imaps.port())),
        ],
    );
    // Dovecot would start sendmail(1), which belongs to the Postfix of the machine.
    let submission = format!("submission_host = {}\n", ports.api);
    File::options()
        .append(true)
        .open(directory.join("dovecot.conf"))
        .unwrap()
        .write_all(submission.as_bytes())
        .unwrap();
    for_their_users(&directory);
    Dovecot::start_printed(&directory, ports.imap).await
}

/// Runs the printed script twice, for a listener on another port.
async fn set_postfix_up(work_dir: &WorkDir, ports: &Ports, postfix: &Postfix) {
    let directory = print(work_dir, ports, &["postfix"]);
    let script = directory.join("apply.sh");
    let listener = ports.submission.to_string();
    change(
        &script,
        &[
            ("'submission/inet=submission inet", &format!("'{listener}/inet={listener} inet")),
            ("'submission/inet/", &format!("'{listener}/inet/")),
        ],
    );
    for_their_users(&directory);
    let apply = || {
        let mut command = Command::new("sh");
        // postconf(1) reads this variable.
        command.arg(&script).env("MAIL_CONFIG", postfix.config_dir());
        run(command);
        ["main.cf", "master.cf"].map(|name| fs::read_to_string(postfix.config_dir().join(name)).unwrap())
    };
    let once = apply();
    assert_eq!(apply(), once, "the script may be run again");
    // Has the effect of `postfix reload`.
    postfix.reopen_log();
    let end = Instant::now() + SOON;
    while [ports.submission, ports.api].iter().any(|port| TcpStream::connect(port).is_err()) {
        assert!(Instant::now() < end, "{}", fs::read_to_string(postfix.log()).unwrap());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Replaces parts of a file; each part must exist.
fn change(file: &Path, pieces: &[(&str, &str)]) {
    let mut text = fs::read_to_string(file).unwrap();
    for (old, new) in pieces {
        assert!(text.contains(old), "{} has no `{old}`:\n{text}", file.display());
        text = text.replace(old, new);
    }
    fs::write(file, text).unwrap();
}

/// Gives the mail servers' own users access to their files, as `chgrp` does on a real machine. Also makes the files
/// old enough that Postfix reads them at once.
fn for_their_users(directory: &Path) {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the age of a file is measured by the machine's clock")]
        let old = SystemTime::now() - 2 * OLD_ENOUGH;
        File::options().write(true).open(&path).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    }
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_program_needs_tls_its_password_and_its_own_sender() {
    let machine = Installation::new().await;
    let (ann, bob) = ("ann@example.org", "bob@example.org");
    let submit = |encryption, user, password, sender, recipient| {
        let answer = machine.submit(encryption, user, password, sender, recipient);
        if answer.is_empty() { "nothing".to_owned() } else { answer }
    };
    let unencrypted = submit("plain", "-", "", ann, bob);
    assert!(unencrypted.starts_with("530 ") && unencrypted.contains("STARTTLS"), "{unencrypted}");
    let no_log_in = submit("plain", ann, PASSWORD, ann, bob);
    assert!(no_log_in.contains("AUTH extension not supported"), "{no_log_in}");
    assert!(submit("tls", ann, "wrong", ann, bob).starts_with("535 "));
    assert!(submit("tls", "nobody@example.org", PASSWORD, ann, bob).starts_with("535 "));
    let stranger = submit("tls", "-", "", ann, bob);
    assert!(stranger.starts_with("554 ") || stranger.starts_with("553 "), "{stranger}");
    for sender in [bob, "eve@elsewhere.example"] {
        let other = submit("tls", ann, PASSWORD, sender, bob);
        assert!(other.starts_with("553 ") && other.contains("not owned by user ann@example.org"), "{other}");
    }
    assert_eq!(machine.get("/mailbox/bob@example.org/messages").await["total"], 0);
    assert_eq!(machine.look(bob, PASSWORD), "0");

    assert_eq!(submit("tls", ann, PASSWORD, ann, bob), "taken");
    assert_eq!(submit("tls", ann, PASSWORD, "ann+news@example.org", "far@elsewhere.example"), "taken");
    let inbox = machine.holds(bob, 1).await;
    assert_eq!(inbox["messages"][0]["subject"], "From a mail program");
    assert_eq!(machine.look(bob, PASSWORD), "1");
    assert!(machine.look(bob, "wrong").contains("AUTHENTICATIONFAILED"));
    let line =
        machine.postfix.logged(&["postfix/submission/smtpd", ": client=", "sasl_username=ann@example.org"]).await;
    let queue_id = line.split("]: ").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    assert!(queue_id.len() > 12, "{queue_id} is a short one");
    machine.postfix.logged(&["to=<far@elsewhere.example>", "status=sent"]).await;
    assert!(machine.sink.received().iter().any(|mail| mail.recipients.iter().any(|to| to.contains("far@"))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mailapi_reads_and_submits_on_loopback_without_tls() {
    let machine = Installation::new().await;
    let body = json!({ "from": "ann@example.org", "to": ["bob@example.org"], "body": { "text": "It works." } });
    let sent = machine.post("/mail/send", body).await;
    machine.holds("bob@example.org", 1).await;
    let path = format!("/mail/{}/status", sent["message_id"].as_str().unwrap());
    let end = Instant::now() + SOON;
    while machine.get(&path).await["status"] != "sent" {
        assert!(Instant::now() < end, "{}\n{}", machine.get(&path).await, machine.log());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // A disabled mailbox still receives mail, but rejects logins.
    machine.post("/users/bob@example.org/disable", json!({})).await;
    assert!(machine.look("bob@example.org", PASSWORD).contains("AUTHENTICATIONFAILED"));
    let refused = machine.submit("tls", "bob@example.org", PASSWORD, "bob@example.org", "ann@example.org");
    assert!(refused.starts_with("535 "), "{refused}");
    assert_eq!(machine.submit("tls", "ann@example.org", PASSWORD, "ann@example.org", "bob@example.org"), "taken");
    machine.holds("bob@example.org", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_password_opens_a_mail_program_until_it_is_revoked() {
    let machine = Installation::new().await;
    let (ann, bob) = ("ann@example.org", "bob@example.org");
    let (path, value) = machine.app_password(ann).await;
    let (_, kept) = machine.app_password(ann).await;
    let submit = |user, password| machine.submit("tls", user, password, user, bob);
    assert!(machine.look(bob, &value).contains("AUTHENTICATIONFAILED"), "it belongs to ann");
    assert!(submit(bob, &value).starts_with("535 "));
    assert!(machine.look(ann, "aaaaa-aaaaa-aaaaa-aaaaa").contains("AUTHENTICATIONFAILED"));
    for password in [PASSWORD, &value, &kept] {
        assert_eq!(machine.look(ann, password), "0");
        assert_eq!(submit(ann, password), "taken");
    }
    machine.holds(bob, 3).await;

    let mut program = machine.stay(ann, &value);
    machine.delete(&path).await;
    assert!(program.wait().unwrap().success(), "the session ends: {}", machine.dovecot.log());
    assert!(machine.look(ann, &value).contains("AUTHENTICATIONFAILED"));
    assert!(submit(ann, &value).starts_with("535 "));
    assert_eq!(machine.look(ann, &kept), "0");
    machine.post(&format!("/users/{ann}/disable"), json!({})).await;
    assert!(machine.look(ann, &kept).contains("AUTHENTICATIONFAILED"));
    assert_eq!(machine.get(&format!("/mailbox/{ann}/messages")).await["total"], 0, "the API still reads the mailbox");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_printed_dovecot_can_require_app_passwords() {
    let machine = Installation::with(true).await;
    let (ann, bob) = ("ann@example.org", "bob@example.org");
    let (_, value) = machine.app_password(ann).await;
    for user in [ann, bob] {
        assert!(machine.look(user, PASSWORD).contains("AUTHENTICATIONFAILED"));
        assert!(machine.submit("tls", user, PASSWORD, user, bob).starts_with("535 "));
    }
    assert_eq!(machine.look(ann, &value), "0");
    assert_eq!(machine.submit("tls", ann, &value, ann, bob), "taken");
    // The API reads the mailbox of bob, who has no app password, as the master user.
    machine.holds(bob, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dovecot_applies_the_rules_of_a_mailbox() {
    let machine = Installation::new().await;
    let bob = "bob@example.org";
    let path = format!("/users/{bob}/rules");
    let foreign = json!({ "rules": [{ "actions": [{ "type": "forward", "to": "zoë@far.example" }] }] });
    let refused = machine.put(&path, foreign).await;
    assert_eq!(refused["error"], "VALIDATION_ERROR", "{refused}");
    let rules = json!({ "rules": [
        {
            "name": "News \"${x}\"",
            "match": { "all": [
                { "field": "subject", "op": "contains", "value": "NEWS" },
                { "field": "from", "op": "is", "value": "zoe@far.example" },
                { "field": "to", "op": "contains", "value": "bob@" },
                { "field": "header", "name": "X-List", "op": "is", "value": "a\\b \"${dollar}\" é" }
            ] },
            "actions": [{ "type": "folder", "folder": "Lists/Zoë" }, { "type": "flag", "flag": "\\Flagged" }]
        },
        {
            "match": { "all": [{ "field": "subject", "op": "contains", "value": "news" }] },
            "actions": [{ "type": "flag", "flag": "$Label1" }, { "type": "folder", "folder": "Other" }]
        },
        {
            "match": { "all": [{ "field": "verdict", "op": "is", "value": "spam" }] },
            "actions": [{ "type": "folder", "folder": "Junk" }, { "type": "stop" }]
        },
        {
            "match": { "all": [{ "field": "subject", "op": "is", "value": "Copy" }] },
            "actions": [{ "type": "forward", "to": "tim@elsewhere.example" }]
        },
        {
            "match": { "all": [{ "field": "subject", "op": "is", "value": "No" }] },
            "actions": [{ "type": "forward", "to": "never@elsewhere.example" }, { "type": "reject", "text": "Not here." }]
        },
        {
            "match": { "all": [{ "field": "subject", "op": "is", "value": "When?" }] },
            "actions": [{ "type": "vacation", "text": "I am away.\nBack on \"Monday\" ${x}." }]
        },
        { "match": { "all": [{ "field": "size", "op": "over", "value": "1000000" }] }, "actions": [{ "type": "stop" }] }
    ] });
    let shown = machine.put(&path, rules).await;
    assert_eq!(shown["success"], true, "{shown}");
    machine.send("The news", "X-List: =?utf-8?q?A\\B_\"${DOLLAR}\"_=C3=89?=\n");
    machine.send("Other news", "");
    machine.send("The news of a forger", "X-Spam-Flag: YES\n");
    machine.send("Copy", "");
    machine.send("No", "");
    machine.send("When?", "");
    machine.holds(bob, 2).await;
    let filed = machine.folder_holds(bob, "Lists/Zo%C3%AB", 1).await;
    assert_eq!(filed["messages"][0]["subject"], "The news");
    assert_eq!(machine.dovecot.flags(bob, "Lists/Zoë", 1), ["\\Flagged", "$Label1"]);
    assert_eq!(machine.folder_holds(bob, "Other", 1).await["messages"][0]["subject"], "Other news");
    assert_eq!(machine.dovecot.flags(bob, "Other", 1), ["$Label1"]);
    machine.folder_holds(bob, "Junk", 1).await;

    let left = machine.left(3).await;
    let to =
        |address: &'static str| left.iter().filter(move |mail| mail.recipients.iter().any(|to| to.contains(address)));
    let copy = to("tim@elsewhere.example").next().expect("a copy");
    assert!(copy.sender.contains(bob), "SPF of the first sender would fail: {}", copy.sender);
    let answers: Vec<_> = to("zoe@far.example").map(|mail| String::from_utf8_lossy(&mail.data)).collect();
    assert_eq!(answers.len(), 2, "{left:?}");
    assert!(answers.iter().any(|text| text.contains("Not here.")), "{answers:?}");
    assert!(answers.iter().any(|text| text.contains("Back on \"Monday\" ${x}.")), "{answers:?}");

    // The longest script is a long line in the protocol of Dovecot's dictionary.
    let value = "ü".repeat(500);
    let condition = json!({ "field": "subject", "op": "contains", "value": value });
    let mut rules = vec![json!({ "match": { "all": [condition] }, "actions": [{ "type": "stop" }] }); 55];
    rules.push(json!({ "actions": [{ "type": "folder", "folder": "Last" }] }));
    let shown = machine.put(&path, json!({ "rules": rules })).await;
    assert_eq!(shown["success"], true, "{}", shown["message"]);
    machine.send("Last", "");
    machine.folder_holds(bob, "Last", 1).await;

    // Without rules, everything is filed as before.
    machine.put(&path, json!({ "rules": [] })).await;
    machine.send("More news", "");
    machine.holds(bob, 3).await;
}
