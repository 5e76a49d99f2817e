//! `mailapi user import`, `mailapi import` and `mailapi export`, run as programs.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mailapi_testkit::Dovecot;
use support::WorkDir;

/// `secret`, as hashed by Dovecot.
const HASH: &str = "{BLF-CRYPT}$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.";
const ANN: &str = "ann@example.org";

/// Messages that the import from Dovecot compares; a larger number measures the speed.
const MESSAGES: &str = "MAILAPI_IMPORT_MESSAGES";

fn with_users(users: &[&str]) -> WorkDir {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    for user in users {
        work_dir.run_with_input(&["user", "add", user, "--quota", "1GiB"], "correct horse\n").answer();
    }
    work_dir
}

/// Returns the last line of a command's output.
fn last(output: &str) -> &str {
    output.lines().last().unwrap_or_default()
}

#[test]
fn users_of_a_csv_file_are_added_line_by_line() {
    let work_dir = with_users(&["bob@example.org"]);
    let csv = format!(
        "email,name,password_hash,password,quota_bytes\n{ANN},\"Lee, Ann\",{HASH},,5000\nbob@example.org,Bob,{HASH},,\n\
         cid@example.org,Cid,{{MD5}}x,,\n\ndan@nowhere.example,Dan,{HASH},,\neve@example.org,Eve,,correct horse,\n"
    );
    fs::write(work_dir.path().join("users.csv"), csv).unwrap();
    let expected = |created: &str| {
        format!(
            "line 2: {ANN}: {created}\nline 3: bob@example.org: skipped: the user already exists\n\
             line 4: failed: password_hash: must be a hash of the scheme {{SHA512-CRYPT}}, {{SSHA512}} or {{BLF-CRYPT}}\n\
             line 6: dan@nowhere.example: failed: the domain does not exist\nline 7: eve@example.org: {created}\n"
        )
    };
    let dry = work_dir.run(&["user", "import", "users.csv", "--dry-run"]);
    let end = "2 can be created, 1 skipped, 2 failed; nothing was written\n";
    assert_eq!((dry.code, dry.stdout), (Some(1), expected("can be created") + end));
    work_dir.run(&["user", "show", ANN]).complaint();
    let first = work_dir.run(&["user", "import", "users.csv"]);
    assert_eq!(first.stdout, expected("created") + "2 created, 1 skipped, 2 failed\n");
    assert_eq!((first.code, first.stderr.as_str()), (Some(1), "mailapi: users.csv: 2 of the lines failed\n"));
    let shown = work_dir.run(&["user", "show", ANN]).answer();
    assert!(shown.contains("Lee, Ann") && shown.contains("5000"), "{shown}");
    let again = work_dir.run(&["user", "import", "users.csv"]);
    assert_eq!(last(&again.stdout), "0 created, 3 skipped, 2 failed");
}

