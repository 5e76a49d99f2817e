//! Archives: what other programs write is read, and what is written comes back.

use std::io::{BufReader, Cursor};
use std::path::Path;

use mailapi_archive::maildir::{Maildir, MaildirWriter};
use mailapi_archive::mbox::{MboxReader, MboxWriter};
use mailapi_archive::{ArchivedMessage, ExportedMessage, ReadSettings, directory_names};
use mailapi_backend::{Buffer, BufferSettings};
use mailapi_files::OpenDirectory;
use mailapi_imap::Flags;
use mailapi_model::{FolderName, Timestamp};
use proptest::prelude::*;
use tempfile::TempDir;

/// A message as tests compare it: octets, flags, and time of receipt in milliseconds.
type Compared = (Option<Vec<u8>>, String, Option<i64>);

struct Place {
    directory: TempDir,
    settings: ReadSettings,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let buffer = Buffer::new(BufferSettings { max_memory_bytes: 64, ..BufferSettings::new(directory.path()) });
        Self { directory, settings: ReadSettings { buffer, max_message_bytes: 4096 } }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Opens a directory, which is created if it is missing.
    fn opened(&self, name: &str) -> OpenDirectory {
        OpenDirectory::open_or_create(&self.path(name), 0o700).unwrap()
    }

    fn mbox_in(&self, bytes: &[u8], at_once: usize) -> Result<Vec<ArchivedMessage>, String> {
        let input = BufReader::with_capacity(at_once, Cursor::new(bytes));
        let reader = MboxReader::new(input, "old.mbox", self.settings.clone()).map_err(|error| error.to_string())?;
        reader.map(|message| message.map_err(|error| error.to_string())).collect()
    }

    fn maildir(&self, root: &Path) -> Vec<(String, Vec<ArchivedMessage>)> {
        let folders = Maildir::open(root).unwrap().folders;
        let read = folders.iter().map(|folder| {
            let files = folder.files().unwrap().files;
            let messages = files.iter().map(|file| file.read(&self.settings).unwrap());
            (folder.name.to_string(), messages.collect())
        });
        read.collect()
    }
}

fn compared(message: &ArchivedMessage) -> Compared {
    let content = message.content.as_ref().map(|content| content.to_bytes().unwrap().to_vec());
    (content, message.flags.to_string(), message.internal_date.map(Timestamp::as_millis))
}

fn text(message: &ArchivedMessage) -> String {
    String::from_utf8(message.content.as_ref().unwrap().to_bytes().unwrap().to_vec()).unwrap()
}

#[test]
fn a_file_that_is_no_mbox_is_refused() {
    let place = Place::new();
    for bytes in [&b"Subject: x\n\ny\n"[..], b"\n\nFrom nowhere\n", b"\xff\xfe"] {
        assert!(place.mbox_in(bytes, 16).unwrap_err().contains("is not an mbox file"), "{bytes:?}");
    }
    assert_eq!(place.mbox_in(b"", 16).unwrap().len(), 0);
}

#[test]
fn a_message_beyond_the_limit_is_named_and_the_next_one_is_read() {
    let place = Place::new();
    let separator = "From ann@example.org Fri Nov 20 10:15:30 2026\n";
    let mbox = format!("{separator}Subject: long\n\n{}\n\n{separator}Subject: next\n\nx\n", "y".repeat(5000));
    let read = place.mbox_in(mbox.as_bytes(), 64).unwrap();
    assert!(read[0].content.is_none() && read[0].place == "old.mbox message 1");
    assert_eq!(text(&read[1]), "Subject: next\r\n\r\nx\r\n");
}

