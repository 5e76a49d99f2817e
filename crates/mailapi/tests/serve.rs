//! Start and stop of the real binary.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use support::{Server, WorkDir};

/// Maximum time of a start.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn a_second_server_on_one_directory_is_refused() {
    let work_dir = WorkDir::new();
    let first = work_dir.serve();
    let complaint = work_dir.run(&["serve"]).complaint();
    assert!(complaint.contains(&work_dir.data().canonicalize().unwrap().display().to_string()), "{complaint}");
    assert!(complaint.contains(&format!("process {}", first.id())), "{complaint}");
    assert_eq!(work_dir.run(&["domain", "add", "example.org"]).answer(), "");
    assert_eq!(first.stop("TERM").0, Some(0));
    assert_eq!(work_dir.serve().stop("TERM").0, Some(0), "the lock ends with the process");
}

#[test]
fn a_port_in_use_is_an_error_with_the_setting() {
    let work_dir = WorkDir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = work_dir.command(&["serve"]);
    command.env("MAILAPI_HTTP__LISTEN", taken.local_addr().unwrap().to_string());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.starts_with("mailapi: http.listen: cannot listen on 127.0.0.1:"), "{stderr}");
    assert!(!work_dir.data().join("admin-token").exists(), "a failed start must not create a token");
}

#[test]
fn the_first_start_makes_one_admin_token_and_later_ones_none() {
    let work_dir = WorkDir::new();
    let first = work_dir.serve();
    let token = first.token();
    let file = work_dir.data().join("admin-token");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{token}\n"));
    let logged = format!("{:?}", first.start);
    assert!(!logged.contains("mapi_") && !logged.contains("password"), "a JSON log holds no secret: {logged}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(first.stop("INT").0, Some(0));

    let second = work_dir.serve();
    assert!(second.first_start.is_none());
    let (code, log) = second.stop("TERM");
    assert_eq!(code, Some(0));
    assert!(log.contains("\"message\":\"stopped\"") && !log.contains(&token), "{log}");
    let tokens = work_dir.run(&["token", "list"]).answer();
    assert!(tokens.lines().count() == 2 && tokens.contains(" initial admin "), "{tokens}");
}

#[test]
fn a_token_that_cannot_be_written_is_not_stored() {
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    let file = work_dir.data().join("admin-token");
    std::fs::create_dir(&file).unwrap();
    let complaint = work_dir.run(&["serve"]).complaint();
    assert!(complaint.contains("admin-token: refused, because it is a directory"), "{complaint}");
    let tokens = work_dir.run(&["token", "list"]).answer();
    assert!(!tokens.contains("initial admin"), "{tokens}");

    std::fs::remove_dir(&file).unwrap();
    let first = work_dir.serve();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", first.token()));
}

#[test]
fn a_token_that_cannot_be_stored_leaves_no_file() {
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    let file = work_dir.data().join("admin-token");
    let database = rusqlite::Connection::open(work_dir.data().join("mailapi.db")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON tokens BEGIN SELECT RAISE(ABORT, 'refused'); END";
    database.execute_batch(refuse).unwrap();
    work_dir.run(&["serve"]).complaint();
    assert!(!file.exists());

    database.execute_batch("DROP TRIGGER refuse").unwrap();
    let first = work_dir.serve();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", first.token()));
}

#[test]
fn the_first_start_makes_an_admin_token_despite_cli_data() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    work_dir.run_with_input(&["user", "add", "ann@example.org"], "a long enough password\n").answer();
    work_dir.run(&["token", "create", "--type", "user", "--name", "mine", "--email", "ann@example.org"]).answer();
    let first = work_dir.serve();
    assert_eq!(std::fs::read_to_string(work_dir.data().join("admin-token")).unwrap(), format!("{}\n", first.token()));
}

#[test]
fn people_see_all_addresses_and_how_to_begin_below_the_log() {
    let work_dir = WorkDir::new();
    let mut command = work_dir.command(&["serve", "--log-format", "human"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut shown = String::new();
        while !shown.contains("/mailbox/ben@try.test/messages")
            && std::io::BufRead::read_line(&mut stdout, &mut shown).unwrap() > 0
        {}
        send.send(shown)
    });
    let shown = lines.recv_timeout(PATIENCE);
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = shown.expect("the lines to paste are shown");
    for expected in ["/api/v1", "/docs", "SMTP  ", "submission  ", "IMAP  ", "mapi_", "curl "] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let (log, below) = shown.split_once("mailapi ").unwrap();
    assert!(log.contains("token created") && !below.contains("INFO"), "{shown}");
}

#[test]
fn a_start_that_others_can_reach_asks_for_the_name() {
    let work_dir = WorkDir::new();
    let warned = |name: &str| {
        let mut command = work_dir.command(&["serve", "--log-format", "json"]);
        command.env("MAILAPI_HTTP__LISTEN", "0.0.0.0:0").env("MAILAPI_MAIL__EMBEDDED__HOSTNAME", name);
        let server = Server::start(command);
        server.start.iter().filter(|event| event["setting"] == "mail.embedded.hostname").count()
    };
    assert_eq!((warned("localhost"), warned("mx.example.org")), (1, 0));
}

/// Returns the head and the body of a request that creates a domain.
fn request_for_domain(server: &Server, name: &str) -> (String, String) {
    let body = format!("{{\"domain\":\"{name}\"}}");
    let head = format!(
        "POST /api/v1/domains HTTP/1.1\r\nHost: x\r\nX-MAILAPI-TOKEN: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        server.token(),
        body.len()
    );
    (head, body)
}

fn connect(server: &Server) -> std::io::Result<TcpStream> {
    let url = server.api("");
    TcpStream::connect(url.strip_prefix("http://").unwrap().split('/').next().unwrap())
}

#[test]
fn a_request_in_flight_is_finished_before_the_server_ends() {
    let work_dir = WorkDir::new();
    let server = work_dir.serve();
    let mut connection = connect(&server).unwrap();
    let (head, body) = request_for_domain(&server, "example.org");
    let head = head.replace("Connection: close", "Connection: close\r\nExpect: 100-continue");
    connection.write_all(head.as_bytes()).unwrap();
    // The server's request for the body shows that the request is in flight.
    let mut asked = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    connection.read_exact(&mut asked).unwrap();
    let (first, second) = body.split_at(5);
    connection.write_all(first.as_bytes()).unwrap();

    server.signal("TERM");
    // The listener closes while the request is in flight; only then is the second half sent.
    while connect(&server).is_ok() {}
    connection.write_all(second.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.wait().0, Some(0));
    assert!(work_dir.run(&["domain", "list"]).answer().contains("example.org"));
}

#[test]
fn the_last_use_of_a_token_is_stored_at_shutdown() {
    let work_dir = WorkDir::new();
    let server = work_dir.serve();
    assert_eq!(last_use(&work_dir), "-");
    let mut connection = connect(&server).unwrap();
    let (head, body) = request_for_domain(&server, "example.org");
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    connection.read_to_string(&mut String::new()).unwrap();
    assert_eq!(server.stop("TERM").0, Some(0));
    assert!(last_use(&work_dir).ends_with('Z'), "{}", last_use(&work_dir));
}

/// Returns the time of the only token's last use, as the command line prints it.
fn last_use(work_dir: &WorkDir) -> String {
    let tokens = work_dir.run(&["token", "list"]).answer();
    let row = tokens.lines().nth(1).unwrap();
    row.split_whitespace().rev().nth(1).unwrap().to_owned()
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let work_dir = WorkDir::new();
    let server = work_dir.command(&["serve", "--log-format", "json"]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -Sn 200; ulimit -Hn 1000; exec \"$@\"", "sh"]).arg(server.get_program());
    shell.args(server.get_args()).current_dir(work_dir.path());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let server = Server::start(shell);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("1000"), "{files}");
    let warned = |text: &str| {
        let messages = server.start.iter().filter_map(|event| event["message"].as_str());
        messages.filter(|message| message.contains("RLIMIT_NOFILE") && message.contains(text)).count()
    };
    assert_eq!(warned("http.max_connections"), 1);
    assert_eq!(warned("each listener accepts fewer connections"), 3, "SMTP, submission and IMAP");
}