#[tokio::test]
async fn an_imported_user_logs_in_with_the_old_password() {
    let work_dir = with_users(&[]);
    fs::write(work_dir.path().join("users.csv"), format!("email,password_hash\n{ANN},{HASH}\n")).unwrap();
    let server = work_dir.serve();
    // Beside the running server.
    work_dir.run(&["user", "import", "users.csv"]).answer();
    let body = serde_json::json!({ "email": ANN, "password": "secret" });
    let answer = reqwest::Client::new().post(server.api("/auth/login")).json(&body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}

#[test]
fn what_cannot_be_imported_is_refused_in_one_line() {
    let work_dir = with_users(&[ANN]);
    fs::write(work_dir.path().join("note.txt"), "Subject: x\n\ny\n").unwrap();
    for (arguments, expected) in [
        (&["import", "bob@example.org", "maildir", "."][..], "bob@example.org: the user does not exist"),
        (&["export", "bob@example.org", "maildir", "out"], "bob@example.org: the user does not exist"),
        (&["export", ANN, "maildir", "."], ".: the directory is not empty"),
        (&["user", "import", "none.csv"], "none.csv: No such file"),
        (&["user", "import", "note.txt"], "note.txt: line 1: unknown column `Subject: x`"),
    ] {
        let complaint = work_dir.run(arguments).complaint();
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
    for (arguments, expected) in [
        (&["import", ANN, "maildir", "."][..], "is not a Maildir"),
        (&["import", ANN, "mbox", "note.txt"], "is not an mbox file"),
        (&["import", ANN, "mbox", "none.mbox"], "none.mbox: No such file"),
        (
            &[
                "import",
                ANN,
                "imap",
                "127.0.0.1",
                "--port",
                "1",
                "--user",
                "x",
                "--password-file",
                "note.txt",
                "--tls",
                "none",
            ],
            "127.0.0.1: ",
        ),
    ] {
        let answer = work_dir.run(arguments);
        assert!(answer.code == Some(1) && answer.stderr.contains(expected), "{arguments:?}: {answer:?}");
        assert_eq!(answer.stdout, format!("{ANN}: 0 imported, 0 skipped, 0 failed\n"));
    }
    let password = work_dir.run(&["import", ANN, "imap", "127.0.0.1", "--user", "x", "--password", "y"]);
    assert!(password.stderr.contains("unexpected argument '--password'"), "every user can list arguments");
}

#[test]
fn in_front_of_dovecot_the_command_of_doveadm_is_named() {
    let work_dir = WorkDir::new();
    let settings = "[mail]\nbackend = \"external\"\n[mail.external.imap]\nmaster_password = \"x\"\n";
    fs::write(work_dir.path().join("mailapi.toml"), settings).unwrap();
    for (arguments, expected) in [
        (&["import", ANN, "maildir", "/old"][..], "doveadm import -u ann@example.org maildir:/old '' ALL"),
        (
            &["import", ANN, "imap", "old.example", "--user", "ann"],
            "doveadm -o imapc_host=old.example -o imapc_user=ann",
        ),
        (&["export", ANN, "mbox", "/new"], "doveadm backup -u ann@example.org mbox:/new"),
    ] {
        let complaint = work_dir.run(arguments).complaint();
        assert!(complaint.contains(expected), "{complaint}");
    }
}

/// Writes an mbox file with messages that need quoting, some flags, and one that is too long.
fn old_mbox(work_dir: &WorkDir) {
    let mut mbox = String::new();
    for number in 0..250 {
        let (second, status) = (number % 60, if number % 2 == 0 { "Status: RO\n" } else { "" });
        let _ = write!(
            mbox,
            "From eve@elsewhere.example Fri Nov 20 10:15:{second:02} 2026\n{status}Subject: number {number}\n\n>From me\n\nx\n\n"
        );
    }
    let _ = write!(mbox, "From eve@x Fri Nov 20 10:16:00 2026\nSubject: long\n\n{}\n", "x".repeat(40_000));
    fs::write(work_dir.path().join("old.mbox"), mbox).unwrap();
}

#[test]
fn an_mbox_is_imported_beside_a_server_and_once() {
    let work_dir = with_users(&[ANN]);
    old_mbox(&work_dir);
    let _server = work_dir.serve();
    let mut command = work_dir.command(&["import", ANN, "mbox", "old.mbox", "--folder", "Old/Mail"]);
    command.env("MAILAPI_LIMITS__MAX_MESSAGE_BYTES", "30KiB");
    let first = support::Answer::of_command(command, "");
    assert_eq!((first.code, first.stderr.as_str()), (Some(1), "mailapi: 1 not imported\n"), "{}", first.stdout);
    let expected = "old.mbox message 251: not imported: the message exceeds the maximum size of 30720 bytes (limits.max_message_bytes)\n\
        Old/Mail: 250 imported, 0 skipped, 1 failed\nann@example.org: 250 imported, 0 skipped, 1 failed\n";
    assert_eq!(first.stdout, expected);
    let second = work_dir.run(&["import", ANN, "mbox", "old.mbox", "--folder", "Old/Mail"]).answer();
    assert_eq!(last(&second), "ann@example.org: 1 imported, 250 skipped, 0 failed");
}

#[test]
fn a_full_mailbox_refuses_the_rest() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    work_dir.run_with_input(&["user", "add", ANN, "--quota", "10KiB"], "correct horse\n").answer();
    old_mbox(&work_dir);
    let answer = work_dir.run(&["import", ANN, "mbox", "old.mbox"]);
    assert!(answer.stdout.contains("old.mbox message 251: not imported: the mailbox is full\n"), "{}", answer.stdout);
    assert_eq!(answer.code, Some(1));
}

/// The messages of a Maildir: folder, UID and flags, and the octets with the time of receipt.
fn contents(root: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut all = BTreeMap::new();
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).chain([root.to_owned()]);
    for folder in folders.filter(|folder| folder.join("cur").is_dir()) {
        for file in fs::read_dir(folder.join("cur")).unwrap().map(|entry| entry.unwrap().path()) {
            let relative = file.strip_prefix(root).unwrap().display().to_string();
            all.insert(relative, (fs::read(&file).unwrap(), file.metadata().unwrap().modified().unwrap()));
        }
        let list = fs::read(folder.join("dovecot-uidlist")).unwrap();
        all.insert(format!("{}/uids", folder.strip_prefix(root).unwrap().display()), (list, UNIX_EPOCH));
    }
    all
}