#[test]
fn an_mbox_of_other_programs_is_read() {
    let mbox = "From MAILER-DAEMON Fri Nov 20 10:15:30 2026\nX-IMAP: 1234 3\nStatus: RO\nSubject: internal\n\nstate\n\n\
        From ann@example.org Fri Nov 20 10:15:31 2026\nSubject: one\nStatus: RO\nX-Status: AF\n\
        X-Keywords: todo\n  \nContent-Length: 9\nTo: b\n\n>From here\n>>From there\n> From\n\n\
        From the start, text goes on\n\n\n\
        From - Fri Nov 20 10:15:32 2026 +0100\r\nX-Mozilla-Status: 0005\r\nSubject: two\r\n\r\nend";
    let read = Place::new().mbox_in(mbox.as_bytes(), 7).unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(
        text(&read[0]),
        "Subject: one\r\nTo: b\r\n\r\nFrom here\r\n>From there\r\n> From\r\n\r\nFrom the start, text goes on\r\n\r\n"
    );
    assert_eq!(read[0].flags.to_string(), "\\Answered \\Flagged \\Seen todo");
    assert_eq!(read[0].internal_date.unwrap().to_string(), "2026-11-20T10:15:31.000Z");
    assert_eq!(text(&read[1]), "Subject: two\r\n\r\nend");
    assert_eq!(read[1].flags.to_string(), "\\Flagged \\Seen");
    assert_eq!(read[1].internal_date.unwrap().to_string(), "2026-11-20T09:15:32.000Z");
}

/// Returns the texts of the messages of a file.
fn texts(mbox: &str) -> Vec<String> {
    Place::new().mbox_in(mbox.as_bytes(), 16).unwrap().iter().map(text).collect()
}

#[test]
fn bare_separators_of_thunderbird_are_read() {
    let (one, two, three) = ("Subject: one\n\n>From me\n>>From you\n", "Subject: two\n\ny\n", "X-Y: z\n\nthree\n");
    let expected = ["Subject: one\n\nFrom me\n>From you\n", two, three].map(|text| text.replace('\n', "\r\n"));
    for separators in [
        ["From ", "From ", "From "],
        ["From - Fri Nov 20 10:00:00 2026", "From ", "From - "],
        ["From - ", "From - ", "From -"],
        ["From ", "From ann@example.org Fri Nov 20 10:00:00 2026", "From "],
    ] {
        let messages = separators.iter().zip([one, two, three]);
        let mbox: String = messages.map(|(separator, text)| format!("{separator}\n{text}\n")).collect();
        for mbox in [mbox.clone(), mbox.replace('\n', "\r\n"), format!("\u{feff}{mbox}")] {
            assert_eq!(texts(&mbox), expected, "{mbox:?}");
        }
    }
}

#[test]
fn prose_after_from_separates_nothing() {
    for line in ["From \nhere on", "From the start:\nx: y", "From - me\nSubject: z", "From \n\nSubject: z", "From "] {
        let read = texts(&format!("From - Fri Nov 20 10:00:00 2026\nSubject: one\n\nbegin\n\n{line}\n"));
        assert_eq!(read, [format!("Subject: one\n\nbegin\n\n{line}\n").replace('\n', "\r\n")], "{line:?}");
    }
    // Without an empty line before it, a bare line is text, and a date separates.
    let read = texts("From \na: b\n\nx\nFrom \nc: d\nFrom eve Fri Nov 20 10:00:00 2026\ne: f\n\ny\n");
    assert_eq!(read, ["a: b\r\n\r\nx\r\nFrom \r\nc: d\r\n", "e: f\r\n\r\ny\r\n"]);
}

#[test]
fn a_length_that_fits_makes_a_body_opaque() {
    let separator = "From ann@example.org Fri Nov 20 10:15:30 2026\n";
    let body = format!("x\n\n{separator}Subject: text\n\n>From here\n");
    let message = |length: usize| format!("{separator}Subject: one\nContent-Length: {length}\n\n{body}\n");
    let whole = format!("Subject: one\n\n{body}").replace('\n', "\r\n");
    let next = format!("{separator}Subject: two\n\nz\n");
    for mbox in [message(body.len()) + &next, message(body.len() + 1) + &next, message(body.len())] {
        assert_eq!(texts(&mbox)[0].trim_end(), whole.trim_end(), "{mbox}");
        assert_eq!(texts(&mbox).len(), 1 + usize::from(mbox.ends_with("z\n")), "{mbox}");
    }
    for length in [0, 4, body.len() - 2, body.len() + 2, body.len() + 20, 5_000, usize::MAX] {
        let read = texts(&(message(length) + &next));
        assert_eq!((read.len(), read[0].as_str()), (3, "Subject: one\r\n\r\nx\r\n"), "{length}");
        assert_eq!(read[1], "Subject: text\r\n\r\nFrom here\r\n", "{length}");
    }
}

