//! Maildirs of users who want another's mail, or a command that never ends.

use std::fs;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use mailapi_archive::maildir::{Maildir, MaildirFiles, MaildirWriter};
use mailapi_archive::mbox::MboxReader;
use mailapi_archive::{ArchiveError, ReadSettings};
use mailapi_backend::{Buffer, BufferSettings};
use mailapi_files::OpenDirectory;
use mailapi_model::FolderName;
use proptest::prelude::*;
use tempfile::TempDir;

/// A user that is neither root nor the one that runs the tests.
const STRANGER: u32 = 48_214;

/// A Maildir with one message, beside a secret.
struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        for part in ["Maildir/cur", "Maildir/new", "secret/cur", "secret/new"] {
            fs::create_dir_all(fixture.path(part)).unwrap();
        }
        fs::write(fixture.path("Maildir/cur/100.a:2,S"), "Subject: own\n\n").unwrap();
        fs::write(fixture.path("secret/cur/200.b:2,S"), "Subject: secret\n\n").unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn link(&self, to: &str, name: &str) {
        symlink(self.path(to), self.path(name)).unwrap();
    }

    fn fifo(&self, name: &str) {
        assert!(Command::new("mkfifo").arg(self.path(name)).status().unwrap().success());
    }

    fn open(&self) -> Maildir {
        Maildir::open(&self.path("Maildir")).unwrap()
    }

    fn inbox(&self) -> MaildirFiles {
        self.open().folders[0].files().unwrap()
    }

    fn settings(&self) -> ReadSettings {
        let buffer = Buffer::new(BufferSettings::new(self.directory.path()));
        ReadSettings { buffer, max_message_bytes: 4096 }
    }

    /// Returns the subjects that can be read, and what is refused.
    fn read(&self, files: &MaildirFiles) -> (Vec<String>, Vec<String>) {
        let (mut subjects, mut refused) = (Vec::new(), Vec::new());
        for file in &files.files {
            match file.read(&self.settings()) {
                Ok(message) => {
                    let bytes = message.content.expect("short").to_bytes().unwrap();
                    subjects.push(String::from_utf8_lossy(&bytes).trim().to_owned());
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        refused.extend(files.refused.iter().map(ToString::to_string));
        (subjects, refused)
    }
}

fn is_root(path: &Path) -> bool {
    fs::metadata(path).unwrap().uid() == 0
}

#[test]
fn links_and_special_files_are_named_and_the_rest_is_read() {
    let fixture = Fixture::new();
    fixture.link("secret/cur/200.b:2,S", "Maildir/cur/300.link");
    fixture.link("missing", "Maildir/cur/301.link");
    fixture.fifo("Maildir/cur/302.fifo");
    fixture.fifo("Maildir/new/303.fifo");
    symlink("/dev/zero", fixture.path("Maildir/new/304.zero")).unwrap();
    fs::create_dir(fixture.path("Maildir/cur/305.directory")).unwrap();
    let (subjects, refused) = fixture.read(&fixture.inbox());
    assert_eq!(subjects, ["Subject: own"]);
    let refused = refused.join("\n");
    for expected in [
        "300.link: refused, because it is a symbolic link",
        "301.link",
        "304.zero",
        "302.fifo: refused, because it is a FIFO",
        "303.fifo",
    ] {
        assert!(refused.contains(expected), "{refused}");
    }
    assert_eq!(refused.lines().count(), 5, "{refused}");
}

#[test]
fn a_file_that_becomes_a_link_after_the_listing_is_not_followed() {
    let fixture = Fixture::new();
    let files = fixture.inbox();
    fs::remove_file(fixture.path("Maildir/cur/100.a:2,S")).unwrap();
    fixture.link("secret/cur/200.b:2,S", "Maildir/cur/100.a:2,S");
    let (subjects, refused) = fixture.read(&files);
    assert!(subjects.is_empty() && refused[0].contains("is a symbolic link"), "{refused:?}");
    // Nor is a directory, whose handle stays what it was.
    let fixture = Fixture::new();
    let files = fixture.inbox();
    fs::rename(fixture.path("Maildir/cur"), fixture.path("Maildir/old")).unwrap();
    fixture.link("secret/cur", "Maildir/cur");
    assert_eq!(fixture.read(&files).0, ["Subject: own"]);
}

#[test]
fn folders_that_are_links_are_named() {
    let fixture = Fixture::new();
    fixture.link("secret", "Maildir/.Link");
    fs::create_dir(fixture.path("Maildir/.Inner")).unwrap();
    fixture.link("secret/cur", "Maildir/.Inner/cur");
    fs::create_dir_all(fixture.path("Maildir/.Good/cur")).unwrap();
    fixture.link("secret/new", "Maildir/.Good/new");
    let maildir = fixture.open();
    let names: Vec<_> = maildir.folders.iter().map(|folder| folder.name.as_str()).collect();
    assert_eq!(names, ["INBOX", "Good"]);
    let refused: Vec<_> = maildir.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused.iter().all(|refused| refused.ends_with("is a symbolic link")), "{refused:?}");
    assert!(maildir.folders[1].files().unwrap().refused[0].to_string().contains(".Good/new"));
}

#[test]
fn a_maildir_whose_cur_is_a_link_is_refused() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.path("Maildir/cur")).unwrap();
    fixture.link("secret/cur", "Maildir/cur");
    let error = Maildir::open(&fixture.path("Maildir")).unwrap_err().to_string();
    assert!(error.contains("is a symbolic link"), "{error}");
    // The path of the Maildir itself is the operator's word.
    fixture.link("secret", "named");
    assert_eq!(Maildir::open(&fixture.path("named")).unwrap().folders[0].files().unwrap().files.len(), 1);
}

