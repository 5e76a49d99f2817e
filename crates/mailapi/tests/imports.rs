//! `mailapi import` and `import-all` from IMAP servers that are odd or damaged, each played by a script.

mod support;

use std::fmt::Write as _;
use std::fs;

use mailapi_testkit::Dovecot;
use mailapi_testkit::scripted_imap::ScriptedServer as ScriptedImap;
use support::{Answer, WorkDir};

const ANN: &str = "ann@example.org";

/// The start of a connection.
const LOGIN: &str = "\
S: * OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] ready
C: AUTHENTICATE PLAIN
S: {tag} OK [CAPABILITY IMAP4rev1 NAMESPACE] logged in
";

/// The names of a server without namespaces.
const NO_NAMESPACES: &str = "\
C: NAMESPACE
S: * NAMESPACE NIL NIL NIL
S: {tag} OK
";

fn with_users(users: &[&str]) -> WorkDir {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    for user in users {
        work_dir.run_with_input(&["user", "add", user], "correct horse\n").answer();
    }
    fs::write(work_dir.path().join("password"), "secret\n").unwrap();
    work_dir
}

async fn import(work_dir: &WorkDir, server: &ScriptedImap, more: &[&str]) -> Answer {
    let port = server.port.to_string();
    let given = [
        "import",
        ANN,
        "imap",
        "127.0.0.1",
        "--port",
        &port,
        "--tls",
        "none",
        "--user",
        "ann",
        "--password-file",
        "password",
    ];
    let command = work_dir.command(&[&given[..], more].concat());
    run(command).await
}

/// Runs a command, while the server plays in this thread.
async fn run(command: std::process::Command) -> Answer {
    tokio::task::spawn_blocking(move || Answer::of_command(command, "")).await.unwrap()
}

/// Returns lines of a script that list folders, each with its attributes.
fn list(folders: &[(&str, &str)]) -> String {
    let mut script = "C: LIST \"\" \"*\"\n".to_owned();
    for (name, attributes) in folders {
        let _ = writeln!(script, "S: * LIST ({attributes}) \".\" {name}");
    }
    script + "S: {tag} OK\n"
}

/// Opens a folder with this number of messages.
fn examine(name: &str, messages: u32) -> String {
    format!("C: EXAMINE \"{name}\"\nS: * {messages} EXISTS\nS: * OK [UIDVALIDITY 7] valid\nS: {{tag}} OK\n")
}

/// Opens a folder, and finds these messages in it.
fn open(name: &str, messages: u32, found: &str) -> String {
    let status = format!("C: STATUS \"{name}\"\nS: * STATUS \"{name}\" (UIDNEXT 9)\nS: {{tag}} OK\n");
    status + &examine(name, messages) + &format!("C: UID SEARCH ALL\nS: * SEARCH{found}\nS: {{tag}} OK\n")
}

fn sizes(set: &str) -> String {
    format!("C: UID FETCH {set} (UID RFC822.SIZE)\nS: {{tag}} OK\n")
}

fn fetch(set: &str) -> String {
    format!("C: UID FETCH {set} (UID FLAGS INTERNALDATE BODY.PEEK[])\n")
}

/// The response with a message.
fn message(uid: u32, flags: &str, date: &str) -> String {
    let text = format!("Date: Fri, 20 Nov 2026 10:00:00 +0000\\r\\nSubject: {uid}\\r\\n\\r\\nx\\r\\n");
    let octets = text.replace("\\r\\n", "\r\n").len();
    format!("S: * {uid} FETCH (UID {uid} FLAGS ({flags}) INTERNALDATE {date} BODY[] {{{octets}}}\\r\\n{text})\n")
}

const DATE: &str = "\"20-Nov-2026 11:00:00 +0100\"";
const OK: &str = "S: {tag} OK\n";
const NO: &str = "S: {tag} NO [SERVERBUG] Internal error\n";
const LOGOUT: &str = "C: LOGOUT\nS: {tag} OK\n";

