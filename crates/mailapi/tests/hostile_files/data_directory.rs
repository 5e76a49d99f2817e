//! Traps in the data directory.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Stdio;

use crate::traps::{Fixture, is_root, traps};

/// Every command that uses a data directory; `serve` has a test of its own.
const COMMANDS: &[&[&str]] = &[
    &["migrate"],
    &["domain", "add", "example.net"],
    &["domain", "list"],
    &["domain", "remove", "example.net", "--yes"],
    &["user", "add", "cid@example.org"],
    &["user", "import", "users.csv"],
    &["user", "passwd", "ann@example.org"],
    &["user", "app-password", "add", "ann@example.org", "--name", "phone"],
    &["alias", "add", "info@example.org", "ann@example.org"],
    &["token", "create", "--type", "admin", "--name", "one"],
    &["webhook", "list"],
    &["events"],
    &["queue", "list"],
    &["doctor"],
    &["import", "ann@example.org", "mbox", "mail.mbox"],
    &["export", "ann@example.org", "maildir", "exported"],
    &["backup", "backups", "--keep", "1"],
    &["backup", "--verify", "backups"],
    &["restore", "backups"],
    &["config", "check"],
];

/// Runs every command on a data directory with these traps, one kind of them after the other.
fn meet(names: &[&str]) {
    let fixture = Fixture::new();
    let before = fixture.outside();
    for (kind, put) in traps() {
        names.iter().for_each(|name| fixture.replace(&format!("mailapi-data/{name}"), put));
        for arguments in COMMANDS {
            fixture.run(arguments);
            assert_eq!(fixture.outside(), before, "{arguments:?} with a {kind} as {names:?}");
        }
        names.iter().for_each(|name| fixture.put_back(&format!("mailapi-data/{name}")));
        let _ = fs::remove_dir_all(fixture.path("exported"));
    }
    fixture.run(&["domain", "list"]).answer();
}

#[test]
fn small_files_are_not_followed() {
    meet(&["audit.log", "mailapi.lock", "admin-token", "admin-token.new", "node", "node.new", "acme", "search-index"]);
}

#[test]
fn the_database_is_not_followed() {
    meet(&["mailapi.db"]);
}

#[test]
fn the_log_of_the_database_is_not_followed() {
    meet(&["mailapi.db-wal", "mailapi.db-shm"]);
}

#[test]
fn the_journal_of_the_database_is_not_followed() {
    meet(&["mailapi.db-journal"]);
}

#[test]
fn a_link_beside_the_database_is_named() {
    let fixture = Fixture::new();
    for name in ["mailapi.db-wal", "mailapi.db-shm", "mailapi.db-journal"] {
        fixture
            .replace(&format!("mailapi-data/{name}"), |fixture, at| symlink(fixture.path("outside/new"), at).unwrap());
        for arguments in [&["user", "list"][..], &["backup", "backups"], &["doctor"]] {
            let answer = fixture.run(arguments);
            let shown = answer.stdout + &answer.stderr;
            assert!(answer.code == Some(1) && shown.contains(&format!("{name} is no regular file")), "{shown}");
        }
        fixture.put_back(&format!("mailapi-data/{name}"));
    }
    fixture.run(&["user", "list"]).answer();
}

#[test]
fn the_mark_of_a_restore_is_not_followed() {
    meet(&["restoring", "mailapi.db.restoring"]);
}

#[test]
fn an_audit_line_that_cannot_be_kept_is_shown() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("mailapi-data/audit.log")).unwrap();
    symlink(fixture.path("outside/new"), fixture.path("mailapi-data/audit.log")).unwrap();
    let answer = fixture.run(&["domain", "add", "example.net"]);
    assert_eq!(answer.code, Some(0));
    assert!(answer.stderr.contains("audit.log: refused, because it is a symbolic link"), "{}", answer.stderr);
    assert!(answer.stderr.contains("example.net"), "{}", answer.stderr);
    assert!(!fixture.path("outside/new").exists());
}

#[test]
fn what_root_changes_belongs_to_the_owner() {
    let fixture = Fixture::new();
    fixture.run(&["token", "create", "--type", "admin", "--name", "one"]).answer();
    fixture.run(&["import", "ann@example.org", "mbox", "mail.mbox"]).answer();
    let owner = fixture.path("mailapi-data").metadata().unwrap().uid();
    for entry in fs::read_dir(fixture.path("mailapi-data")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().uid(), owner, "{}", entry.path().display());
    }
    let audit = fs::read_to_string(fixture.path("mailapi-data/audit.log")).unwrap();
    assert!(!is_root() || audit.contains("\"os_user\":\"root"), "the line names who began: {audit}");
}

#[test]
fn files_that_only_root_can_read_are_still_arguments() {
    let fixture = Fixture::new();
    let (private, users) = (fixture.path("private"), fixture.path("private/users.csv"));
    fs::create_dir(&private).unwrap();
    fs::rename(fixture.path("users.csv"), &users).unwrap();
    fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fixture.run(&["user", "import", users.to_str().unwrap()]).answer();
    let missing = fixture.run(&["user", "import", "missing.csv"]).complaint();
    assert!(missing.contains("missing.csv: No such file"), "{missing}");
}

#[test]
fn a_link_in_place_of_the_directory_leads_nowhere() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("outside/empty")).unwrap();
    let before = fixture.outside();
    fixture.replace("mailapi-data", |fixture, at| symlink(fixture.path("outside/empty"), at).unwrap());
    for arguments in
        COMMANDS.iter().chain([&["token", "create", "--init", "--type", "admin", "--name", "x"][..]].iter())
    {
        if is_root() {
            fixture.run(arguments);
            assert_eq!(fixture.outside(), before, "{arguments:?}");
        }
    }
}

/// Starts a server, and kills it when it is ready; returns its output.
fn serve(fixture: &Fixture) -> String {
    let mut command = fixture.work_dir.command(&["serve", "--log-format", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut output, mut lines) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
    while lines.read_line(&mut output).unwrap() > 0 && !output.contains("\"mailapi is running\"") {}
    let _ = child.kill();
    child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
    child.wait().unwrap();
    output
}

#[test]
fn a_server_follows_no_link() {
    let fixture = Fixture::new();
    let before = fixture.outside();
    if is_root() {
        let refused = serve(&fixture);
        assert!(refused.contains("start the server as that user, not as root"), "{refused}");
        return;
    }
    for (kind, put) in traps() {
        for name in ["mailapi.lock", "admin-token", "mailapi.db", "mailapi.db-wal", "mailapi.db-shm", "restoring"] {
            fixture.replace(&format!("mailapi-data/{name}"), put);
            let output = serve(&fixture);
            assert!(!output.contains("\"mailapi is running\""), "{kind} as {name}: {output}");
            fixture.put_back(&format!("mailapi-data/{name}"));
            assert_eq!(fixture.outside(), before, "{kind} as {name}");
        }
    }
    assert!(serve(&fixture).contains("\"mailapi is running\""));
}