#[test]
fn lists_that_are_links_fifos_or_too_long_are_named() {
    let fixture = Fixture::new();
    fs::write(fixture.path("secret/list"), "3 V7 N9\n5 :100.a\n").unwrap();
    fixture.link("secret/list", "Maildir/dovecot-uidlist");
    symlink("/dev/zero", fixture.path("Maildir/dovecot-keywords")).unwrap();
    let files = fixture.inbox();
    assert_eq!((files.uid_validity, files.files[0].uid, files.refused.len()), (None, None, 2));
    for list in ["dovecot-uidlist", "dovecot-keywords"] {
        fs::remove_file(fixture.path("Maildir").join(list)).unwrap();
        fixture.fifo(&format!("Maildir/{list}"));
    }
    let files = fixture.inbox();
    assert!(files.refused.iter().all(|error| error.to_string().contains("is a FIFO")), "{:?}", files.refused);
    assert_eq!(fixture.read(&files).0, ["Subject: own"]);
    for list in ["dovecot-uidlist", "dovecot-keywords"] {
        fs::remove_file(fixture.path("Maildir").join(list)).unwrap();
        // A sparse file: petabytes cost its owner nothing.
        fs::File::create(fixture.path("Maildir").join(list)).unwrap().set_len(1 << 40).unwrap();
    }
    let files = fixture.inbox();
    let shown: Vec<_> = files.refused.iter().map(ToString::to_string).collect();
    assert!(
        shown.len() == 2 && shown.iter().all(|error| error.contains("refused, because it is longer than")),
        "{shown:?}"
    );
    assert_eq!((files.files.len(), files.uid_validity), (1, None));
}

#[test]
fn a_sparse_message_is_too_long_at_once() {
    let fixture = Fixture::new();
    fs::File::create(fixture.path("Maildir/cur/400.sparse,W=1099511627776")).unwrap().set_len(1 << 40).unwrap();
    let files = fixture.inbox();
    let read: Vec<_> = files.files.iter().map(|file| file.read(&fixture.settings()).unwrap().content).collect();
    assert_eq!(read.iter().filter(|content| content.is_none()).count(), 1);
}

/// A file without end.
struct Endless {
    beginning: Vec<u8>,
    filler: u8,
    at: u64,
}

impl Read for Endless {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        for byte in bytes.iter_mut() {
            let place = usize::try_from(self.at).unwrap();
            *byte = self.beginning.get(place).copied().unwrap_or(self.filler);
            self.at += 1;
        }
        Ok(bytes.len())
    }
}

impl Seek for Endless {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.checked_add_signed(by).unwrap(),
            SeekFrom::End(_) => return Err(io::Error::other("there is no end")),
        };
        Ok(self.at)
    }
}

#[test]
fn an_mbox_file_without_end_is_left() {
    let fixture = Fixture::new();
    let honest: &[u8] = b"From ann@example.org Fri Nov 20 10:15:30 2026\nSubject: own\n\nHello.\n\n\
        From ann@example.org Fri Nov 20 10:15:31 2026\nSubject: huge\n\n";
    // As a sparse file of any size, and as one long header.
    for (beginning, filler) in [("", 0), ("X-Own: a\n\n", b'x'), ("X-Own: ", b'\n'), ("Content-Length: 4000\n\n", b'x')]
    {
        let input = Endless { beginning: [honest, beginning.as_bytes()].concat(), filler, at: 0 };
        let mut reader =
            MboxReader::new(BufReader::with_capacity(1 << 16, input), "old.mbox", fixture.settings()).unwrap();
        assert!(reader.next().unwrap().unwrap().content.is_some());
        let error = reader.next().unwrap().unwrap_err();
        assert!(error.is_of_content() && error.to_string().contains("far too long"), "{error}");
        assert!(reader.next().is_none());
    }
}

#[test]
fn keywords_take_memory_only_while_their_message_is_read() {
    let fixture = Fixture::new();
    let keywords: String = (0..26).map(|number| format!("{number} {}\n", "k".repeat(2_000))).collect();
    fs::write(fixture.path("Maildir/dovecot-keywords"), keywords).unwrap();
    fs::write(fixture.path("Maildir/cur/500.k:2,abcdefghijklmnopqrstuvwxyz"), "x").unwrap();
    let files = fixture.inbox();
    assert_eq!(files.refused.len(), 0);
    assert_eq!(files.files[1].flags().0.keywords().len(), 1, "equal keywords are one");
    assert!(size_of_val(&files.files[1]) <= 80);
}