/// Writes a new certificate and its key; returns the certificate without its PEM frame.
fn renew(work_dir: &WorkDir) -> String {
    let made = rcgen::generate_simple_self_signed(["mx.example".to_owned()]).unwrap();
    std::fs::write(work_dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(work_dir.path().join("cert.pem"), made.cert.pem()).unwrap();
    made.cert.pem().lines().nth(1).unwrap().to_owned()
}

/// Returns a listener's certificate, as received by OpenSSL's client.
fn shown_certificate(address: &str, protocol: &str) -> String {
    let mut client = std::process::Command::new("openssl");
    client.args(["s_client", "-starttls", protocol, "-connect", address, "-showcerts"]).stdin(Stdio::null());
    String::from_utf8_lossy(&client.output().unwrap().stdout).into_owned()
}

#[test]
fn a_hang_up_ends_nothing_and_shows_the_new_certificate() {
    let work_dir = WorkDir::new();
    let old = renew(&work_dir);
    let mut command = work_dir.command(&["serve", "--log-format", "json"]);
    command.env("MAILAPI_TLS__CERT", work_dir.path().join("cert.pem"));
    command.env("MAILAPI_TLS__KEY", work_dir.path().join("key.pem"));
    let mut server = Server::start(command);
    let listeners = [("imap", "imap"), ("submission", "smtp"), ("smtp", "smtp")];
    let listeners =
        listeners.map(|(listener, protocol)| (server.running[listener].as_str().unwrap().to_owned(), protocol));
    for (address, protocol) in &listeners {
        assert!(shown_certificate(address, protocol).contains(&old));
    }
    let new = renew(&work_dir);
    server.signal("HUP");
    server.read_until("a file has changed and is in use now");
    for (address, protocol) in &listeners {
        let shown = shown_certificate(address, protocol);
        assert!(shown.contains(&new) && !shown.contains(&old), "{shown}");
    }
    std::fs::write(work_dir.path().join("cert.pem"), "garbage").unwrap();
    server.signal("HUP");
    server.read_until("a file cannot be used; its previous content stays in use");
    assert!(shown_certificate(&listeners[0].0, "imap").contains(&new));
    assert_eq!(server.stop("TERM").0, Some(0));
}

#[test]
fn a_server_without_a_certificate_lives_through_a_hang_up() {
    let work_dir = WorkDir::new();
    let mut server = work_dir.serve();
    server.signal("HUP");
    server.read_until("SIGHUP: all files were read");
    assert_eq!(server.stop("TERM").0, Some(0));
}