#[test]
fn equal_messages_of_an_mbox_are_two() {
    let message = "From a Fri Nov 20 10:15:30 2026\nSubject: same\n\nx\n\n";
    let place = Place::new();
    let keys = |mbox: String| place.mbox_in(mbox.as_bytes(), 64).unwrap().into_iter().map(|message| message.key);
    let twice: Vec<_> = keys(message.repeat(2)).collect();
    assert_ne!(twice[0], twice[1]);
    let later: Vec<_> = keys(message.repeat(3)).collect();
    assert_eq!(later[..2], twice[..], "a later run finds the same keys");
}

#[test]
fn a_directory_without_cur_is_refused() {
    let place = Place::new();
    let error = Maildir::open(place.directory.path()).unwrap_err().to_string();
    assert!(error.contains("is not a Maildir"), "{error}");
}

#[test]
fn a_maildir_of_other_programs_is_read() {
    let place = Place::new();
    let root = place.path("Maildir");
    for part in ["cur", "new", ".Entw&APw-rfe.2026/cur", ".bad..name/cur", "not-a-folder"] {
        std::fs::create_dir_all(root.join(part)).unwrap();
    }
    let files = [
        ("cur/200.M2P1.host,S=17:2,FSab", "Subject: old\n\nx\n"),
        ("new/300.M1P1.host", "Subject: new\n\n"),
        ("cur/100.M1P1.host:2,PT", "Subject: no UID\r\n\r\n"),
        ("cur/.hidden", "x"),
        (".Entw&APw-rfe.2026/cur/1.a:2,D", "Subject: draft\n"),
    ];
    files.iter().for_each(|(name, bytes)| std::fs::write(root.join(name), bytes).unwrap());
    std::fs::write(root.join("dovecot-keywords"), "0 todo\n1 $Junk\n").unwrap();
    std::fs::write(root.join("dovecot-uidlist"), "3 V7 N12 Gx\n9 :300.M1P1.host\n4 :200.M2P1.host,S=17:2,S\n").unwrap();
    let opened = Maildir::open(&root).unwrap();
    assert_eq!(opened.unnamed, [".bad..name"]);
    let inbox = opened.folders[0].files().unwrap();
    assert_eq!((inbox.uid_validity, inbox.uid_next), (Some(7), Some(12)));
    let uids: Vec<_> = inbox.files.iter().map(|file| file.uid).collect();
    assert_eq!(uids, [Some(4), Some(9), None]);
    let read = place.maildir(&root);
    let shown: Vec<_> = read[0].1.iter().map(|message| (text(message), message.flags.to_string())).collect();
    let expected = [
        ("Subject: old\r\n\r\nx\r\n", "\\Flagged \\Seen $Junk todo"),
        ("Subject: new\r\n\r\n", ""),
        ("Subject: no UID\r\n\r\n", "\\Deleted $Forwarded"),
    ];
    assert_eq!(shown, expected.map(|(text, flags)| (text.to_owned(), flags.to_owned())));
    assert_eq!((read[1].0.as_str(), text(&read[1].1[0])), ("Entwürfe/2026", "Subject: draft\r\n".to_owned()));
}

#[test]
fn the_key_of_a_file_stays_when_its_flags_change() {
    let place = Place::new();
    let root = place.path("Maildir");
    std::fs::create_dir_all(root.join("cur")).unwrap();
    std::fs::create_dir_all(root.join("new")).unwrap();
    std::fs::write(root.join("new/1.a.host,S=1"), "x").unwrap();
    let before = place.maildir(&root)[0].1[0].key;
    std::fs::rename(root.join("new/1.a.host,S=1"), root.join("cur/1.a.host,S=1:2,S")).unwrap();
    assert_eq!(place.maildir(&root)[0].1[0].key, before);
}

fn message() -> impl Strategy<Value = (String, u8, i64)> {
    let line = "(>{0,3}From [a-z]{0,3}|From x Fri Nov 20 10:15:30 2026|Status: R|X-Keywords: a|Subject: x|[a-z. >:]{0,6}|\u{fc})";
    let text = format!("(X-Mailapi-Export: octets=3; ms=5\r\n)?({line}(\r\n|\r\n|\r\n|\n|\r|\r\r\n|)){{0,8}}");
    (proptest::string::string_regex(&text).unwrap(), any::<u8>(), -2_000_000_000_000..10_000_000_000_000_i64)
}

