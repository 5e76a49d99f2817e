//! Traps in a directory of backups, and in the place of a restore.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Answer, WorkDir};
use crate::traps::{Fixture, is_root, traps};

/// Returns the path of a chunk, relative to the fixture.
fn chunk(fixture: &Fixture) -> String {
    let group = fs::read_dir(fixture.path("backups/chunks")).unwrap().next().unwrap().unwrap().path();
    let chunk = fs::read_dir(group).unwrap().next().unwrap().unwrap().path();
    chunk.strip_prefix(fixture.work_dir.path()).unwrap().to_str().unwrap().to_owned()
}

fn parent(name: &str) -> String {
    Path::new(name).parent().unwrap().to_str().unwrap().to_owned()
}

fn restore(fixture: &Fixture, data_dir: &str) -> Answer {
    let path = fixture.path(data_dir);
    fixture.run_with(&["restore", "backups"], &[("MAILAPI_DATA_DIR", path.to_str().unwrap())])
}

#[test]
fn no_entry_of_the_backups_is_followed() {
    let fixture = Fixture::new();
    fixture.give("backups");
    let (chunk, before) = (chunk(&fixture), fixture.outside());
    let group = parent(&chunk);
    for (kind, put) in traps() {
        for name in [
            "backups/mailapi-backups",
            "backups/backups",
            "backups/backups/1",
            "backups/backups/2",
            "backups/chunks",
            "backups/work",
            &group,
            &chunk,
        ] {
            fixture.replace(name, put);
            for arguments in [
                &["backup", "backups", "--keep", "1"][..],
                &["backup", "--verify", "backups"],
                &["backup", "--list", "backups"],
            ] {
                fixture.run(arguments);
                assert_eq!(fixture.outside(), before, "{arguments:?} with a {kind} as {name}");
            }
            restore(&fixture, "restored");
            assert_eq!(fixture.outside(), before, "restore with a {kind} as {name}");
            let _ = fs::remove_dir_all(fixture.path("restored"));
            fixture.put_back(name);
        }
    }
}

#[test]
fn a_chunk_that_is_no_file_is_named() {
    let fixture = Fixture::new();
    let chunk = chunk(&fixture);
    for (kind, put) in traps() {
        fixture.replace(&chunk, put);
        for answer in [restore(&fixture, "restored"), fixture.run(&["backup", "--verify", "backups"])] {
            let complaint = answer.complaint();
            assert!(
                complaint.contains(&chunk) && complaint.contains("refused, because it is a"),
                "{kind}: {complaint}"
            );
        }
        fixture.put_back(&chunk);
    }
    restore(&fixture, "restored").answer();
}

#[test]
fn retention_removes_only_what_a_backup_made() {
    let fixture = Fixture::new();
    let group = parent(&chunk(&fixture));
    let strange = ["backups/chunks/notes.txt", "backups/chunks/strange/file", "backups/backups/notes", "backups/notes"];
    let in_group = format!("{group}/notes.txt");
    for name in strange.iter().copied().chain([in_group.as_str()]) {
        fs::create_dir_all(fixture.path(name).parent().unwrap()).unwrap();
        fs::write(fixture.path(name), "keep me").unwrap();
    }
    let unused = format!("{group}/{}", "0".repeat(62));
    fs::write(fixture.path(&unused), "of an interrupted backup").unwrap();
    fixture.run(&["backup", "backups", "--keep", "1"]).answer();
    for name in strange.iter().copied().chain([in_group.as_str()]) {
        assert_eq!(fs::read(fixture.path(name)).unwrap(), b"keep me", "{name}");
    }
    assert!(!fixture.path(&unused).exists());
}

#[test]
fn unfinished_files_of_others_stay() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("backups/work")).unwrap();
    fs::write(fixture.path("backups/work/database"), "of an interrupted backup").unwrap();
    fs::write(fixture.path("backups/work/notes.txt"), "keep me").unwrap();
    let complaint = fixture.run(&["backup", "backups"]).complaint();
    assert!(complaint.contains("backups/work: the directory has files that no backup made"), "{complaint}");
    assert_eq!(fs::read(fixture.path("backups/work/notes.txt")).unwrap(), b"keep me");
    fs::remove_file(fixture.path("backups/work/notes.txt")).unwrap();
    fixture.run(&["backup", "backups"]).answer();
}