#[test]
fn a_mailbox_that_was_exported_comes_back() {
    let work_dir = with_users(&[ANN, "bob@example.org", "cid@example.org"]);
    old_mbox(&work_dir);
    work_dir.run(&["import", ANN, "mbox", "old.mbox", "--folder", "Old.Mail/&x"]).answer();
    work_dir.run(&["import", ANN, "mbox", "old.mbox"]).answer();
    let exported = work_dir.run(&["export", ANN, "maildir", "one"]).answer();
    assert_eq!(last(&exported), "ann@example.org: 502 messages exported");
    let imported = work_dir.run(&["import", "bob@example.org", "maildir", "one"]).answer();
    assert!(imported.starts_with("INBOX: 251 imported, 0 skipped, 0 failed; UIDs kept\n"), "{imported}");
    work_dir.run(&["export", "bob@example.org", "maildir", "two"]).answer();
    assert_eq!(contents(&work_dir.path().join("one")), contents(&work_dir.path().join("two")));
    let again = work_dir.run(&["import", "bob@example.org", "maildir", "one"]).answer();
    assert_eq!(last(&again), "bob@example.org: 0 imported, 502 skipped, 0 failed");
    // By way of mbox files, UIDs are new, and all the rest is the same.
    work_dir.run(&["export", ANN, "mbox", "three"]).answer();
    work_dir.run(&["import", "cid@example.org", "mbox", "three"]).answer();
    work_dir.run(&["export", "cid@example.org", "mbox", "four"]).answer();
    let read = |name: &str, file: &str| fs::read(work_dir.path().join(name).join(file)).unwrap();
    for file in ["INBOX.mbox", "Old&AC4-Mail.&-x.mbox"] {
        assert_eq!(read("three", file), read("four", file), "{file}");
    }
}

#[test]
fn a_directory_without_mail_is_an_error() {
    let work_dir = with_users(&[ANN]);
    fs::create_dir_all(work_dir.path().join("empty/sub")).unwrap();
    fs::write(work_dir.path().join("empty/notes.txt"), "Hello\n").unwrap();
    let answer = work_dir.run(&["import", ANN, "mbox", "empty"]);
    let left = "empty/notes.txt: skipped: is not an mbox file\n";
    assert!(answer.code == Some(1) && answer.stdout.contains(left), "{answer:?}");
    assert!(answer.stderr.contains("empty: has no mail that can be read"), "{}", answer.stderr);
}

