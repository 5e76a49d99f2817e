//! Files that the operator names, and directories with many entries.

use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;

use mailapi_files::{FileRefusal, OpenDirectory, open_named_file};
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
