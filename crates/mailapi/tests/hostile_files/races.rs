//! The owner of a directory exchanges entries in a loop while root works in it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::support::Answer;
use crate::traps::{Fixture, OWNER, is_root};

/// Enough for a race that an attacker wins once in twenty runs.
const RUNS: usize = 80;

/// Exchanges two entries with the rights of the hostile owner, until it is dropped.
struct Exchanger {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exchanger {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (uid, gid) = (Uid::from_raw(OWNER), Gid::from_raw(OWNER));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            while !ends.load(Ordering::Relaxed) {
                // One of them may be missing.
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
                std::thread::yield_now();
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Exchanger {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A fixture with a directory of the hostile owner, and one that only root can enter.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("outside/closed")).unwrap();
    fs::set_permissions(fixture.path("outside"), Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(fixture.path("home")).unwrap();
    fixture.give("home");
    fixture
}

/// Puts a link of the hostile owner to something outside.
fn link(fixture: &Fixture, target: &str, name: &str) {
    symlink(fixture.path(target), fixture.path(name)).unwrap();
    lchown(fixture.path(name), Some(OWNER), Some(OWNER)).unwrap();
}

/// Runs a command while two entries are exchanged all the time.
fn run_beside(fixture: &Fixture, arguments: &[&str], data_dir: &str, (one, other): (&str, &str)) -> Answer {
    let data_dir = fixture.path(data_dir);
    let _exchanger = Exchanger::start(fixture.path(one), fixture.path(other));
    fixture.run_with(arguments, &[("MAILAPI_DATA_DIR", data_dir.to_str().unwrap())])
}

/// Restores into `home/data` while the owner exchanges an entry with a link to a closed directory.
fn exchange_in_a_restore(exchanged: &str) {
    if !is_root() {
        return;
    }
    let fixture = fixture();
    let before = fixture.outside();
    for run in 0..RUNS {
        fs::create_dir(fixture.path("home/data")).unwrap();
        link(&fixture, "outside/closed", "home/link");
        fixture.give("home");
        run_beside(&fixture, &["restore", "backups"], "home/data", (exchanged, "home/link"));
        assert_eq!(fixture.outside(), before, "run {run}");
        fs::remove_dir_all(fixture.path("home")).unwrap();
        fs::create_dir(fixture.path("home")).unwrap();
        fixture.give("home");
    }
    fs::create_dir(fixture.path("home/data")).unwrap();
    fixture.give("home");
    fixture.run_with(&["restore", "backups"], &[("MAILAPI_DATA_DIR", fixture.path("home/data").to_str().unwrap())]);
    assert!(fixture.path("home/data/mailapi.db").exists(), "without an attack it succeeds");
}

#[test]
fn a_restore_never_leaves_the_directory_of_its_owner() {
    exchange_in_a_restore("home/data");
}

#[test]
fn a_restore_never_leaves_the_directory_of_the_database() {
    exchange_in_a_restore("home/data/mailapi.db.restoring");
}

/// Text of a database that only root can read.
const SECRET: &str = "the secret text of a foreign database";

/// Returns whether a file below the backups contains the secret.
fn leaks(fixture: &Fixture, name: &str) -> bool {
    fs::read_dir(fixture.path(name)).unwrap().any(|entry| {
        let (path, name) = (entry.as_ref().unwrap().path(), format!("{name}/{}", entry.unwrap().file_name().display()));
        if path.is_dir() {
            return leaks(fixture, &name);
        }
        fs::read(path).unwrap().windows(SECRET.len()).any(|text| text == SECRET.as_bytes())
    })
}

#[test]
fn a_backup_never_copies_a_foreign_database() {
    if !is_root() {
        return;
    }
    let fixture = fixture();
    let foreign = Connection::open(fixture.path("outside/foreign.db")).unwrap();
    foreign.execute_batch(&format!("PRAGMA journal_mode=WAL; CREATE TABLE t AS SELECT '{SECRET}' AS text;")).unwrap();
    drop(foreign);
    fs::set_permissions(fixture.path("outside/foreign.db"), Permissions::from_mode(0o600)).unwrap();
    let before = fixture.outside();
    link(&fixture, "outside/foreign.db", "mailapi-data/link");
    for run in 0..RUNS {
        let exchanged = ("mailapi-data/mailapi.db", "mailapi-data/link");
        run_beside(&fixture, &["backup", "backups", "--keep", "1"], "mailapi-data", exchanged);
        assert_eq!(fixture.outside(), before, "run {run}");
        assert!(!leaks(&fixture, "backups/chunks"), "run {run}");
    }
}

#[test]
fn a_backup_never_works_in_a_foreign_directory() {
    if !is_root() {
        return;
    }
    let fixture = fixture();
    for name in ["database-wal", "database-journal", "database-shm"] {
        fs::write(fixture.path("outside/closed").join(name), "of another program").unwrap();
    }
    let before = fixture.outside();
    fs::create_dir(fixture.path("home/bk")).unwrap();
    link(&fixture, "outside/closed", "home/bk/link");
    fs::write(fixture.path("home/bk/mailapi-backups"), "").unwrap();
    fixture.give("home");
    for run in 0..RUNS {
        let exchanged = ("home/bk/work", "home/bk/link");
        run_beside(&fixture, &["backup", "home/bk", "--keep", "1"], "mailapi-data", exchanged);
        assert_eq!(fixture.outside(), before, "run {run}");
        for name in ["home/bk/link", "home/bk/work"] {
            let _ = fs::remove_file(fixture.path(name)).or_else(|_| fs::remove_dir_all(fixture.path(name)));
        }
        link(&fixture, "outside/closed", "home/bk/link");
    }
}
