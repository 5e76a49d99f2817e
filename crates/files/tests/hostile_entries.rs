//! Every operation meets links, FIFOs, devices, sockets, directories and second names in place of a file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use mailapi_files::{EntryKind, FileError, FileOwner, FileRefusal, OpenDirectory};
use rustix::fs::{CWD, FileType, Mode};

/// A user who is neither root nor the one that runs the tests.
const STRANGER: u32 = 48_213;

/// A directory whose owner is hostile, beside a directory that no operation may touch.
struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["data", "outside"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::create_dir(folder.path().join("outside/folder")).unwrap();
        fs::write(folder.path().join("outside/secret"), "secret").unwrap();
        fs::write(folder.path().join("outside/folder/file"), "other").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> OpenDirectory {
        OpenDirectory::open(&self.path("data")).unwrap()
    }

    /// Returns everything that an operation could change outside.
    fn outside(&self) -> BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)> {
        ["outside", "outside/secret", "outside/folder", "outside/folder/file", "outside/new"]
            .iter()
            .filter_map(|name| {
                let (path, facts) = (self.path(name), fs::symlink_metadata(self.path(name)).ok()?);
                let content = if facts.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                Some((path, (facts.uid(), facts.gid(), facts.mode(), content)))
            })
            .collect()
    }
}

type Put = fn(&Fixture, &Path);

/// What a hostile owner can put in place of a file, with the refusal of reading and of changing it.
fn traps() -> Vec<(&'static str, Put, FileRefusal)> {
    let device: Put = |_, at| make_device(at);
    let mut traps: Vec<(&'static str, Put, FileRefusal)> = vec![
        ("link", |fixture, at| symlink(fixture.path("outside/secret"), at).unwrap(), FileRefusal::SymbolicLink),
        ("link to nothing", |fixture, at| symlink(fixture.path("outside/new"), at).unwrap(), FileRefusal::SymbolicLink),
        (
            "link to a directory",
            |fixture, at| symlink(fixture.path("outside/folder"), at).unwrap(),
            FileRefusal::SymbolicLink,
        ),
        ("FIFO", |_, at| make_fifo(at), FileRefusal::Fifo),
        ("socket", |_, at| drop(UnixListener::bind(at).unwrap()), FileRefusal::Socket),
        ("directory", |_, at| fs::create_dir(at).unwrap(), FileRefusal::Directory),
    ];
    if rustix::process::geteuid().is_root() {
        traps.push(("device", device, FileRefusal::Device));
    }
    traps
}

fn make_fifo(at: &Path) {
    rustix::fs::mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Makes a second `/dev/zero`, which has no end.
fn make_device(at: &Path) {
    let zero = rustix::fs::makedev(1, 5);
    rustix::fs::mknodat(CWD, at, FileType::CharacterDevice, Mode::from_raw_mode(0o666), zero).unwrap();
}

/// Runs a step that must not wait for anything.
fn promptly<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(step()));
    result.recv_timeout(Duration::from_secs(20)).expect("the operation hangs")
}

type Operation = fn(&OpenDirectory) -> Result<(), FileError>;

/// The operations on a file named `file`.
const OPERATIONS: &[(&str, Operation)] = &[
    ("open_file", |data| data.open_file("file").map(drop)),
    ("read_limited", |data| data.read_limited("file", 100).map(drop)),
    ("append_file", |data| data.append_file("file", 0o600).map(drop)),
    ("change_file", |data| data.change_file("file", 0o600).map(drop)),
    ("check_file", |data| data.check_file("file").map(drop)),
    ("replace_file", |data| data.replace_file("file", b"new", 0o600, Some(data.owner()))),
    ("remove_file", |data| data.remove_file("file").map(drop)),
];

#[test]
fn everything_but_a_file_is_refused_by_name() {
    for (kind, put, refusal) in traps() {
        for (name, operation) in OPERATIONS {
            let fixture = Fixture::new();
            put(&fixture, &fixture.path("data/file"));
            let (before, data) = (fixture.outside(), fixture.data());
            let error = promptly(move || operation(&data)).unwrap_err();
            assert_eq!(error.refusal(), Some(refusal), "{name}, {kind}");
            let shown = error.to_string();
            assert!(shown.contains("data/file") && shown.ends_with(&refusal.to_string()), "{shown}");
            assert_eq!(fixture.outside(), before, "{name}, {kind}");
            assert!(fs::symlink_metadata(fixture.path("data/file")).is_ok(), "{name}, {kind}: it is removed");
        }
    }
}

#[test]
fn a_new_file_takes_no_name_that_exists() {
    for (kind, put, _) in traps() {
        let fixture = Fixture::new();
        put(&fixture, &fixture.path("data/file"));
        let (before, data) = (fixture.outside(), fixture.data());
        assert!(promptly(move || data.create_file("file", 0o600)).unwrap_err().is_taken(), "{kind}");
        assert_eq!(fixture.outside(), before, "{kind}");
    }
}