#[test]
fn files_of_other_users_are_refused() {
    let fixture = Fixture::new();
    if !is_root(&fixture.path("Maildir")) {
        return;
    }
    for name in ["Maildir", "Maildir/cur", "Maildir/new", "Maildir/cur/100.a:2,S"] {
        chown(fixture.path(name), Some(STRANGER), None).unwrap();
    }
    // Dovecot links copies of a message.
    fs::hard_link(fixture.path("Maildir/cur/100.a:2,S"), fixture.path("Maildir/new/101.copy")).unwrap();
    fs::hard_link(fixture.path("secret/cur/200.b:2,S"), fixture.path("Maildir/cur/600.root")).unwrap();
    fs::write(fixture.path("secret/other"), "Subject: other\n").unwrap();
    chown(fixture.path("secret/other"), Some(STRANGER + 1), None).unwrap();
    fs::hard_link(fixture.path("secret/other"), fixture.path("Maildir/cur/601.other")).unwrap();
    let (subjects, refused) = fixture.read(&fixture.inbox());
    assert_eq!(subjects, ["Subject: own", "Subject: own"]);
    assert!(refused.len() == 2 && refused[0].contains("600.root") && refused[1].contains("601.other"), "{refused:?}");
}

#[test]
fn an_export_writes_through_no_link() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("out")).unwrap();
    let out = OpenDirectory::open(&fixture.path("out")).unwrap();
    // The owner of the directory is faster than the export.
    for part in ["cur", "tmp", "new"] {
        fixture.link("secret/cur", &format!("out/{part}"));
        let error = MaildirWriter::create(&out, (&FolderName::inbox(), "INBOX"), 1, 1).unwrap_err();
        assert!(error.is_of_content() && error.to_string().contains("is a symbolic link"), "{error}");
        fs::remove_file(fixture.path("out").join(part)).unwrap();
        let _ = fs::remove_dir_all(fixture.path("out/cur"));
    }
    fixture.link("secret", "out/.Sent");
    let error = MaildirWriter::create(&out, (&"Sent".parse().unwrap(), "Sent"), 1, 1).unwrap_err();
    assert!(matches!(error, ArchiveError::Entry(_)), "{error}");
    fixture.link("secret/list", "out/dovecot-uidlist");
    MaildirWriter::create(&out, (&FolderName::inbox(), "INBOX"), 1, 1).unwrap_err();
    assert!(!fixture.path("secret/list").exists());
    assert_eq!(fs::read_dir(fixture.path("secret")).unwrap().count(), 2);
}

#[test]
fn state_headers_of_any_number_take_bounded_memory() {
    let fixture = Fixture::new();
    let many = "X-Keywords: a b\nStatus: RO\n".repeat(50_000);
    let mbox = format!("From a Fri Nov 20 10:15:30 2026\n{many}Subject: x\n\ny\n");
    let mut reader = MboxReader::new(Cursor::new(mbox.as_bytes()), "old.mbox", fixture.settings()).unwrap();
    let message = reader.next().unwrap().unwrap();
    assert_eq!(message.flags.to_string(), "\\Seen a b");
}

proptest! {
    #[test]
    fn numbers_of_an_export_line_have_no_bad_end(octets in any::<u64>(), ms in any::<i64>()) {
        let fixture = Fixture::new();
        for (octets, ms) in [(octets, ms), (u64::MAX, i64::MIN), (0, i64::MAX), (1, ms)] {
            let own = format!("X-Mailapi-Export: octets={octets}; ms={ms}\nStatus: O\nX-Status: \nX-Keywords: \n");
            let mbox = format!("From a Fri Nov 20 10:15:30 2026\n{own}Subject: x\n\ny\n");
            let mut reader = MboxReader::new(Cursor::new(mbox.as_bytes()), "old.mbox", fixture.settings()).unwrap();
            prop_assert!(reader.next().unwrap().is_ok());
        }
    }

    #[test]
    fn any_names_and_lists_of_a_maildir_are_read(
        names in prop::collection::vec("[0-9]{0,21}[.,:]{0,2}(\\PC|[A-Za-z0-9=,:.]){0,12}(:2,[A-Za-z\u{e9}]{0,5})?", 0..6),
        uids in "([13] V?[0-9]{0,11} N?[0-9]{0,11}\n)?([0-9]{0,11} :?[0-9a-z.]{0,4}\n){0,5}",
        keywords in "([0-9]{0,21} ?\\PC{0,5}\n?){0,4}",
    ) {
        let fixture = Fixture::new();
        for name in names.iter().filter(|name| !name.is_empty() && !name.contains(['/', '\0']) && name.len() < 200) {
            let _ = fs::write(fixture.path("Maildir/cur").join(name), "x\n");
        }
        fs::write(fixture.path("Maildir/dovecot-uidlist"), uids).unwrap();
        fs::write(fixture.path("Maildir/dovecot-keywords"), keywords).unwrap();
        let files = fixture.inbox();
        prop_assert_eq!(files.refused.len(), 0);
        for file in &files.files {
            file.read(&fixture.settings()).unwrap();
        }
    }
}
