//! What a hostile owner of a directory puts in place of a file, and everything that must stay as it is.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};

use crate::support::{Answer, WorkDir};

/// A user of the system that has no name, and runs the server.
pub(crate) const OWNER: u32 = 48_213;
/// Longer than any command takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Directories of a hostile owner, beside a directory that no command may touch.
pub(crate) struct Fixture {
    pub(crate) work_dir: WorkDir,
}

impl Fixture {
    /// Makes an installation with a domain, a user and a backup.
    pub(crate) fn new() -> Self {
        let fixture = Self { work_dir: WorkDir::new() };
        // The owner of the data directory must reach it.
        fs::set_permissions(fixture.path(""), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(fixture.path("outside/folder")).unwrap();
        fs::write(fixture.path("outside/secret"), "secret").unwrap();
        fs::write(fixture.path("outside/folder/file"), "other").unwrap();
        fs::write(fixture.path("users.csv"), "email,password\nbob@example.org,correct horse\n").unwrap();
        fs::write(fixture.path("mail.mbox"), "From ann Thu Jan  1 00:00:00 2026\nSubject: Hi\n\nHello\n").unwrap();
        fs::create_dir(fixture.path("mailapi-data")).unwrap();
        fixture.give("mailapi-data");
        for arguments in [
            &["migrate"][..],
            &["domain", "add", "example.org"],
            &["user", "add", "ann@example.org"],
            &["backup", "backups"],
        ] {
            fixture.run(arguments).answer();
        }
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.work_dir.path().join(name)
    }

    /// Gives a tree to the hostile owner.
    pub(crate) fn give(&self, name: &str) {
        if is_root() {
            each_entry(&self.path(name), &mut |path| lchown(path, Some(OWNER), Some(OWNER)).unwrap());
        }
    }

    /// Puts a trap in place of an entry, and keeps the entry beside it.
    pub(crate) fn replace(&self, name: &str, put: Put) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if path.symlink_metadata().is_ok() {
            fs::rename(&path, self.path(&format!("{name}.former"))).unwrap();
        }
        put(self, &path);
        if is_root() {
            lchown(&path, Some(OWNER), Some(OWNER)).unwrap();
        }
    }

    /// Undoes [`Fixture::replace`].
    pub(crate) fn put_back(&self, name: &str) {
        let (path, former) = (self.path(name), self.path(&format!("{name}.former")));
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path).unwrap(),
            Ok(_) => fs::remove_file(&path).unwrap(),
            Err(_) => {}
        }
        if former.symlink_metadata().is_ok() {
            fs::rename(former, path).unwrap();
        }
    }

    /// Runs a command, which must end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with(arguments, &[])
    }

    pub(crate) fn run_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Answer {
        let mut command = self.work_dir.command(arguments);
        command.envs(environment.iter().copied());
        run_promptly(command, arguments)
    }

    /// Returns the kinds, owners, modes and contents of everything that no command may change.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        each_entry(&self.path("outside"), &mut |path| {
            let facts = path.symlink_metadata().unwrap();
            let content = if facts.is_file() { fs::read(path).unwrap() } else { Vec::new() };
            found.insert(path.to_owned(), (facts.uid(), facts.gid(), facts.mode(), content));
        });
        found
    }
}

fn run_promptly(mut command: Command, arguments: &[&str]) -> Answer {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let id = child.id();
    // A command that fails before it reads closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(b"correct horse\n");
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(output) = result.recv_timeout(PATIENCE) else {
        let _ = Command::new("sh").args(["-c", "kill -KILL \"$0\"", &id.to_string()]).status();
        panic!("{arguments:?} hangs");
    };
    let (output, text) = (output.unwrap(), |bytes| String::from_utf8_lossy(bytes).into_owned());
    Answer { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Visits an entry and everything below it, and follows no link.
pub(crate) fn each_entry(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        for entry in fs::read_dir(path).unwrap() {
            each_entry(&entry.unwrap().path(), visit);
        }
    }
}

pub(crate) type Put = fn(&Fixture, &Path);

/// The kinds of entries that are no file.
pub(crate) fn traps() -> Vec<(&'static str, Put)> {
    let mut traps: Vec<(&'static str, Put)> = vec![
        ("link", |fixture, at| symlink(fixture.path("outside/secret"), at).unwrap()),
        ("link to nothing", |fixture, at| symlink(fixture.path("outside/new"), at).unwrap()),
        ("link to a directory", |fixture, at| symlink(fixture.path("outside/folder"), at).unwrap()),
        ("FIFO", |_, at| rustix::fs::mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap()),
        ("socket", |_, at| drop(UnixListener::bind(at).unwrap())),
        ("directory", |_, at| fs::create_dir(at).unwrap()),
    ];
    // Only root can make devices.
    if is_root() {
        traps.push(("/dev/zero", |_, at| make_device(at, 5)));
        traps.push(("/dev/null", |_, at| make_device(at, 3)));
    }
    traps
}

fn make_device(at: &Path, minor: u32) {
    const MEMORY: u32 = 1;
    let device = rustix::fs::makedev(MEMORY, minor);
    rustix::fs::mknodat(CWD, at, FileType::CharacterDevice, Mode::from_raw_mode(0o666), device).unwrap();
    assert!(at.symlink_metadata().unwrap().file_type().is_char_device());
}
