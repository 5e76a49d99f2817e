//! Layouts of other programs: each entry is read, left with a reason, or named as lost.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use mailapi_archive::maildir::Maildir;
use mailapi_archive::mbox::MboxReader;
use mailapi_archive::tree::{MailTree, TreeContent};
use mailapi_archive::{ArchivedMessage, ReadSettings};
use mailapi_backend::{Buffer, BufferSettings};
use mailapi_files::OpenDirectory;
use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
    settings: ReadSettings,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let buffer = Buffer::new(BufferSettings::new(directory.path()));
        Self { directory, settings: ReadSettings { buffer, max_message_bytes: 4096 } }
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().join("root")
    }

    /// Writes files with their directories.
    fn write(&self, files: &[(&str, &[u8])]) {
        for (name, bytes) in files {
            let path = self.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// Returns the subjects of a Maildir, with folders and flags.
    fn maildir(&self) -> Vec<String> {
        let folders = Maildir::open(&self.root()).unwrap().folders;
        folders.iter().flat_map(|folder| self.folder(folder)).collect()
    }

    fn folder(&self, folder: &mailapi_archive::maildir::MaildirFolder) -> Vec<String> {
        let files = folder.files().unwrap().files;
        files.iter().map(|file| shown(folder.name.as_str(), &file.read(&self.settings).unwrap())).collect()
    }

    fn tree(&self, path: &Path) -> (Vec<String>, MailTree) {
        let mut tree = MailTree::of(Arc::new(OpenDirectory::open(path).unwrap())).unwrap();
        let mut read = Vec::new();
        for source in std::mem::take(&mut tree.sources) {
            let folder = source.folder.map_or_else(|| "-".to_owned(), |folder| folder.to_string());
            match source.content {
                TreeContent::Mbox(file) => {
                    let input = std::io::BufReader::new(file.open().unwrap());
                    let reader = MboxReader::new(input, "mbox", self.settings.clone()).unwrap();
                    read.extend(reader.map(|message| shown(&folder, &message.unwrap())));
                }
                TreeContent::Messages(mut messages) => {
                    while let Some(message) = messages.read_next(&self.settings) {
                        read.push(shown(&folder, &message.unwrap()));
                    }
                }
                TreeContent::Maildir(folder) => read.extend(self.folder(&folder)),
            }
        }
        read.sort();
        (read, tree)
    }
}

fn shown(folder: &str, message: &ArchivedMessage) -> String {
    let content = message.content.as_ref().unwrap().to_bytes().unwrap();
    let text = String::from_utf8(content.to_vec()).unwrap();
    let subject = text.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap().to_owned();
    format!("{folder}: {subject} [{}]", message.flags)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn mbox(subject: &str) -> Vec<u8> {
    format!("From - Fri Nov 20 10:00:00 2026\nSubject: {subject}\n\nx\n\n").into_bytes()
}

#[test]
fn a_directory_without_messages_is_no_maildir() {
    let fixture = Fixture::new();
    fixture.write(&[("mailboxes/INBOX/dbox-Mails/u.1", b"x")]);
    let error = Maildir::open(&fixture.root()).unwrap_err().to_string();
    assert!(error.contains("is a dbox") && error.contains("doveadm backup"), "{error}");
}

#[test]
fn directories_in_directories_are_folders() {
    let fixture = Fixture::new();
    fixture.write(&[
        ("cur/1.a:2,S", b"Subject: inbox\n\n"),
        ("Sent/cur/2.b:2,S", b"Subject: sent\n\n"),
        ("Work/2026/new/3.c", b"Subject: work\n\n"),
        ("Work/2026/cur/.keep", b""),
        ("Entw&APw-rfe/cur/4.d:2,D", b"Subject: draft\n\n"),
        (".Old.2025/cur/5.e:2,", b"Subject: old\n\n"),
        ("sieve/x.sieve", b"keep;"),
    ]);
    let expected = [
        "INBOX: inbox [\\Seen]",
        "Entwürfe: draft [\\Draft]",
        "Old/2025: old []",
        "Sent: sent [\\Seen]",
        "Work/2026: work []",
    ];
    assert_eq!(fixture.maildir(), expected);
}

#[test]
fn folders_of_kmail_are_found() {
    let fixture = Fixture::new();
    fixture.write(&[
        ("inbox/cur/1.a:2,S", b"Subject: inbox\n\n"),
        (".inbox.directory/Sub/cur/2.b:2,", b"Subject: sub\n\n"),
        (".inbox.directory/.Sub.directory/deep/cur/3.c:2,", b"Subject: deep\n\n"),
    ]);
    let expected = ["INBOX: inbox [\\Seen]", "INBOX/Sub: sub []", "INBOX/Sub/deep: deep []"];
    assert_eq!(fixture.maildir(), expected);
    let (read, tree) = fixture.tree(&fixture.root());
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!((read.as_slice(), tree.left.len(), tree.lost.len()), (&sorted.map(ToOwned::to_owned)[..], 0, 0));
}

#[test]
fn compressed_messages_are_read_or_refused_by_name() {
    let fixture = Fixture::new();
    let message = b"Subject: packed\n\nx\n";
    fixture.write(&[
        ("cur/1.a,S=19,W=22:2,S", &gzip(message)),
        ("cur/2.b:2,", &gzip(message)[..12]),
        ("cur/3.c:2,", b"BZh91AY&SYx"),
        ("cur/4.d:2,", &gzip(&[b'x'; 5000])),
    ]);
    let files = Maildir::open(&fixture.root()).unwrap().folders[0].files().unwrap().files;
    let read: Vec<_> = files.iter().map(|file| file.read(&fixture.settings)).collect();
    assert_eq!(shown("INBOX", read[0].as_ref().unwrap()), "INBOX: packed [\\Seen]");
    assert_eq!(read[0].as_ref().unwrap().content.as_ref().unwrap().len(), 22);
    assert!(read[1].as_ref().unwrap_err().to_string().contains("2.b"));
    let error = read[2].as_ref().unwrap_err().to_string();
    assert!(error.contains("3.c") && error.contains("bzip2"), "{error}");
    assert!(read[3].as_ref().unwrap().content.is_none(), "beyond the limit");
}

#[test]
fn lists_of_other_maildir_servers_are_read() {
    let fixture = Fixture::new();
    fixture.write(&[
        ("cur/100.M1.host,S=4:2,S", b"Subject: one\n\n"),
        ("cur/200.M2.host:2,", b"Subject: two\n\n"),
        ("courierimapuiddb", b"1 1275660208 25\n7 100.M1.host,S=4\n9 200.M2.host\n"),
        ("courierimapkeywords/:list", b"todo\n$Junk\n\n100.M1.host,S=4:0 1\n"),
    ]);
    let files = Maildir::open(&fixture.root()).unwrap().folders[0].files().unwrap();
    let uids: Vec<_> = files.files.iter().map(|file| file.uid).collect();
    assert_eq!((files.uid_validity, files.uid_next, uids), (Some(1_275_660_208), Some(25), vec![Some(7), Some(9)]));
    assert_eq!(fixture.maildir(), ["INBOX: one [\\Seen $Junk todo]", "INBOX: two []"]);
}

#[test]
fn keywords_in_files_of_their_own_are_read() {
    let fixture = Fixture::new();
    fixture.write(&[
        ("cur/100.M1.host,S=4:2,", b"Subject: one\n\n"),
        ("cur/200.M2.host,S=4:2,", b"Subject: two\n\n"),
        ("cur/300.M3.host,S=4:2,", b"Subject: three\n\n"),
        ("courierimapkeywords/:list", b"todo\n\n100.M1.host,S=4:0\n200.M2.host,S=4:0\n"),
        ("courierimapkeywords/100.M1.host,S=4", b"\nnew\ntodo\n"),
        ("courierimapkeywords/.10.100.M1.host,S=4", b"former\n"),
        ("courierimapkeywords/200.M2.host,S=4", b""),
        ("courierimapkeywords/.9.300.M3.host,S=4", b"former\n"),
        ("courierimapkeywords/.10.300.M3.host,S=4", b"later [x]\n$Junk\n"),
        ("courierimapkeywords/.tmp", b"other\n"),
    ]);
    std::os::unix::fs::symlink("x", fixture.root().join("courierimapkeywords/400.M4.host")).unwrap();
    assert_eq!(fixture.maildir(), ["INBOX: one [new todo]", "INBOX: two []", "INBOX: three [$Junk]"]);
    let files = Maildir::open(&fixture.root()).unwrap().folders[0].files().unwrap();
    assert_eq!(files.files[2].flags().1, 1, "a keyword that no mailbox can have");
    let refused: Vec<_> = files.refused.iter().map(ToString::to_string).collect();
    assert!(refused.len() == 1 && refused[0].contains("400.M4.host"), "{refused:?}");
}

#[test]
fn a_full_list_of_keywords_and_unknown_letters_are_noticed() {
    let fixture = Fixture::new();
    let list = |count| (0..count).map(|number| format!("{number} k{number}\n")).collect::<String>();
    fixture.write(&[
        ("cur/100.a:2,FaX,x=1", b"Subject: one\n\n"),
        ("dovecot-keywords", list(26).as_bytes()),
        (".Work/cur/100.a:2,", b"Subject: two\n\n"),
        (".Work/dovecot-keywords", list(25).as_bytes()),
    ]);
    let folders = Maildir::open(&fixture.root()).unwrap().folders;
    let files: Vec<_> = folders.iter().map(|folder| folder.files().unwrap()).collect();
    assert_eq!(files.iter().map(|one| one.may_lack_keywords).collect::<Vec<_>>(), [true, false]);
    let (flags, lost) = files[0].files[0].flags();
    assert_eq!((flags.to_string(), lost), ("\\Flagged k0".to_owned(), 1));
}

#[test]
fn mail_in_files_of_any_name_is_found() {
    let fixture = Fixture::new();
    fixture.write(&[
        ("Archive/2024", &mbox("year")),
        ("Entw&APw-rfe/R&-D", &mbox("encoded")),
        ("R&D", &mbox("as it is")),
        ("new/in", &mbox("new")),
        ("report.dat", &mbox("data")),
        ("subscriptions", &mbox("subscriptions")),
        ("popstate.dat", b"x"),
        ("mh/1", b"Subject: plain\n\n"),
        ("mh/2", &mbox("with a separator")),
    ]);
    let (read, tree) = fixture.tree(&fixture.root());
    let expected = [
        "Archive/2024: year []",
        "Entwürfe/R&D: encoded []",
        "R&D: as it is []",
        "mh: plain []",
        "mh: with a separator []",
        "new/in: new []",
        "report.dat: data []",
        "subscriptions: subscriptions []",
    ];
    assert_eq!((read.as_slice(), tree.left.len()), (&expected.map(ToOwned::to_owned)[..], 0));
}

#[test]
fn a_maildir_beside_mbox_files_is_named() {
    let fixture = Fixture::new();
    fixture.write(&[("cur/1.a", b"Subject: inbox\n\n"), ("new/2.b", b"Subject: new\n\n"), ("Sent", &mbox("sent"))]);
    let (read, tree) = fixture.tree(&fixture.root());
    let lost: Vec<_> = tree.lost.iter().map(|note| note.reason).collect();
    assert_eq!((read.as_slice(), lost.len()), (&["Sent: sent []".to_owned()][..], 1));
    assert!(lost[0].contains("mailapi import USER maildir"), "{lost:?}");
}

#[test]
fn a_profile_of_thunderbird_is_read() {
    let fixture = Fixture::new();
    fixture.write(&[
        ("prefs.js", b"x"),
        ("cert9.db", b"x"),
        ("Mail/Local Folders/Inbox", &mbox("inbox")),
        ("Mail/Local Folders/Inbox.msf", b"x"),
        ("Mail/Local Folders/Inbox.sbd/Sub", b"From \r\nSubject: sub\r\n\r\nx\r\n"),
        ("Mail/Local Folders/Trash", b""),
        ("Mail/pop.example.org/popstate.dat", b"x"),
        ("ImapMail/imap.example.org/INBOX", &mbox("copy")),
        ("Mail/Local Folders/notes.txt", b"Hello"),
    ]);
    let (read, tree) = fixture.tree(&fixture.root());
    assert_eq!(read, ["INBOX/Sub: sub []", "INBOX: inbox []", "imap.example.org/INBOX: copy []"]);
    let mut left: Vec<_> = tree.left.iter().map(|note| note.path.file_name().unwrap().to_str().unwrap()).collect();
    left.sort_unstable();
    assert_eq!((left, tree.lost.len(), tree.refused.len()), (vec!["Trash", "notes.txt"], 0, 0));
}

#[test]
fn mail_of_apple_and_of_readpst_is_read() {
    let fixture = Fixture::new();
    let plist = "<?xml version=\"1.0\"?><dict><key>flags</key><integer>17</integer></dict>";
    let emlx = format!("16  \nSubject: mail\n\nx{plist}");
    fixture.write(&[
        ("Sent.mbox/mbox", &mbox("apple")),
        ("Sent.mbox/table_of_contents", b"x"),
        ("Work.mbox/ABC-1/Data/1/2/Messages/7.emlx", emlx.as_bytes()),
        ("Work.mbox/ABC-1/Data/1/2/Messages/8.partial.emlx", emlx.as_bytes()),
        ("Outlook/Inbox/mbox", &mbox("readpst")),
        ("old.pst", b"!BDN"),
        ("all.mbox.gz", &gzip(&mbox("packed"))),
    ]);
    let (read, tree) = fixture.tree(&fixture.root());
    assert_eq!(read, ["Outlook/Inbox: readpst []", "Sent: apple []", "Work: mail [\\Flagged \\Seen]"]);
    let lost: Vec<_> = tree.lost.iter().map(|note| format!("{}: {}", note.path.display(), note.reason)).collect();
    assert_eq!(lost.len(), 3, "{lost:?}");
    for (name, reason) in [("8.partial.emlx", "attachments"), ("old.pst", "readpst -r"), ("all.mbox.gz", "gunzip")] {
        assert!(lost.iter().any(|note| note.contains(name) && note.contains(reason)), "{name}: {lost:?}");
    }
    // One folder of Apple Mail by itself.
    let (read, _) = fixture.tree(&fixture.root().join("Sent.mbox"));
    assert_eq!(read, ["-: apple []"]);
}

#[test]
fn folders_of_mh_are_read_in_order() {
    let fixture = Fixture::new();
    fixture.write(&[
        ("inbox/1", b"Subject: same\n\n"),
        ("inbox/2", b"Subject: same\n\n"),
        ("inbox/10", b"Subject: ten\n\n"),
        ("inbox/.mh_sequences", b"unseen: 10\nreplied: 2\n"),
        ("inbox/sub/1", b"Subject: sub\n\n"),
    ]);
    let (read, tree) = fixture.tree(&fixture.root());
    let expected = ["INBOX/sub: sub []", "INBOX: same [\\Answered \\Seen]", "INBOX: same [\\Seen]", "INBOX: ten []"];
    assert_eq!((read.as_slice(), tree.left.len()), (&expected.map(ToOwned::to_owned)[..], 0));
    let mut tree = MailTree::of(Arc::new(OpenDirectory::open(&fixture.root().join("inbox")).unwrap())).unwrap();
    let TreeContent::Messages(messages) = &mut tree.sources.last_mut().unwrap().content else { panic!("no messages") };
    let keys: Vec<_> =
        std::iter::from_fn(|| messages.read_next(&fixture.settings)).map(|read| read.unwrap().key).collect();
    assert!(keys.len() == 3 && keys[0] != keys[1], "equal messages are two");
}

#[test]
fn links_and_special_files_of_a_tree_are_refused() {
    let fixture = Fixture::new();
    fixture.write(&[("Sent", &mbox("sent")), ("../secret/mbox", &mbox("secret"))]);
    std::os::unix::fs::symlink("../secret", fixture.root().join("Other")).unwrap();
    std::os::unix::fs::symlink("../secret/mbox", fixture.root().join("mbox")).unwrap();
    let (read, tree) = fixture.tree(&fixture.root());
    assert_eq!(read, ["Sent: sent []"]);
    let refused: Vec<_> = tree.refused.iter().map(ToString::to_string).collect();
    assert!(refused.len() == 2 && refused.iter().all(|error| error.contains("is a symbolic link")), "{refused:?}");
}
