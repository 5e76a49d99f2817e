//! `mailapi setup`, and the commands of docs/server.md.

mod support;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Answer, Server, WorkDir};

const NAMES: [&str; 6] =
    ["--hostname", "mx.example.test", "--domain", "example.test", "--mailbox", "alice@example.test"];
/// The listeners of the written configuration, at free ports.
const FREE_PORTS: [&str; 3] =
    ["MAILAPI_HTTP__TLS_LISTEN", "MAILAPI_MAIL__EMBEDDED__SUBMISSIONS_LISTEN", "MAILAPI_MAIL__EMBEDDED__IMAPS_LISTEN"];

/// A directory in which every file of an installation is.
struct Machine {
    work_dir: WorkDir,
    /// A name server that knows no name.
    name_server: SocketAddr,
}

fn empty_name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut message) {
            // The question with the mark of a response, and the code NXDOMAIN (RFC 1035 section 4.1.1).
            message[2] |= 0x80;
            message[3] = 3;
            let _ = socket.send_to(&message[..length], client);
        }
    });
    address
}

impl Machine {
    fn new() -> Self {
        Self { work_dir: WorkDir::new(), name_server: empty_name_server() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work_dir.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.work_dir.command(arguments);
        command.env("MAILAPI_DNS__SERVERS", self.name_server.to_string());
        command.env("MAILAPI_CONFIG", self.path("etc/mailapi.toml"));
        // No certificate authority either. Without its public URL the server shows the real address.
        command.env("MAILAPI_TLS__ACME_DIRECTORY", "https://127.0.0.1:1/directory").env("MAILAPI_HTTP__PUBLIC_URL", "");
        for name in FREE_PORTS {
            command.env(name, "127.0.0.1:0");
        }
        command
    }

    fn setup(&self, arguments: &[&str], input: &str) -> Answer {
        self.setup_with(&[], arguments, input)
    }

    fn setup_with(&self, environment: &[(&str, &str)], arguments: &[&str], input: &str) -> Answer {
        let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
        let (config, unit) = (self.path("etc/mailapi.toml"), self.path("units/mailapi.service"));
        let data = self.path("lib/data");
        let places = ["--config", text(&config), "setup", "--unit", text(&unit), "--data-dir", text(&data)];
        let arguments = [&places[..], &["--user", user.trim()], arguments].concat();
        let mut command = self.command(&arguments);
        command.envs(environment.iter().copied());
        Answer::of_command(command, input)
    }

    fn files(&self) -> Vec<String> {
        let mut found: Vec<_> =
            fs::read_dir(self.work_dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.extend(fs::read_dir(self.path("etc")).into_iter().flatten().map(|entry| entry.unwrap().path()));
        let mut names: Vec<_> = found.iter().map(|path| path.strip_prefix(self.work_dir.path()).unwrap()).collect();
        names.sort();
        names.iter().map(|name| name.display().to_string()).collect()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn without_write_nothing_is_written() {
    let machine = Machine::new();
    assert_eq!(machine.setup(&NAMES[..4], "").complaint(), "--mailbox is missing");
    let wrong = [&NAMES[..4], &["--mailbox", "alice@elsewhere.test"]].concat();
    assert_eq!(machine.setup(&wrong, "").complaint(), "alice@elsewhere.test is not in the domain example.test");
    let shown = machine.setup(&NAMES, "").answer();
    for part in [
        "hostname = \"mx.example.test\"\n",
        "postmaster = \"alice@example.test\"\n",
        "\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n",
        "\nexample.test. 3600 IN MX 10 mx.example.test.\n",
        "; DKIM: --write creates the key",
        "mail to other servers: not checked; name a mail server of yours with --mx",
        "\nNothing was written.",
    ] {
        assert!(shown.contains(part), "{part} is missing from {shown}");
    }
    assert!(!shown.contains("._domainkey."), "a key that signs nothing must not be published: {shown}");
    assert_eq!(machine.files(), [""; 0]);
}

#[test]
fn without_write_a_database_elsewhere_stays_as_it_is() {
    let machine = Machine::new();
    let url = format!("sqlite:{}", text(&machine.path("accounts.db")));
    let shown = machine.setup_with(&[("MAILAPI_DATABASE__URL", &url)], &NAMES, "").answer();
    assert!(shown.contains("\nNothing was written."), "{shown}");
    assert_eq!(machine.files(), [""; 0]);
}

#[test]
fn a_written_installation_serves() {
    let machine = Machine::new();
    assert_eq!(machine.setup(&[&NAMES[..], &["--write"]].concat(), "short\n").code, Some(1));
    let written = machine.setup(&[&NAMES[..], &["--write"]].concat(), "correct horse battery\n").answer();
    assert!(written.contains("mailbox alice@example.test: created\n"), "{written}");
    assert!(written.contains("._domainkey.example.test. 3600 IN TXT "), "{written}");
    let mode = |name: &str| fs::metadata(machine.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("etc/mailapi.toml"), mode("units/mailapi.service"), mode("lib/data")), (0o644, 0o644, 0o700));

    // Again: the domain, the mailbox and its password stay, and a file that the operator changed is kept.
    fs::write(machine.path("etc/mailapi.toml"), "# mine\n").unwrap();
    let again = machine.setup(&[&NAMES[..], &["--write"]].concat(), "").answer();
    assert!(again.contains("mailbox alice@example.test: exists\n") && again.contains(": unchanged\n"), "{again}");
    let kept = machine.files().into_iter().find(|name| name.starts_with("etc/mailapi.toml.2")).expect("a copy");
    assert_eq!(fs::read_to_string(machine.path(&kept)).unwrap(), "# mine\n");

    let server = Server::start(machine.command(&["serve", "--log-format", "json"]));
    assert!(server.running["https"].is_string() && server.running["imaps"].is_string(), "{:?}", server.running);
    drop(server);
}

#[test]
fn the_files_of_others_are_left_alone() {
    let machine = Machine::new();
    fs::write(machine.path("etc"), "a file instead of a directory").unwrap();
    let refused = machine.setup(&[&NAMES[..], &["--write"]].concat(), "correct horse battery\n");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(!machine.path("lib").exists(), "the files come first");
}

/// systemd itself reads the unit, where it is installed.
#[test]
fn systemd_accepts_the_unit() {
    let machine = Machine::new();
    machine.setup(&[&NAMES[..], &["--write"]].concat(), "correct horse battery\n").answer();
    let unit = machine.path("units/mailapi.service");
    let Ok(checked) = Command::new("systemd-analyze").arg("verify").arg(&unit).output() else { return };
    let complaints = String::from_utf8(checked.stderr).unwrap();
    let own: Vec<_> = complaints.lines().filter(|line| line.contains("mailapi.service")).collect();
    assert!(own.is_empty(), "{own:?}");
}

/// Settings of systemd that imply `NoNewPrivileges=yes` for a service with a user (systemd.exec(5)).
const NO_NEW_PRIVILEGES: &[&str] = &[
    "NoNewPrivileges",
    "LockPersonality",
    "MemoryDenyWriteExecute",
    "PrivateDevices",
    "ProtectClock",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "RestrictAddressFamilies",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "SystemCallArchitectures",
    "SystemCallFilter",
];

/// The part of a page between two texts.
fn printed(page: &str, start: &str, end: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)).unwrap();
    let (_, rest) = page.split_once(start).expect("the beginning of the example");
    rest.split_once(end).expect("the end of the example").0.to_owned()
}

/// docs/operating.md prints a unit for a server in front of Postfix.
#[test]
fn the_unit_in_front_of_postfix_is_as_hardened() {
    let machine = Machine::new();
    machine.setup(&[&NAMES[..], &["--write"]].concat(), "correct horse battery\n").answer();
    let own = fs::read_to_string(machine.path("units/mailapi.service")).unwrap();
    let (_, hardening) = own.split_once("UMask=").unwrap();
    let hardening = hardening.split_once("\n[Install]").unwrap().0.lines().skip(1);
    // The directories differ.
    let hardening: Vec<_> = hardening.filter(|line| !line.starts_with("ReadWritePaths=")).collect();
    let unit = printed("operating.md", "mailapi.service <<'UNIT'\n", "\nUNIT\n");
    let missing: Vec<_> = hardening.iter().filter(|line| !unit.lines().any(|printed| printed == **line)).collect();
    assert!(hardening.len() > 20 && missing.is_empty(), "docs/operating.md lacks {missing:?}");
    // Changes of Postfix's queue need sudo.
    let undone = printed("queue.md", "```ini\n[Service]\n", "```");
    let names = hardening.iter().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    for name in names.filter(|name| NO_NEW_PRIVILEGES.contains(name)) {
        let is_undone = |line: &str| line == format!("{name}=no") || line == format!("{name}=");
        assert!(undone.lines().any(is_undone), "docs/queue.md does not undo {name}");
    }
}

/// The commands of docs/server.md, with the paths and ports of this machine. Programs that change the system are
/// replaced by ones that do nothing.
#[test]
fn the_page_works_as_it_is_written() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server.md")).unwrap();
    let (before, after) = page.split_once("## 5. DNS records").expect("the section after the start");
    let (after, _) = after.split_once("## Upgrade").expect("the sections about the running server");
    let machine = Machine::new();
    fs::create_dir(machine.path("bin")).unwrap();
    for (name, script) in
        [("install", ""), ("useradd", ""), ("systemctl", ""), ("mailapi", "exec \"$MAILAPI_BINARY\" \"$@\"")]
    {
        let path = machine.path(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let installed = paste(&machine, before, None);
    assert_eq!(installed.matches("### This machine").count(), 2, "{installed}");
    let server = Server::start(machine.command(&["serve", "--log-format", "json"]));
    let shown = paste(&machine, after, Some(&server));
    assert!(shown.contains("\"status\":\"submitted\""), "{shown}");
    assert!(shown.contains("message.delivered"), "{shown}");
    assert!(shown.contains("example.net. 3600 IN MX 10 mx.example.org."), "{shown}");
}

/// Runs the shell commands of a part of the page. Returns what they print.
fn paste(machine: &Machine, part: &str, server: Option<&Server>) -> String {
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let commands: Vec<_> = part.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let places = format!(
        "mailapi setup --user {} --unit {} --data-dir {}",
        user.trim(),
        machine.path("units/mailapi.service").display(),
        machine.path("lib/data").display()
    );
    let mut script = commands.join("\n").replace("mailapi setup", &places);
    script = script.replace("/var/lib/mailapi/data", text(&machine.path("lib/data")));
    // Without a certificate and name servers, the doctor has findings.
    script = script.replace("mailapi doctor", "mailapi doctor || true");
    script = script.replace("export MAILAPI_CONFIG=/etc/mailapi/mailapi.toml", "");
    script = script
        .replace("mailapi setup", &format!("mailapi --config {} setup", machine.path("etc/mailapi.toml").display()));
    if let Some(server) = server {
        script = script.replace("http://127.0.0.1:8080/api/v1", server.running["api"].as_str().unwrap());
    }
    let mut command = machine.command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command = Command::new("bash");
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let path = format!("{}:{}", machine.path("bin").display(), std::env::var_os("PATH").unwrap_or_default().display());
    command.args(["-euc", &script]).env("PATH", path).env("MAILAPI_BINARY", env!("CARGO_BIN_EXE_mailapi"));
    command.current_dir(machine.work_dir.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}: {shown}{}", String::from_utf8_lossy(&output.stderr));
    shown
}
