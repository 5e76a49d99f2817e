//! Places that root names, and that another user controls.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

use crate::traps::{Fixture, OWNER, each_entry, is_root};

/// A user besides root and the hostile owner.
const STRANGER: u32 = OWNER + 1;

#[test]
fn a_data_directory_behind_the_link_of_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("strange")).unwrap();
    chown(fixture.path("strange"), Some(STRANGER), Some(STRANGER)).unwrap();
    symlink(fixture.path("strange"), fixture.path("link")).unwrap();
    lchown(fixture.path("link"), Some(OWNER), Some(OWNER)).unwrap();
    let path = fixture.path("link");
    for arguments in
        [&["migrate"][..], &["domain", "list"], &["restore", "backups"], &["backup", "backups"], &["serve"]]
    {
        let refused = fixture.run_with(arguments, &[("MAILAPI_DATA_DIR", path.to_str().unwrap())]).complaint();
        let expected = format!(
            "is reached by the symbolic link {} of uid {OWNER}, and leads to a directory of uid {STRANGER}",
            path.display()
        );
        assert!(refused.contains(&expected), "{arguments:?}: {refused}");
        assert_eq!(fs::read_dir(fixture.path("strange")).unwrap().count(), 0, "{arguments:?}");
    }
}

#[test]
fn root_follows_no_link_of_another_user_to_a_place() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let before = fixture.outside();
    for (target, name) in [("outside/folder", "to-folder"), ("backups", "to-backups"), ("mail.mbox", "to-mail")] {
        symlink(fixture.path(target), fixture.path(name)).unwrap();
        lchown(fixture.path(name), Some(OWNER), Some(OWNER)).unwrap();
    }
    for arguments in [
        &["backup", "to-folder/new"][..],
        &["backup", "to-backups", "--keep", "1"],
        &["backup", "--list", "to-backups"],
        &["backup", "--verify", "to-backups"],
        &["restore", "to-backups"],
        &["export", "ann@example.org", "maildir", "to-folder/new"],
        &["export", "ann@example.org", "mbox", "to-folder/new"],
        &["import", "ann@example.org", "mbox", "to-mail"],
        &["import", "ann@example.org", "maildir", "to-folder"],
        &["user", "import", "to-mail"],
    ] {
        let refused = fixture.run(arguments);
        assert_ne!(refused.code, Some(0), "{arguments:?}");
        let why = &refused.stderr;
        assert!(why.contains("symbolic link") && why.contains(&OWNER.to_string()), "{arguments:?}: {why}");
        assert_eq!(fixture.outside(), before, "{arguments:?}");
    }
    symlink(fixture.path("backups"), fixture.path("of-root")).unwrap();
    fixture.run(&["backup", "of-root"]).answer();
}

#[test]
fn a_backup_of_root_in_an_owners_directory_is_the_owners() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("home")).unwrap();
    fixture.give("home");
    for _ in 0..2 {
        fixture.run(&["backup", "home/backups", "--keep", "1"]).answer();
    }
    each_entry(&fixture.path("home"), &mut |path| {
        assert_eq!(path.symlink_metadata().unwrap().uid(), OWNER, "{}", path.display());
    });
    fixture.run(&["backup", "--verify", "home/backups"]).answer();
}