#[test]
fn a_manifest_gives_no_rights_to_others() {
    let fixture = Fixture::new();
    for name in ["mailapi-data/mailapi.db", "mailapi-data/audit.log"] {
        fs::set_permissions(fixture.path(name), PermissionsExt::from_mode(0o4777)).unwrap();
    }
    fixture.run(&["backup", "backups"]).answer();
    restore(&fixture, "restored").answer();
    let mode = |name: &str| fixture.path(name).metadata().unwrap().mode() & 0o7777;
    assert_eq!((mode("restored/mailapi.db"), mode("restored/audit.log")), (0o660, 0o600));
}

/// Adds a file to the manifest of the backup, with the content of the database and another size.
fn forge(fixture: &Fixture, path: &str, size: Option<u64>) {
    let newest = fixture.path("backups/backups/1");
    let written = fs::read_to_string(&newest).unwrap();
    let mut manifest: Value = serde_json::from_str(written.split_once('\n').unwrap().1).unwrap();
    let mut added = manifest["database"].clone();
    added["path"] = json!(path);
    added["size"] = size.map_or_else(|| added["size"].clone(), |size| json!(size));
    manifest["files"] = json!([added]);
    let text = manifest.to_string();
    let sha: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(newest, format!("{sha}\n{text}")).unwrap();
}

#[test]
fn a_manifest_with_a_file_that_no_backup_has_is_refused() {
    let fixture = Fixture::new();
    for path in ["mailapi.db", "mailapi.db-wal", "mailapi.db-journal", "mailapi.lock", "restoring", "search-index"] {
        forge(&fixture, path, None);
        let complaint = restore(&fixture, "restored").complaint();
        assert!(complaint.contains("no backup has"), "{path}: {complaint}");
        assert!(fs::read_dir(fixture.path("restored")).unwrap().next().is_none(), "{path}");
    }
    forge(&fixture, "audit.log", None);
    restore(&fixture, "restored").answer();
}

#[test]
fn a_backup_that_is_larger_than_the_disk_is_not_begun() {
    let fixture = Fixture::new();
    forge(&fixture, "audit.log", Some(1 << 60));
    let complaint = restore(&fixture, "restored").complaint();
    assert!(complaint.contains("the disk is full: the backup needs"), "{complaint}");
    assert!(fs::read_dir(fixture.path("restored")).unwrap().next().is_none());
}

#[test]
fn a_restore_follows_no_link() {
    let fixture = Fixture::new();
    let before = fixture.outside();
    for (kind, put) in traps() {
        for name in ["mailapi.lock", "restoring", "mailapi.db", "mailapi.db.restoring", "audit.log"] {
            fs::create_dir(fixture.path("restored")).unwrap();
            fixture.give("restored");
            fixture.replace(&format!("restored/{name}"), put);
            let complaint = restore(&fixture, "restored").complaint();
            assert!(
                complaint.contains("is not empty") || complaint.contains("refused"),
                "{kind} as {name}: {complaint}"
            );
            assert_eq!(fixture.outside(), before, "{kind} as {name}");
            fs::remove_dir_all(fixture.path("restored")).unwrap();
        }
    }
}

#[test]
fn a_restored_database_elsewhere_follows_no_link() {
    let fixture = Fixture::new();
    let (before, place) = (fixture.outside(), fixture.path("database/mailapi.db"));
    let url = format!("sqlite:{}", place.display());
    for (kind, put) in traps() {
        for name in ["mailapi.db", "mailapi.db-wal", "mailapi.db-journal", "mailapi.db.restoring"] {
            for directory in ["database", "restored"] {
                fs::create_dir(fixture.path(directory)).unwrap();
                fixture.give(directory);
            }
            fixture.replace(&format!("database/{name}"), put);
            let data_dir = fixture.path("restored");
            let environment =
                [("MAILAPI_DATA_DIR", data_dir.to_str().unwrap()), ("MAILAPI_DATABASE__URL", url.as_str())];
            let answer = fixture.run_with(&["restore", "backups"], &environment);
            // An empty directory is the rest of an interrupted restore.
            let is_rest = (kind, name) == ("directory", "mailapi.db.restoring");
            assert_eq!(answer.code == Some(0), is_rest, "{kind} as {name}: {answer:?}");
            assert_eq!(fixture.outside(), before, "{kind} as {name}");
            fs::remove_dir_all(fixture.path("database")).unwrap();
            let _ = fs::remove_dir_all(fixture.path("restored"));
        }
    }
}