#[test]
fn only_a_directory_is_entered() {
    for (kind, put, refusal) in traps().into_iter().filter(|(_, _, refusal)| *refusal != FileRefusal::Directory) {
        let expected = if refusal == FileRefusal::SymbolicLink { refusal } else { FileRefusal::NotDirectory };
        let fixture = Fixture::new();
        put(&fixture, &fixture.path("data/folder"));
        let before = fixture.outside();
        for attempt in [
            |data: &OpenDirectory| data.directory("folder").map(drop),
            |data: &OpenDirectory| data.directory_or_create("folder", 0o700).map(drop),
            |data: &OpenDirectory| data.below(Path::new("folder/inner")).map(drop),
            |data: &OpenDirectory| data.remove_tree("folder").map(drop),
        ] {
            let data = fixture.data();
            assert_eq!(promptly(move || attempt(&data)).unwrap_err().refusal(), Some(expected), "{kind}");
        }
        assert_eq!(fixture.outside(), before, "{kind}");
    }
}

#[test]
fn a_file_with_a_second_name_is_not_changed() {
    let fixture = Fixture::new();
    fs::hard_link(fixture.path("outside/secret"), fixture.path("data/file")).unwrap();
    let (before, data) = (fixture.outside(), fixture.data());
    for (name, operation) in OPERATIONS.iter().filter(|(name, _)| !["open_file", "read_limited"].contains(name)) {
        if *name != "remove_file" {
            assert_eq!(operation(&data).unwrap_err().refusal(), Some(FileRefusal::HardLinks), "{name}");
        }
    }
    let file = fs::File::open(fixture.path("data/file")).unwrap();
    let given = data.give(&file, "file", FileOwner { uid: STRANGER, gid: STRANGER });
    assert_eq!(given.unwrap_err().refusal(), Some(FileRefusal::HardLinks));
    // Programs link messages of one Maildir.
    assert_eq!(data.read_limited("file", 100).unwrap(), b"secret");
    assert!(data.remove_file("file").unwrap());
    assert_eq!(fixture.outside(), before);
}

#[test]
fn a_directory_that_becomes_a_link_stays_the_same_directory() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("data/folder")).unwrap();
    let (before, data) = (fixture.outside(), fixture.data());
    let folder = data.directory("folder").unwrap();
    fs::rename(fixture.path("data/folder"), fixture.path("data/moved")).unwrap();
    symlink(fixture.path("outside/folder"), fixture.path("data/folder")).unwrap();
    folder.append_file("file", 0o600).unwrap().write_all(b"more").unwrap();
    folder.replace_file("new", b"new", 0o600, None).unwrap();
    assert_eq!(fs::read(fixture.path("data/moved/file")).unwrap(), b"more");
    assert!(folder.remove_file("file").unwrap());
    assert_eq!(data.directory("folder").unwrap_err().refusal(), Some(FileRefusal::SymbolicLink));
    assert_eq!(fixture.outside(), before);
}

#[test]
fn a_tree_is_removed_without_the_targets_of_its_links() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("data/tree/inner")).unwrap();
    for (number, (_, put, _)) in traps().into_iter().enumerate() {
        put(&fixture, &fixture.path(&format!("data/tree/inner/{number}")));
    }
    let (before, data) = (fixture.outside(), fixture.data());
    assert!(promptly(move || data.remove_tree("tree")).unwrap());
    assert!(!fixture.path("data/tree").exists());
    assert!(!fixture.data().remove_tree("tree").unwrap(), "it is gone already");
    assert_eq!(fixture.outside(), before);
}

#[test]
fn a_path_is_no_name() {
    let fixture = Fixture::new();
    let data = fixture.data();
    for name in ["", ".", "..", "../outside/secret", "/etc/passwd", "folder/file", "file/", "./file", "a\0b"] {
        for error in [
            data.open_file(name).unwrap_err(),
            data.create_file(name, 0o600).unwrap_err(),
            data.remove_file(name).unwrap_err(),
            data.directory(name).unwrap_err(),
            data.rename("file", &data, name).unwrap_err(),
        ] {
            assert_eq!(error.refusal(), Some(FileRefusal::BadName), "{name:?}");
        }
    }
    for path in ["..", "folder/..", "/etc"] {
        let refusal = data.below(Path::new(path)).unwrap_err().refusal();
        assert!(refusal == Some(FileRefusal::BadName) || path == "folder/..", "{path}");
    }
    data.create_file(OsStr::from_bytes(b"\xff name"), 0o600).unwrap();
}