#[test]
fn labels_of_takeout_become_flags_and_folders() {
    let work_dir = with_users(&[ANN]);
    let message = |labels: &str, subject: &str| {
        format!("From 1@xxx Fri Nov 20 10:15:30 +0000 2026\nX-Gmail-Labels: {labels}\nSubject: {subject}\n\nx\n\n")
    };
    let mbox = [
        message("Inbox,Starred,Unread", "one"),
        message("Sent,Opened", "two"),
        message("Spam,Opened", "three"),
        message("Drafts", "four"),
        message("Archived,Opened", "five"),
        message("Sent,Opened", "six"),
    ];
    fs::write(work_dir.path().join("All mail.mbox"), mbox.concat()).unwrap();
    let imported = work_dir.run(&["import", ANN, "mbox", "All mail.mbox"]).answer();
    let counts = |folder: &str, count: u32| format!("{folder}: {count} imported, 0 skipped, 0 failed\n");
    let expected = [("INBOX", 1), ("Sent", 2), ("Junk", 1), ("Drafts", 1), ("Archive", 1), (ANN, 6)];
    assert_eq!(imported, expected.map(|(folder, count)| counts(folder, count)).concat());
    work_dir.run(&["export", ANN, "mbox", "out"]).answer();
    let read = |name: &str| fs::read_to_string(work_dir.path().join("out").join(name)).unwrap();
    assert!(read("INBOX.mbox").contains("Status: O\nX-Status: F\nX-Keywords: \n"), "{}", read("INBOX.mbox"));
    assert!(read("Junk.mbox").contains("Status: RO\nX-Status: \nX-Keywords: $Junk\n"), "{}", read("Junk.mbox"));
    let again = work_dir.run(&["import", ANN, "mbox", "All mail.mbox"]).answer();
    assert_eq!(last(&again), "ann@example.org: 0 imported, 6 skipped, 0 failed");
}

#[tokio::test]
async fn dovecot_reads_an_export_whole() {
    let (work_dir, dovecot) = (with_users(&[ANN]), Dovecot::start().await);
    dovecot.put_mailbox(ANN, None);
    let mbox = "From - Fri Nov 20 10:00:00 2026\nX-Mozilla-Status: 1001\nSubject: one\n\nx\n";
    fs::write(work_dir.path().join("old.mbox"), mbox).unwrap();
    for folder in ["v1.2", "v1_2", "Größe/a.b", "INBOX"] {
        work_dir.run(&["import", ANN, "mbox", "old.mbox", "--folder", folder]).answer();
    }
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    work_dir.run(&["export", ANN, "maildir", out.to_str().unwrap()]).answer();
    let comes_back = with_users(&[ANN]);
    let imported = comes_back.run(&["import", ANN, "maildir", out.to_str().unwrap()]).answer();
    for folder in ["v1.2", "v1_2", "Größe/a.b", "INBOX"] {
        assert!(imported.contains(&format!("{folder}: 1 imported, 0 skipped, 0 failed; UIDs kept\n")), "{imported}");
    }
    open_to_all(place.path());
    let at = match Dovecot::version() {
        "2.3" => vec!["-o".to_owned(), format!("mail_location=maildir:{}", out.display())],
        _ => vec![
            "-o".to_owned(),
            "mail_driver=maildir".to_owned(),
            "-o".to_owned(),
            format!("mail_path={}", out.display()),
        ],
    };
    let doveadm = |arguments: &[&str]| {
        let at = at.iter().map(String::as_str);
        dovecot.doveadm(&at.chain(arguments.iter().copied()).collect::<Vec<_>>())
    };
    let separator = if doveadm(&["mailbox", "list", "-u", ANN]).contains("Größe/a_b") { "/" } else { "." };
    let folders = ["INBOX".to_owned(), "v1_2".to_owned(), "v1_2_".to_owned(), format!("Größe{separator}a_b")];
    for options in [&["mailbox", "list", "-u", ANN][..], &["mailbox", "list", "-s", "-u", ANN]] {
        let listed = doveadm(options);
        for folder in &folders {
            assert!(listed.lines().any(|line| line == folder), "{options:?}: {folder}: {listed}");
        }
    }
    for folder in &folders {
        let flags = doveadm(&["-f", "tab", "fetch", "-u", ANN, "flags", "mailbox", folder]);
        assert!(flags.contains("\\Seen") && flags.contains("$Forwarded"), "{folder}: {flags}");
    }
}