#[test]
fn a_restore_by_root_belongs_to_the_owner_of_the_directory() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("restored")).unwrap();
    fixture.give("restored");
    let owner = fixture.path("restored").metadata().unwrap().uid();
    restore(&fixture, "restored").answer();
    let names: Vec<PathBuf> =
        fs::read_dir(fixture.path("restored")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(names.len() >= 2, "{names:?}");
    for path in names {
        assert_eq!(path.metadata().unwrap().uid(), owner, "{}", path.display());
    }
    let listed =
        fixture.run_with(&["domain", "list"], &[("MAILAPI_DATA_DIR", fixture.path("restored").to_str().unwrap())]);
    assert!(listed.answer().contains("example.org"));
}

/// A work directory whose restore is killed at many moments, with the database inside or outside of the data directory.
fn kill_restores(database: Option<&str>) {
    let fixture = Fixture::new();
    let mail = fixture.path("large.mbox");
    let one =
        format!("From ann Thu Jan  1 00:00:00 2026\nSubject: Hi\n\n{}\n\n", "words of a long text\n".repeat(3000));
    fs::write(&mail, one.repeat(60)).unwrap();
    fixture.run(&["import", "ann@example.org", "mbox", "large.mbox"]).answer();
    fixture.run(&["backup", "backups"]).answer();
    let (mut refused, mut complete) = (0, 0);
    // The first restore runs to its end, and is the measure for the kills.
    let mut most_looks = usize::MAX;
    for number in (0..=KILLS).rev() {
        let target = WorkDir::new();
        let settings = database.map(|path| format!("sqlite:{}", target.path().join(path).display()));
        let command = |arguments: &[&str]| {
            let mut command = target.command(arguments);
            command.envs(settings.iter().map(|url| ("MAILAPI_DATABASE__URL", url)));
            command
        };
        let backups = fixture.path("backups");
        let mut child = command(&["restore", backups.to_str().unwrap()]).stdout(Stdio::null()).spawn().unwrap();
        let mut looks = 0;
        // Looks at the file system since the mark of the restore, fewer and fewer.
        while child.try_wait().unwrap().is_none() && looks < most_looks / KILLS * number {
            looks += usize::from(target.data().join("restoring").exists());
        }
        if number == KILLS {
            most_looks = looks;
        }
        let _ = child.kill();
        let ended = child.wait().unwrap().success();
        let answer = Answer::of_command(command(&["domain", "list"]), "");
        if ended {
            complete += 1;
            assert!(answer.answer().contains("example.org"), "the restore is whole");
        } else if target.data().join("restoring").exists() {
            refused += 1;
            for arguments in [&["serve"][..], &["migrate"], &["domain", "list"]] {
                let complaint = Answer::of_command(command(arguments), "").complaint();
                assert!(complaint.contains("empty the directory and restore again"), "{complaint}");
            }
            fs::remove_dir_all(target.data()).unwrap();
            let place = database.map(|path| target.path().join(path));
            if place.as_ref().is_none_or(|place| !place.exists()) {
                let again = Answer::of_command(command(&["restore", backups.to_str().unwrap()]), "");
                again.answer();
            }
        } else {
            assert!(!target.data().join("mailapi.db").exists(), "it has not begun, or is whole");
        }
    }
    assert!(refused >= KILLS / 3, "{refused} kills of {KILLS} interrupted the restore, {complete} came too late");
}

const KILLS: usize = 12;

#[test]
fn a_killed_restore_is_never_an_empty_server() {
    kill_restores(None);
}

#[test]
fn a_killed_restore_of_a_database_elsewhere_is_refused() {
    kill_restores(Some("elsewhere/mailapi.db"));
}

#[test]
fn files_that_no_backup_can_name_do_not_end_it() {
    let fixture = Fixture::new();
    let data = fixture.path("mailapi-data");
    fs::write(data.join(OsStr::from_bytes(b"latin-\xe9")), "not UTF-8").unwrap();
    // Thousands of levels would fill the stack.
    let mut deep = data.clone();
    for _ in 0..100 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    fs::write(deep.join("deepest"), "too deep").unwrap();
    fs::write(data.join("kept"), "kept").unwrap();
    fs::File::create(data.join("sparse")).unwrap().set_len(1 << 43).unwrap();
    let Answer { code, stderr, .. } = fixture.run(&["backup", "backups"]);
    assert_eq!((code, stderr.matches("not in the backup").count()), (Some(0), 3), "{stderr}");
    restore(&fixture, "restored").answer();
    assert_eq!(fs::read(fixture.path("restored/kept")).unwrap(), b"kept");
    assert!(!fixture.path("restored/d").exists() && !fixture.path("restored/sparse").exists());
}