#[test]
fn entries_are_listed_with_their_kinds() {
    let fixture = Fixture::new();
    for (name, put, _) in traps() {
        put(&fixture, &fixture.path("data").join(name));
    }
    fs::write(fixture.path("data/file"), "").unwrap();
    let kinds: BTreeMap<_, _> = fixture
        .data()
        .entries()
        .unwrap()
        .into_iter()
        .map(|entry| (entry.name.into_string().unwrap(), entry.kind))
        .collect();
    assert_eq!(kinds.len(), traps().len() + 1);
    assert_eq!((kinds["file"], kinds["link"], kinds["FIFO"]), (EntryKind::File, EntryKind::Link, EntryKind::Fifo));
    assert_eq!((kinds["directory"], kinds["socket"]), (EntryKind::Directory, EntryKind::Socket));
}

#[test]
fn files_are_created_changed_and_replaced() {
    let fixture = Fixture::new();
    let data = fixture.data();
    for part in ["one", "two"] {
        data.append_file("log", 0o640).unwrap().write_all(part.as_bytes()).unwrap();
    }
    assert_eq!(data.read_limited("log", 6).unwrap(), b"onetwo");
    assert_eq!(data.read_limited("log", 5).unwrap_err().refusal(), Some(FileRefusal::TooLong { limit: 5 }));
    fs::write(fixture.path("data/log.new"), "left by a crash").unwrap();
    data.replace_file("log", b"three", 0o600, Some(data.owner())).unwrap();
    let mut content = String::new();
    data.change_file("log", 0o600).unwrap().read_to_string(&mut content).unwrap();
    assert_eq!(content, "three");
    assert_eq!(fs::metadata(fixture.path("data/log")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(data.open_file("missing").unwrap_err().is_missing());
    assert_eq!((data.facts("missing").unwrap(), data.check_file("missing").unwrap()), (None, None));
    let folder = data.directory_or_create("folder", 0o700).unwrap();
    data.rename("log", &folder, "moved").unwrap();
    assert_eq!(data.below(Path::new("folder")).unwrap().read_limited("moved", 9).unwrap(), b"three");
    assert!(data.create_directory("folder", 0o700).unwrap_err().is_taken());
}

#[test]
fn the_operator_may_name_a_link() {
    let fixture = Fixture::new();
    symlink(fixture.path("data"), fixture.path("link")).unwrap();
    let opened = OpenDirectory::open_or_create(&fixture.path("link"), 0o700).unwrap();
    assert_eq!(opened.path(), fixture.path("data").canonicalize().unwrap());
    assert!(OpenDirectory::open(&fixture.path("missing")).unwrap_err().is_missing());
}

/// The remaining rules compare users, so only root can set them up.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn files_of_strangers_are_refused_where_strangers_can_put_them() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.path("data/file"), "strange").unwrap();
    fs::create_dir(fixture.path("data/folder")).unwrap();
    for name in ["data/file", "data/folder"] {
        chown(fixture.path(name), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    fixture.data().read_limited("file", 100).expect("only root could put it there");
    for owner in [0, STRANGER + 1] {
        chown(fixture.path("data"), Some(owner), None).unwrap();
        fs::set_permissions(fixture.path("data"), PermissionsExt::from_mode(0o777)).unwrap();
        let data = fixture.data();
        for (name, operation) in OPERATIONS.iter().filter(|(name, _)| *name != "remove_file") {
            assert_eq!(operation(&data).unwrap_err().refusal(), Some(FileRefusal::OtherOwner), "{name}");
        }
        assert_eq!(data.directory("folder").unwrap_err().refusal(), Some(FileRefusal::OtherOwner));
    }
    chown(fixture.path("data"), Some(STRANGER), None).unwrap();
    fixture.data().read_limited("file", 100).expect("the owner of the directory owns it");
}

#[test]
fn a_second_name_of_a_file_of_root_is_not_read() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    chown(fixture.path("data"), Some(STRANGER), None).unwrap();
    fs::hard_link(fixture.path("outside/secret"), fixture.path("data/file")).unwrap();
    assert_eq!(fixture.data().open_file("file").unwrap_err().refusal(), Some(FileRefusal::HardLinks));
}

#[test]
fn what_root_creates_belongs_to_the_owner_of_the_directory() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    chown(fixture.path("data"), Some(STRANGER), Some(STRANGER)).unwrap();
    let data = fixture.data();
    data.append_file("log", 0o600).unwrap();
    data.change_file("lock", 0o600).unwrap();
    data.replace_file("state", b"", 0o600, Some(data.owner())).unwrap();
    data.create_directory("folder", 0o700).unwrap().give_to(data.owner()).unwrap();
    for name in ["log", "lock", "state", "folder"] {
        let facts = data.facts(name).unwrap().unwrap();
        assert_eq!(facts.owner, FileOwner { uid: STRANGER, gid: STRANGER }, "{name}");
    }
}