/// A message of any shape: long lines, dots, 8-bit bytes, parts.
fn varied(number: u32) -> String {
    let body = match number % 5 {
        0 => ".\r\n..\r\nFrom here\r\n".to_owned(),
        1 => "x".repeat(usize::try_from(number).unwrap() * 37 % 90_000),
        2 => "Gr\u{fc}\u{df}e\r\n\r\n".repeat(3),
        3 => String::new(),
        _ => "--b\r\nContent-Type: text/html\r\n\r\n<p>x</p>\r\n--b--\r\n".to_owned(),
    };
    format!(
        "From: eve@elsewhere.example\r\nTo: ann@example.org\r\nSubject: number {number}\r\n\
         Message-ID: <{number}@elsewhere.example>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{body}"
    )
}

/// Fills the mailbox of a Dovecot with one command, so that its UIDs, flags and dates are its own.
fn fill(dovecot: &Dovecot, messages: u32) {
    let source = tempfile::tempdir().unwrap();
    let root = source.path().join("Maildir");
    for part in ["", "cur", "new", "tmp", ".Work.2026", ".Work.2026/cur", ".Work.2026/new", ".Work.2026/tmp"] {
        fs::create_dir_all(root.join(part)).unwrap();
    }
    for number in 0..messages {
        let folder = if number % 3 == 0 { ".Work.2026/cur" } else { "cur" };
        let path = root.join(format!("{folder}/{}.M{number}P1.old:2,{}", 1_500_000_000 + number, letters(number)));
        fs::write(&path, varied(number)).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(received(number)).unwrap();
    }
    open_to_all(source.path());
    dovecot.doveadm(&["import", "-u", ANN, &format!("maildir:{}", root.display()), "", "ALL"]);
}

const fn letters(number: u32) -> &'static str {
    match number % 4 {
        0 => "",
        1 => "S",
        2 => "FRS",
        _ => "DST",
    }
}

fn received(number: u32) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_400_000_000 + u64::from(number))
}

/// Dovecot's processes run as another user.
fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| open_to_all(&entry.unwrap().path()));
    }
}

/// Returns the UIDs of a folder by subject, as Dovecot shows them.
fn uids_of(dovecot: &Dovecot, folder: &str) -> BTreeMap<String, u32> {
    let shown = dovecot.doveadm(&["-f", "tab", "fetch", "-u", ANN, "uid hdr.subject", "mailbox", folder]);
    let rows = shown.lines().skip(1).map(|line| line.split_once('\t').unwrap());
    rows.map(|(uid, subject)| (subject.to_owned(), uid.parse().unwrap())).collect()
}

/// Compares an exported folder with what was written into Dovecot. Returns the number of messages.
fn compare(directory: &Path, uids: &BTreeMap<String, u32>, validity: &str) -> usize {
    let list = fs::read_to_string(directory.join("dovecot-uidlist")).unwrap();
    assert!(list.starts_with(&format!("3 V{validity} N")), "{list:.40}");
    for line in list.lines().skip(1) {
        let (uid, name) = line.split_once(" :").unwrap();
        let path = directory.join("cur").join(name);
        let octets = fs::read_to_string(&path).unwrap();
        let subject = octets.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap();
        let number = subject.strip_prefix("number ").unwrap().parse().unwrap();
        assert_eq!(octets.replace('\n', "\r\n"), varied(number), "{subject}");
        assert_eq!(uids.get(subject), Some(&uid.parse().unwrap()), "{subject}");
        assert_eq!(name.split_once(":2,").unwrap().1, letters(number), "{subject}");
        assert_eq!(path.metadata().unwrap().modified().unwrap(), received(number), "{subject}");
    }
    list.lines().count() - 1
}

