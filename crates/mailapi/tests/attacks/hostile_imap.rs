//! The operator's IMAP server attacks its clients.

use mailapi_testkit::SmtpSink;
use mailapi_testkit::scripted_imap::{INBOX, LOGIN, ScriptedServer};

use crate::embedded_host::{EmbeddedHost, answered_during, size};

/// Concurrent requests for each mailbox; the maximum number of connections.
const REQUESTS: usize = 6;
/// The shortest possible part of a message structure.
const PART: &str = "(\"\" \"\" NIL NIL NIL \"\" 0)";
/// A folder that claims the largest possible number of messages.
const HUGE: &str = "\
C: LIST \"\" \"\"
S: * LIST (\\Noselect) \"/\" \"\"
S: {tag} OK
C: EXAMINE \"INBOX\"
S: * 4294967295 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK [READ-ONLY] open";

/// When an attack runs, the request to mailapi, and the server's response after the login.
type Attack = (Size, &'static str, String);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Any,
    /// Only in full size: a debug build reads the answer for minutes, or the server is given up after a minute.
    Full,
}

const FOLDERS: &str = "/folders";
const PAGE: &str = "/messages";
const MESSAGE: &str = "/messages/5";
const RAW: &str = "/messages/5/raw";
const SEARCH: &str = "/search?q=hello&folder=INBOX";

fn list(attack: &str) -> String {
    format!("C: LIST \"\" \"*\"\n{attack}")
}

fn fetch(attack: &str) -> String {
    format!("{INBOX}\nC: FETCH\n{attack}")
}

fn uid_fetch(attack: &str) -> String {
    format!("{INBOX}\nC: UID FETCH\n{attack}")
}

fn section(size: u64, attack: &str) -> String {
    uid_fetch(&format!("S: * 1 FETCH (UID 5 FLAGS () RFC822.SIZE 60 BODY[]<0> {{{size}}}\n{attack}"))
}

fn attacks() -> Vec<Attack> {
    use Size::{Any, Full};
    let summary = |attack: &str| fetch(&format!("times 1: * 1 FETCH (UID 5 FLAGS () RFC822.SIZE 60 {attack}"));
    let search = |attack: &str| format!("{HUGE}\nC: UID SEARCH\n{attack}");
    vec![
        // Answers that cost much for their length.
        (Any, FOLDERS, list("endless: * LIST ({0}\\r\\n")),
        (Any, PAGE, fetch("endless: x")),
        (Any, PAGE, summary(&format!("BODYSTRUCTURE (\nendless: {PART}"))),
        (Any, PAGE, summary(&format!("BODYSTRUCTURE (\ntimes 580000: {PART}\nS:  \"mixed\"))\nS: {{tag}} OK"))),
        (Any, PAGE, summary("FLAGS (x\ntimes 8000000:  x\nS: ))\nS: {tag} OK")),
        (Any, PAGE, summary("BODYSTRUCTURE \nendless: {0}\\r\\n")),
        (Any, MESSAGE, section(2 << 30, "endless: xxxxxxxx")),
        (Any, SEARCH, search("S: * ESEARCH (TAG \"{tag}\") UID ALL 1:4294967295\nS: {tag} OK")),
        // Answers that never end.
        (Full, PAGE, fetch("drip")),
        (Full, MESSAGE, section(2 << 30, "drip")),
        (Full, MESSAGE, section(32 << 20, "times 33554432: x\nhang")),
        (Full, RAW, uid_fetch(&format!("S: * 1 FETCH (UID 5 BODY[] {{{}}}\ndrip", 2_u64 << 30))),
        // Answers that end only at a limit of length.
        (Full, FOLDERS, list("flood: * LIST () \"/\" x")),
        (Full, FOLDERS, list("flood: * STATUS x (MESSAGES 1 UNSEEN 1 SIZE 1)")),
        (Full, PAGE, fetch("flood: * 1 FETCH (UID 5 FLAGS (\\Seen))")),
        (Full, PAGE, fetch("flood: * 1 EXISTS")),
        (Full, PAGE, fetch("endless: * 1 FETCH (FLAGS (")),
        (Full, SEARCH, search("flood: * SEARCH 9 7 5 3")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn a_hostile_imap_server_stops_no_other_client() {
    let (imap, smtp) = (ScriptedServer::start(&["hang".to_owned()]).await, SmtpSink::start().await);
    let host = EmbeddedHost::open(&[
        ("MAILAPI_MAIL__BACKEND", "external"),
        ("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", &smtp.address().port().to_string()),
        ("MAILAPI_MAIL__EXTERNAL__IMAP__PORT", &imap.port.to_string()),
        ("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "secret of the master"),
        ("MAILAPI_LIMITS__MESSAGES_PER_DAY", "100000000"),
        ("MAILAPI_LIMITS__RECIPIENTS_PER_DAY", "100000000"),
    ])
    .await;
    let runs = |when: Size| when == Size::Any || size(1, 0) == 1;
    for (_, path, attack) in attacks().iter().filter(|(when, ..)| runs(*when)) {
        imap.play(&[format!("{LOGIN}\n{attack}")]);
        let name = format!("{path}: {}", &attack[attack.len().saturating_sub(60)..].replace('\n', " | "));
        let ask = |n: usize| {
            let (mailbox, token) = [("ann", &host.ann), ("bob", &host.bob)][n % 2];
            let path = format!("/mailbox/{mailbox}@example.org{path}");
            let host = &host;
            async move { host.get(&path, token).await }
        };
        let asked = futures_util::future::join_all((0..2 * size(REQUESTS, 2)).map(ask));
        let answers = answered_during(&host, &name, asked).await;
        let refused = |&(status, is_whole): &(u16, bool)| !is_whole || [200, 500, 503].contains(&status);
        assert!(answers.iter().all(refused), "{name}: {answers:?}");
    }
    host.stands("a hostile IMAP server").await;
}