fn exported(at: usize, (text, flags, millis): &(String, u8, i64)) -> ExportedMessage {
    let words = ["\\Seen", "\\Answered", "\\Flagged", "\\Deleted", "\\Draft", "$Forwarded", "todo", "$Junk"];
    let set = words.iter().enumerate().filter(|(bit, _)| flags & (1 << bit) != 0).map(|(_, word)| *word);
    ExportedMessage {
        uid: u32::try_from(at).unwrap() + 1,
        flags: Flags::from_words(set),
        internal_date: Timestamp::from_millis(*millis),
        content: text.clone().into_bytes().into(),
    }
}

fn expected(message: &ExportedMessage) -> Compared {
    let octets = message.content.to_bytes().unwrap().to_vec();
    (Some(octets), message.flags.to_string(), Some(message.internal_date.as_millis()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_exported_mbox_comes_back(messages in proptest::collection::vec(message(), 0..4), at_once in 1_usize..40) {
        let place = Place::new();
        let path = place.path("out.mbox");
        let messages: Vec<_> = messages.iter().enumerate().map(|(at, message)| exported(at, message)).collect();
        let mut writer = MboxWriter::create(&place.opened(""), "out.mbox").unwrap();
        messages.iter().for_each(|message| writer.add(message).unwrap());
        writer.finish().unwrap();
        let read = place.mbox_in(&std::fs::read(&path).unwrap(), at_once).unwrap();
        let read: Vec<_> = read.iter().map(compared).collect();
        prop_assert_eq!(read, messages.iter().map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn any_mbox_reads_the_same_however_it_is_split(
        bytes in "((From (a|-) Fri Nov 20 10:15:30 2026|From x|From -?|Content-Length: [0-9]{1,2}|Status: RO|X-IMAP: 1|X-Mailapi-Export: octets=[0-9]{1,3}; ms=1|a: b| c|>From |\\PC{0,3}|y{9000})?(\n|\n|\r\n|\n\n)){0,12}",
        at_once in 1_usize..40,
    ) {
        let place = Place::new();
        let split = place.mbox_in(bytes.as_bytes(), at_once).map(|read| read.iter().map(compared).collect::<Vec<_>>());
        let whole = place.mbox_in(bytes.as_bytes(), 100_000).map(|read| read.iter().map(compared).collect::<Vec<_>>());
        prop_assert_eq!(split, whole);
    }

    #[test]
    fn an_exported_maildir_comes_back(messages in proptest::collection::vec(message(), 0..4), name in "INBOX|[a-z.&/ü]{1,5}") {
        let Ok(name) = name.parse::<FolderName>() else { return Ok(()) };
        let place = Place::new();
        let root = place.path("Maildir");
        let messages: Vec<_> = messages.iter().enumerate().map(|(at, message)| exported(at, message)).collect();
        MaildirWriter::create(&place.opened("Maildir"), (&FolderName::inbox(), "INBOX"), 3, 1).unwrap().finish().unwrap();
        let root = if name == FolderName::inbox() { place.path("Other") } else { root };
        std::fs::create_dir_all(root.join("cur")).unwrap();
        let directory = directory_names(std::slice::from_ref(&name)).remove(0);
        let mut writer = MaildirWriter::create(&OpenDirectory::open(&root).unwrap(), (&name, &directory), 77, 9).unwrap();
        for message in &messages {
            prop_assert_eq!(writer.add(message).unwrap(), 0);
        }
        writer.finish().unwrap();
        let folders = Maildir::open(&root).unwrap().folders;
        let folder = folders.iter().find(|folder| folder.name == name).unwrap();
        let files = folder.files().unwrap();
        prop_assert_eq!((files.uid_validity, files.uid_next), (Some(77), Some(9)));
        let read: Vec<_> = files.files.iter().map(|file| file.read(&place.settings).unwrap()).collect();
        let uids: Vec<_> = read.iter().map(|message| message.uid.unwrap()).collect();
        prop_assert_eq!(uids, messages.iter().map(|message| message.uid).collect::<Vec<_>>());
        let read: Vec<_> = read.iter().map(compared).collect();
        prop_assert_eq!(read, messages.iter().map(expected).collect::<Vec<_>>());
    }
}