#[tokio::test]
async fn a_mailbox_of_dovecot_is_imported_byte_for_byte() {
    let wanted = std::env::var_os(MESSAGES);
    let messages = wanted.map_or(300, |count| count.to_str().and_then(|count| count.parse().ok()).expect("a number"));
    let (work_dir, dovecot) = (with_users(&[ANN]), Dovecot::start().await);
    dovecot.put_mailbox(ANN, None);
    fill(&dovecot, messages);
    fs::write(work_dir.path().join("password"), format!("{}\n", Dovecot::MASTER_PASSWORD)).unwrap();
    let port = dovecot.imap().port().to_string();
    let import = [
        &["import", ANN, "imap", "127.0.0.1", "--port", &port, "--tls", "none", "--user", ANN][..],
        &["--master-user", Dovecot::MASTER_USER, "--password-file", "password"],
    ]
    .concat();
    let begun = Instant::now();
    let imported = work_dir.run(&import).answer();
    #[expect(clippy::print_stdout, reason = "a long run reports its speed")]
    {
        println!("{messages} messages in {:?}", begun.elapsed());
    }
    assert!(imported.starts_with("INBOX: ") && imported.contains("; UIDs kept\n"), "{imported}");
    assert_eq!(last(&imported), format!("{ANN}: {messages} imported, 0 skipped, 0 failed"));
    work_dir.run(&["export", ANN, "maildir", "out"]).answer();
    let mut compared = 0;
    for (folder, directory) in [("INBOX", "out"), ("Work/2026", "out/.Work.2026")] {
        let status = dovecot.doveadm(&["-f", "tab", "mailbox", "status", "-u", ANN, "uidvalidity", folder]);
        let validity = status.lines().nth(1).unwrap().split('\t').next_back().unwrap();
        compared += compare(&work_dir.path().join(directory), &uids_of(&dovecot, folder), validity);
    }
    assert_eq!(compared, usize::try_from(messages).unwrap());
    // A later run brings what arrived since.
    dovecot.append(ANN, "INBOX", b"Subject: late\n\nx\n");
    let again = work_dir.run(&import).answer();
    assert_eq!(last(&again), format!("{ANN}: 1 imported, {messages} skipped, 0 failed"));
}

/// Writes a Maildir with one message. Returns its path.
fn small_maildir(work_dir: &WorkDir) -> std::path::PathBuf {
    let root = work_dir.path().join("Maildir");
    for part in ["cur", "new"] {
        fs::create_dir_all(root.join(part)).unwrap();
    }
    fs::write(root.join("cur/1500000000.a:2,S"), "Subject: own\n\nx\n").unwrap();
    root
}

fn fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn an_import_reads_no_files_but_those_of_the_maildir() {
    let work_dir = with_users(&[ANN]);
    let root = small_maildir(&work_dir);
    fs::create_dir_all(work_dir.path().join("other/cur")).unwrap();
    fs::write(work_dir.path().join("other/cur/1500000001.b:2,S"), "Subject: secret\n\ny\n").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, root.join(name)).unwrap();
    link(&work_dir.path().join("other/cur/1500000001.b:2,S"), "cur/1500000002.c:2,S");
    link(&work_dir.path().join("other"), ".Other\n\u{1b}[2J");
    link(Path::new("/dev/zero"), "dovecot-keywords");
    fifo(&root.join("dovecot-uidlist"));
    let answer = work_dir.run(&["import", ANN, "maildir", "Maildir"]);
    assert_eq!((answer.code, last(&answer.stdout)), (Some(1), "ann@example.org: 1 imported, 0 skipped, 4 failed"));
    for (name, reason) in [
        ("cur/1500000002.c:2,S", "is a symbolic link"),
        (".Other\u{fffd}\u{fffd}[2J", "is a symbolic link"),
        ("dovecot-keywords", "is a symbolic link"),
        ("dovecot-uidlist", "is a FIFO"),
    ] {
        let expected = format!("Maildir/{name}: refused, because it {reason}\n");
        assert!(answer.stdout.contains(&expected), "{expected}: {}", answer.stdout);
    }
    work_dir.run(&["export", ANN, "mbox", "out"]).answer();
    let inbox = fs::read_to_string(work_dir.path().join("out/INBOX.mbox")).unwrap();
    assert!(inbox.contains("Subject: own") && !inbox.contains("secret"), "{inbox}");
    fifo(&work_dir.path().join("out/Fifo.mbox"));
    let answer = work_dir.run(&["import", ANN, "mbox", "out"]);
    assert!(answer.stdout.contains("out/Fifo.mbox: refused, because it is a FIFO\n"), "{}", answer.stdout);
    assert!(answer.stdout.contains("INBOX: 1 imported"), "{}", answer.stdout);
    let named = work_dir.run(&["import", ANN, "mbox", "out/Fifo.mbox"]);
    assert_eq!(named.stderr, "mailapi: out/Fifo.mbox: refused, because it is a FIFO\n");
}