#[tokio::test]
async fn odd_flags_and_dates_are_left_out_and_counted() {
    let work_dir = with_users(&[ANN]);
    let messages =
        [message(1, "\\Seen [x] \"q q\" \\Odd \u{fc} todo", "NIL"), message(2, " $Junk  \\Recent ", DATE)].concat();
    let script = [
        LOGIN,
        NO_NAMESPACES,
        &list(&[("INBOX", "")]),
        &open("INBOX", 2, "  1 2 "),
        &sizes("1:2"),
        &fetch("1:2"),
        &messages,
        OK,
        LOGOUT,
    ];
    let server = ScriptedImap::start(&[script.concat()]).await;
    let imported = import(&work_dir, &server, &[]).await.answer();
    server.assert_no_surprise();
    let expected = "INBOX: 2 imported, 0 skipped, 0 failed; UIDs kept; left out: 4 unusable flags, 1 missing date\n";
    assert!(imported.starts_with(expected), "{imported}");
    work_dir.run(&["export", ANN, "mbox", "out"]).answer();
    let mbox = fs::read_to_string(work_dir.path().join("out/INBOX.mbox")).unwrap();
    // Without a time of receipt, a message has that of its header.
    assert_eq!(mbox.matches("From MAILER-DAEMON Fri Nov 20 10:00:00 2026\n").count(), 2, "{mbox}");
    assert!(
        mbox.contains("Status: RO\nX-Status: \nX-Keywords: todo\n") && mbox.contains("X-Keywords: $Junk\n"),
        "{mbox}"
    );
}

#[tokio::test]
async fn what_the_server_refuses_is_named_and_the_rest_is_imported() {
    let work_dir = with_users(&[ANN]);
    let script = [
        LOGIN,
        NO_NAMESPACES,
        &list(&[("INBOX", ""), ("Broken", ""), ("Gr\u{fc}n", ""), ("Work", "")]),
        &open("INBOX", 3, " 1 2 3"),
        &sizes("1:3"),
        &fetch("1:3"),
        &message(1, "", DATE),
        NO,
        &fetch("2"),
        NO,
        &fetch("3"),
        &message(3, "", DATE),
        OK,
        "C: STATUS \"Broken\"\n",
        NO,
        "C: EXAMINE \"Broken\"\n",
        NO,
        &open("Work", 1, " 4"),
        "C: UID FETCH 4 (UID RFC822.SIZE)\n",
        NO,
        &fetch("4"),
        &message(4, "", DATE),
        OK,
        LOGOUT,
    ];
    let server = ScriptedImap::start(&[script.concat()]).await;
    let answer = import(&work_dir, &server, &[]).await;
    server.assert_no_surprise();
    let expected = "Gr\u{fc}n: not imported: no folder can have this name\n\
        INBOX UID 2: not imported: the server refuses it: Internal error\n\
        INBOX: 2 imported, 0 skipped, 1 failed; UIDs kept\n\
        Broken: not imported: the server refuses it: Internal error\n\
        Work: 1 imported, 0 skipped, 0 failed; UIDs kept\n\
        ann@example.org: 3 imported, 0 skipped, 3 failed\n";
    assert_eq!(answer.stdout, expected);
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(1), "mailapi: 3 not imported\n"));
}

#[tokio::test]
async fn a_message_that_ends_the_connection_does_not_end_the_import() {
    let work_dir = with_users(&[ANN]);
    let first = [
        LOGIN,
        NO_NAMESPACES,
        &list(&[("INBOX", "")]),
        &open("INBOX", 3, " 1 2 3"),
        &sizes("1:3"),
        &fetch("1:3"),
        &message(1, "", DATE),
        "S: * 2 FETCH (UID 2 FLAGS () BODY[] {9}\\r\\nSub\nclose\n",
    ];
    let second = [LOGIN, &examine("INBOX", 3), &fetch("2"), "S: * BYE Internal error\nclose\n"];
    let third = [LOGIN, &examine("INBOX", 3), &fetch("3"), &message(3, "", DATE), OK, LOGOUT];
    let server = ScriptedImap::start(&[first.concat(), second.concat(), third.concat()]).await;
    let answer = import(&work_dir, &server, &[]).await;
    server.assert_no_surprise();
    assert!(answer.stdout.starts_with("INBOX UID 2: not imported: "), "{}", answer.stdout);
    assert!(answer.stdout.contains("INBOX: 2 imported, 0 skipped, 1 failed; UIDs kept\n"), "{}", answer.stdout);
    assert_eq!((answer.code, server.connections()), (Some(1), 3));
}