#[test]
fn a_backup_in_a_directory_that_others_control_is_refused() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    for (name, uid, mode) in [("strange", STRANGER, 0o755), ("open", 0, 0o777), ("home", OWNER, 0o755)] {
        fs::create_dir(fixture.path(name)).unwrap();
        chown(fixture.path(name), Some(uid), Some(uid)).unwrap();
        fs::set_permissions(fixture.path(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(fixture.path("home/of-root")).unwrap();
    for (place, expected) in [
        ("strange/new", "who could replace what is written"),
        ("open/new", "other users can replace entries"),
        ("home/of-root", "chown -R"),
    ] {
        let refused = fixture.run(&["backup", place]).complaint();
        assert!(refused.contains(expected), "{place}: {refused}");
        assert!(!fixture.path(place).join("mailapi-backups").exists());
    }
}

#[test]
fn a_restore_reads_what_only_root_can_read() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("private")).unwrap();
    fs::set_permissions(fixture.path("private"), Permissions::from_mode(0o700)).unwrap();
    fs::rename(fixture.path("backups"), fixture.path("private/backups")).unwrap();
    fs::create_dir(fixture.path("restored")).unwrap();
    fixture.give("restored");
    let restored = fixture.path("restored");
    fixture.run_with(&["restore", "private/backups"], &[("MAILAPI_DATA_DIR", restored.to_str().unwrap())]).answer();
    each_entry(&restored, &mut |path| assert_eq!(path.metadata().unwrap().uid(), OWNER, "{}", path.display()));
    // The same for the other places.
    fs::rename(fixture.path("mail.mbox"), fixture.path("private/mail.mbox")).unwrap();
    fixture.run(&["import", "ann@example.org", "mbox", "private/mail.mbox"]).answer();
    fixture.run(&["import", "ann@example.org", "mbox", "private"]).answer();
    fixture.run(&["export", "ann@example.org", "maildir", "private/exported"]).answer();
    assert_eq!(fs::read_dir(fixture.path("private/exported/cur")).unwrap().count(), 1);
    assert_eq!(fixture.path("private/exported").metadata().unwrap().uid(), 0);
    fixture.run(&["import", "ann@example.org", "maildir", "private/exported"]).answer();
    fixture.run(&["backup", "private/backups", "--keep", "1"]).answer();
}

#[test]
fn backups_of_strangers_are_neither_counted_nor_removed() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let path = |name: &str| fixture.path(&format!("backups/backups/{name}"));
    for name in ["0", "2", "900"] {
        fs::copy(path("1"), path(name)).unwrap();
        chown(path(name), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    let answer = fixture.run(&["backup", "backups", "--keep", "1"]);
    assert!(answer.stdout.starts_with("backup 3: "), "{answer:?}");
    assert!(answer.stdout.ends_with("removed older backups: 1\n"), "{answer:?}");
    for name in ["0", "2", "900"] {
        assert_eq!(path(name).metadata().unwrap().uid(), STRANGER, "{name} stays");
        let shown = path(name).display().to_string();
        let lines =
            answer.stderr.lines().filter(|line| line.contains(&format!("\"{shown}\"")) || line.contains(&shown));
        assert_eq!(lines.count(), 1, "{name} is named once: {}", answer.stderr);
    }
    assert!(answer.stderr.contains("belongs to another user"), "{}", answer.stderr);
    assert!(!path("1").exists() && path("3").exists());
}

#[test]
fn a_name_that_is_taken_is_left_alone() {
    let fixture = Fixture::new();
    let before = fixture.outside();
    let path = |name: &str| fixture.path(&format!("backups/backups/{name}"));
    symlink(fixture.path("outside/secret"), path("2")).unwrap();
    fs::write(path("3"), "notes").unwrap();
    fs::create_dir(path("4")).unwrap();
    let answer = fixture.run(&["backup", "backups", "--keep", "2"]);
    assert!(answer.stdout.starts_with("backup 5: ") && !answer.stdout.contains("removed"), "{answer:?}");
    for (name, expected) in
        [("2", "is a symbolic link"), ("3", "does not begin as a manifest"), ("4", "is a directory")]
    {
        let shown = path(name).display().to_string();
        let named = answer.stderr.lines().filter(|line| line.contains(&shown) && line.contains(expected)).count();
        assert_eq!(named, 1, "{name}: {}", answer.stderr);
    }
    assert!(path("1").exists() && path("2").is_symlink() && path("4").is_dir());
    assert_eq!(fs::read(path("3")).unwrap(), b"notes");
    let restored = fixture.path("restored");
    let refused =
        fixture.run_with(&["restore", "backups", "--number", "2"], &[("MAILAPI_DATA_DIR", restored.to_str().unwrap())]);
    assert!(refused.complaint().contains("backups/2: refused, because it is a symbolic link"));
    assert_eq!(fixture.outside(), before);
}