#[test]
fn an_import_names_the_reason_for_new_uids() {
    for (list, reason) in [
        ("3 V4294967295 N9\n5 :1500000000.a\n", "the UIDVALIDITY of the source is missing, 0, or far in the future"),
        ("3 V0 N0\n5 :1500000000.a\n", "the UIDVALIDITY of the source is missing, 0, or far in the future"),
        ("7 of another format\n", "the UIDVALIDITY of the source is missing, 0, or far in the future"),
        ("3 V1400000000 N4294967295\n5 :1500000000.a\n", "those of the source leave too few for future messages"),
        ("3 V1400000000 N9\n5 :1500000000.a\n5 :1500000001.b\n", "the source repeats a UID, or its UIDs do not rise"),
    ] {
        let work_dir = with_users(&[ANN]);
        let root = small_maildir(&work_dir);
        fs::write(root.join("cur/1500000001.b:2,S"), "Subject: second\n\n").unwrap();
        fs::write(root.join("dovecot-uidlist"), list).unwrap();
        let imported = work_dir.run(&["import", ANN, "maildir", "Maildir"]).answer();
        let expected = format!("INBOX: 2 imported, 0 skipped, 0 failed; new UIDs, since {reason}\n");
        assert!(imported.starts_with(&expected), "{imported}");
    }
}

#[test]
fn one_line_of_a_source_does_not_close_an_inbox() {
    let work_dir = with_users(&[ANN]);
    let root = small_maildir(&work_dir);
    fs::write(root.join("dovecot-uidlist"), "3 V1400000000 N4294967295\n4294967295 :1500000000.a\n").unwrap();
    let imported = work_dir.run(&["import", ANN, "maildir", "Maildir"]).answer();
    let expected = "INBOX: 1 imported, 0 skipped, 0 failed; new UIDs, since those of the source leave too few for future \
        messages\n";
    assert!(imported.starts_with(expected), "{imported}");
    old_mbox(&work_dir);
    work_dir.run(&["import", ANN, "mbox", "old.mbox"]).answer();
    let healthy = "ok     mailboxes: each can take mail\n";
    let doctor = work_dir.run(&["doctor"]);
    assert!(doctor.stdout.contains(healthy), "{}", doctor.stdout);
    // What an earlier version has kept is named, and mended at the next start.
    let database = rusqlite::Connection::open(work_dir.data().join("mailapi.db")).unwrap();
    database.execute("UPDATE drop_folders SET uid_next = 4294967295 WHERE name = 'INBOX'", []).unwrap();
    let doctor = work_dir.run(&["doctor"]);
    let named = "WRONG  mailboxes: ann@example.org: the numbers of the folder INBOX are used up or damaged\n";
    assert!(doctor.stdout.contains(named), "{}", doctor.stdout);
    drop(work_dir.serve());
    let doctor = work_dir.run(&["doctor"]);
    assert!(doctor.stdout.contains(healthy), "{}", doctor.stdout);
}
