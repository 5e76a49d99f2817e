//! Files that the operator names, and directories with many entries.

use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

use mailapi_files::{FileRefusal, OpenDirectory, control_of, open_named_file, open_trusted_file};
use rustix::fs::{CWD, FileType, Mode};

#[test]
fn a_named_file_may_be_a_link_but_must_be_regular() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "text").unwrap();
    symlink(path("file"), path("link")).unwrap();
    rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    symlink(path("fifo"), path("link-to-fifo")).unwrap();
    for name in ["file", "link"] {
        let mut text = String::new();
        open_named_file(&path(name)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text", "{name}");
    }
    for (name, expected) in
        [("fifo", FileRefusal::Fifo), ("link-to-fifo", FileRefusal::Fifo), (".", FileRefusal::Directory)]
    {
        assert_eq!(open_named_file(&path(name)).unwrap_err().refusal(), Some(expected), "{name}");
    }
    let device = open_named_file("/dev/zero".as_ref()).unwrap_err();
    assert_eq!(device.to_string(), "/dev/zero: refused, because it is a device");
    assert!(open_named_file(&path("missing")).unwrap_err().is_missing());
}

#[test]
fn a_visit_of_entries_ends_when_the_visitor_wants() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..50 {
        fs::write(folder.path().join(number.to_string()), "").unwrap();
    }
    let directory = OpenDirectory::open(folder.path()).unwrap();
    let mut seen = 0;
    let visit = |_| {
        seen += 1;
        if seen == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    directory.visit_entries(visit).unwrap();
    assert_eq!((seen, directory.entries().unwrap().len()), (7, 50));
}

/// Users without an entry in `/etc/passwd`.
const USER: u32 = 48_213;
const STRANGER: u32 = 48_214;

#[test]
fn root_follows_only_its_own_links() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("data/inner")).unwrap();
    fs::write(path("data/file"), "text").unwrap();
    symlink("data", path("of-root")).unwrap();
    symlink(path("data"), path("foreign")).unwrap();
    symlink("foreign/inner/../..", path("behind")).unwrap();
    symlink("foreign", path("to-foreign")).unwrap();
    symlink("data/file", path("file-of-root")).unwrap();
    symlink("data/file", path("foreign-file")).unwrap();
    symlink("endless", path("endless")).unwrap();
    for name in ["foreign", "foreign-file"] {
        lchown(path(name), Some(USER), None).unwrap();
    }
    for name in ["data/inner", "data/inner/..", "of-root/inner", "of-root/"] {
        OpenDirectory::open(&path(name)).expect(name);
    }
    let created = OpenDirectory::open_or_create(&path("of-root/new/one"), 0o700).unwrap();
    assert_eq!(created.path(), path("data/new/one"), "the path has no links");
    let expected = Some(FileRefusal::ForeignLink { uid: USER });
    for name in ["foreign", "foreign/inner", "behind/data", "to-foreign", "foreign/"] {
        assert_eq!(OpenDirectory::open(&path(name)).unwrap_err().refusal(), expected, "{name}");
        let created = OpenDirectory::open_or_create(&path(name).join("new"), 0o700);
        assert_eq!(created.unwrap_err().refusal(), expected, "{name}");
    }
    for name in ["foreign/file", "foreign-file"] {
        assert_eq!(open_named_file(&path(name)).unwrap_err().refusal(), expected, "{name}");
    }
    open_named_file(&path("of-root/file")).unwrap();
    open_named_file(&path("file-of-root")).unwrap();
    assert!(OpenDirectory::open(&path("endless")).is_err());
    assert!(OpenDirectory::open(&path("data/file/more")).is_err());
}

#[test]
fn all_who_can_change_the_end_of_a_path_are_named() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("home/data")).unwrap();
    fs::create_dir(path("shared")).unwrap();
    fs::set_permissions(path("shared"), PermissionsExt::from_mode(0o777)).unwrap();
    symlink("home/data", path("link")).unwrap();
    chown(path("home"), Some(USER), None).unwrap();
    chown(path("home/data"), Some(STRANGER), None).unwrap();
    lchown(path("link"), Some(STRANGER + 1), None).unwrap();
    let uids = |name: &str| -> Vec<(u32, bool)> {
        let control = control_of(&path(name)).unwrap();
        control.strangers.iter().map(|stranger| (stranger.owner.uid, stranger.is_link)).collect()
    };
    assert_eq!(uids("home"), [(USER, false)]);
    assert_eq!(uids("home/data/missing/too"), [(USER, false), (STRANGER, false)]);
    assert_eq!(uids("link"), [(STRANGER + 1, true), (USER, false), (STRANGER, false)]);
    assert_eq!(uids("shared"), []);
    let found = control_of(&path("link/missing")).unwrap();
    assert_eq!((found.end, found.end_owner.uid, found.exists), (path("home/data"), STRANGER, false));
    assert_eq!(control_of(&path("shared/new")).unwrap().open_to_others, Some(path("shared")));
    assert_eq!(control_of(folder.path()).unwrap().open_to_others, None, "the sticky bit protects entries");
}

#[test]
fn a_new_name_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let directory = OpenDirectory::open(folder.path()).unwrap();
    fs::write(path("file"), "new").unwrap();
    fs::write(path("taken"), "old").unwrap();
    fs::create_dir(path("directory")).unwrap();
    symlink("nothing", path("link")).unwrap();
    for name in ["taken", "directory", "link"] {
        assert!(directory.rename_new("file", &directory, name).unwrap_err().is_taken(), "{name}");
    }
    directory.rename_new("file", &directory, "free").unwrap();
    assert_eq!((fs::read(path("free")).unwrap(), fs::read(path("taken")).unwrap()), (b"new".to_vec(), b"old".to_vec()));
}

#[test]
fn root_trusts_only_files_of_root_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["of-root", "of-user", "open", "sticky"] {
        fs::create_dir(path(name)).unwrap();
        for file in ["file", "of-user", "open", "of-group"] {
            fs::write(path(name).join(file), "text").unwrap();
        }
        chown(path(name).join("of-user"), Some(USER), None).unwrap();
        chown(path(name).join("of-group"), None, Some(USER)).unwrap();
        fs::set_permissions(path(name).join("of-group"), PermissionsExt::from_mode(0o660)).unwrap();
        fs::set_permissions(path(name).join("open"), PermissionsExt::from_mode(0o666)).unwrap();
    }
    chown(path("of-user"), Some(USER), None).unwrap();
    fs::set_permissions(path("open"), PermissionsExt::from_mode(0o777)).unwrap();
    fs::set_permissions(path("sticky"), PermissionsExt::from_mode(0o1777)).unwrap();
    symlink(path("of-root/file"), path("link")).unwrap();
    symlink(path("of-user/file"), path("link-to-user")).unwrap();
    symlink(path("of-root/file"), path("link-of-user")).unwrap();
    lchown(path("link-of-user"), Some(USER), None).unwrap();
    for name in ["of-root/file", "sticky/file", "link"] {
        open_trusted_file(&path(name)).unwrap();
    }
    let refused = |name: &str| open_trusted_file(&path(name)).unwrap_err().refusal();
    for name in ["of-root/of-user", "of-root/open", "of-root/of-group", "of-user/file", "open/file", "link-to-user"] {
        assert_eq!(refused(name), Some(FileRefusal::NotOfRootAlone), "{name}");
    }
    assert_eq!(refused("link-of-user"), Some(FileRefusal::ForeignLink { uid: USER }));
    assert_eq!(refused("of-root"), Some(FileRefusal::Directory));
}