#[tokio::test]
async fn messages_that_a_search_misses_are_listed_by_number() {
    let work_dir = with_users(&[ANN]);
    let numbers = "C: FETCH 1:3 (UID)\nS: * 1 FETCH (UID 5)\nS: * 2 FETCH (UID 6)\nS: {tag} OK\n";
    let script = [
        LOGIN,
        NO_NAMESPACES,
        &list(&[("INBOX", "")]),
        &open("INBOX", 3, ""),
        numbers,
        &sizes("5:6"),
        &fetch("5:6"),
        &message(5, "", DATE),
        &message(6, "", DATE),
        OK,
        LOGOUT,
    ];
    let server = ScriptedImap::start(&[script.concat()]).await;
    let answer = import(&work_dir, &server, &[]).await;
    server.assert_no_surprise();
    let expected = "INBOX: 1 messages not imported: the server counts them and does not list them\n\
        INBOX: 2 imported, 0 skipped, 1 failed; UIDs kept\n";
    assert!(answer.code == Some(1) && answer.stdout.starts_with(expected), "{answer:?}");
}

#[tokio::test]
async fn folders_of_others_are_left_and_own_ones_get_their_names_here() {
    let work_dir = with_users(&[ANN]);
    let namespaces =
        "C: NAMESPACE\nS: * NAMESPACE ((\"INBOX.\" \".\")) ((\"user.\" \".\")) ((\"\" \".\"))\nS: {tag} OK\n";
    let folders = [
        ("INBOX", "\\HasChildren"),
        ("\"INBOX.Sent Items\"", "\\Sent"),
        ("\"INBOX.Sent Items.2024\"", ""),
        ("INBOX.All", "\\All"),
        ("\"INBOX.50% off*\"", ""),
        ("user.bob", ""),
        ("news", ""),
    ];
    let empty = |name: &str| open(name, 0, "").split("C: UID SEARCH").next().unwrap().to_owned();
    let script = [
        LOGIN,
        namespaces,
        &list(&folders),
        &empty("INBOX"),
        &empty("INBOX.50% off*"),
        &empty("INBOX.Sent Items"),
        &empty("INBOX.Sent Items.2024"),
        LOGOUT,
    ];
    let server = ScriptedImap::start(&[script.concat()]).await;
    let imported = import(&work_dir, &server, &[]).await.answer();
    server.assert_no_surprise();
    let expected = "All: skipped: it shows messages of other folders; --folder \"All\" imports it\n\
        news: skipped: it belongs to other users; --folder \"news\" imports it\n\
        user/bob: skipped: it belongs to other users; --folder \"user/bob\" imports it\n\
        Sent Items: imported as Sent\nSent Items/2024: imported as Sent/2024\n\
        INBOX: 0 imported, 0 skipped, 0 failed; UIDs kept\n50% off*: 0 imported, 0 skipped, 0 failed; UIDs kept\n\
        Sent: 0 imported, 0 skipped, 0 failed; UIDs kept\nSent/2024: 0 imported, 0 skipped, 0 failed; UIDs kept\n";
    assert!(imported.starts_with(expected), "{imported}");
    // A mail program sees every folder, and opens it.
    let running = work_dir.serve();
    let address = running.running["imap"].as_str().unwrap().to_owned();
    tokio::task::spawn_blocking(move || {
        let mut program = support::Dialogue::begin(&address, "* OK");
        program.say("a LOGIN ann@example.org \"correct horse\"", "a OK");
        program.say("b LIST \"\" \"50%*\"", "* LIST (\\HasNoChildren) \"/\" \"50% off*\"");
        program.hear("b OK");
        program.say("c LIST \"\" Sent", "* LIST (\\HasChildren \\Sent) \"/\" Sent");
        program.hear("c OK");
        program.say("d STATUS \"50% off*\" (MESSAGES)", "* STATUS \"50% off*\" (MESSAGES 0)");
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn folders_that_only_their_prefix_lists_are_named() {
    let work_dir = with_users(&[ANN]);
    let namespaces =
        "C: NAMESPACE\nS: * NAMESPACE ((\"INBOX.\" \".\")) ((\"users.\" \".\")) ((\"#shared.\" \".\"))\nS: {tag} OK\n";
    let empty = |name: &str| open(name, 0, "").split("C: UID SEARCH").next().unwrap().to_owned();
    let shared = "S: * LIST (\\HasNoChildren) \".\" \"#shared.bob.Work\"\nS: * LIST () \".\" INBOX\n";
    let script = [
        LOGIN,
        namespaces,
        &list(&[("INBOX", ""), ("INBOX.Sent", "")]),
        "C: LIST \"\" \"users.*\"\n",
        NO,
        "C: LIST \"\" \"#shared.*\"\n",
        shared,
        OK,
        &empty("INBOX"),
        &empty("INBOX.Sent"),
        LOGOUT,
    ];
    let server = ScriptedImap::start(&[script.concat()]).await;
    let imported = import(&work_dir, &server, &[]).await.answer();
    server.assert_no_surprise();
    let expected = "#shared/bob/Work: skipped: it belongs to other users; --folder \"#shared/bob/Work\" imports it\n\
        INBOX: 0 imported, 0 skipped, 0 failed; UIDs kept\nSent: 0 imported, 0 skipped, 0 failed; UIDs kept\n";
    assert!(imported.starts_with(expected), "{imported}");
}

#[tokio::test]
async fn an_endless_list_of_folders_ends_the_import() {
    let work_dir = with_users(&[ANN]);
    let names: Vec<String> = (0..50_001).map(|number| format!("f{number}")).collect();
    let folders: Vec<_> = names.iter().map(|name| (name.as_str(), "\\HasNoChildren")).collect();
    let server = ScriptedImap::start(&[[LOGIN, NO_NAMESPACES, &list(&folders)].concat()]).await;
    let refused = import(&work_dir, &server, &[]).await;
    let expected = "mailapi: 127.0.0.1: the server lists more than 50000 folders\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (Some(1), expected));
    server.assert_no_surprise();
}

#[tokio::test]
async fn a_message_is_imported_without_keywords_beyond_the_limits() {
    let work_dir = with_users(&[ANN]);
    let many: String = (0..60).map(|number| format!(" k{number}")).collect();
    let script = [
        LOGIN,
        NO_NAMESPACES,
        &list(&[("INBOX", "")]),
        &open("INBOX", 2, " 1 2"),
        &sizes("1:2"),
        &fetch("1:2"),
        &message(1, &format!("\\Seen todo {}", "x".repeat(101)), DATE),
        &message(2, &many, DATE),
        OK,
        LOGOUT,
    ];
    let server = ScriptedImap::start(&[script.concat()]).await;
    let imported = import(&work_dir, &server, &[]).await.answer();
    server.assert_no_surprise();
    let expected = "INBOX: 2 imported, 0 skipped, 0 failed; UIDs kept; left out: 11 unusable flags\n";
    assert!(imported.starts_with(expected), "{imported}");
}

#[tokio::test]
async fn all_users_of_a_server_are_imported_by_one_command() {
    let work_dir = with_users(&[ANN, "bob@example.org"]);
    let dovecot = Dovecot::start().await;
    for user in [ANN, "bob@example.org"] {
        dovecot.put_mailbox(user, None);
        dovecot.append(user, "INBOX", format!("Subject: of {user}\n\nx\n").as_bytes());
    }
    let port = dovecot.imap().port().to_string();
    fs::write(work_dir.path().join("master"), format!("{}\n", Dovecot::MASTER_PASSWORD)).unwrap();
    let given = ["import-all", "127.0.0.1", "--port", &port, "--tls", "none"];
    let by_master = ["--master-user", Dovecot::MASTER_USER, "--password-file", "master"];
    let imported = run(work_dir.command(&[&given[..], &by_master].concat())).await.answer();
    for user in [ANN, "bob@example.org"] {
        assert!(imported.contains(&format!("{user}: 1 imported, 0 skipped, 0 failed\n")), "{imported}");
    }
    let password = Dovecot::PASSWORD;
    let accounts = format!("email,password\n{ANN},{password}\ncid@example.org,{password}\nbob@example.org,wrong\nx\n");
    fs::write(work_dir.path().join("accounts.csv"), accounts).unwrap();
    let answer = run(work_dir.command(&[&given[..], &["--accounts", "accounts.csv"]].concat())).await;
    for expected in [
        "line 5: failed: there are 1 fields instead of 2\n",
        "ann@example.org: 0 imported, 1 skipped, 0 failed\n",
        "cid@example.org: failed: cid@example.org: the user does not exist\n",
        "bob@example.org: failed: 127.0.0.1: ",
    ] {
        assert!(answer.stdout.contains(expected), "{expected}: {}", answer.stdout);
    }
    assert!(!answer.stdout.contains(password) && !answer.stderr.contains("wrong"), "{answer:?}");
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(1), "mailapi: 3 mailboxes not imported completely\n"));
}
