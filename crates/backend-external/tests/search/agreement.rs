//! Whatever happens to a mailbox, the index finds what reading every message would.

use mailapi_backend::contract::Fixture;
use mailapi_backend::{FolderScope, Mailboxes, SearchHit};
use mailapi_model::{EmailAddress, Entropy, FolderName};
use mailapi_testkit::SeededEntropy;

use crate::indexed::{Indexed, query, read_all};

const FOLDERS: [&str; 3] = ["INBOX", "Kept", "Archive/2026"];
const WORDS: [&str; 6] = ["needle", "Straße", "hay and straw", "ΟΔΟΣ", "100 %", "\"quoted\""];
const SEARCHES: [&str; 9] = ["needle", "EEDL", "straße", "οδος", "0 %", "\"q", "ay", "ann lee <ann@", "class"];

struct Chance(SeededEntropy);

impl Chance {
    fn below(&self, limit: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        usize::try_from(u64::from_le_bytes(bytes) % limit as u64).unwrap()
    }

    fn of<'a, T>(&self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Returns a plain, HTML or quoted-printable message, one with a text attachment outside the text, or a long one.
fn message(chance: &Chance) -> Vec<u8> {
    let (subject, word) = (chance.of(&WORDS), chance.of(&WORDS));
    let start = format!(
        "From: Ann Lee <ann@elsewhere.example>\r\nTo: Bob <bob@example.org>\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\n"
    );
    let typed = |kind: &str, body: &str| {
        format!("{start}Content-Type: {kind}; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{body}\r\n")
    };
    match chance.below(4) {
        0 => typed("text/plain", word),
        1 => typed("text/html", &format!("<p class=\"hay\">{}<b>{}</b></p>", &word[..2], &word[2..])),
        2 => format!(
            "{start}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n\
             --b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nneedle\r\n--b--\r\n"
        ),
        _ => typed("text/plain", &format!("{}{word}", "straw\r\n".repeat(12_000))),
    }
    .into_bytes()
}

fn folder(chance: &Chance) -> FolderName {
    chance.of(&FOLDERS).parse().unwrap()
}

/// Returns a random message of the folder, if there is one.
async fn any_uid(setup: &Indexed, bob: &EmailAddress, folder: &FolderName, chance: &Chance) -> Option<u32> {
    let listed = setup.server.mailboxes.list(bob, folder, mailapi_model::Page::new(200, 0)).await.unwrap();
    (!listed.items.is_empty()).then(|| chance.of(&listed.items).uid)
}

async fn something_happens(setup: &Indexed, bob: &EmailAddress, chance: &Chance) {
    let (from, to, dovecot) = (folder(chance), folder(chance), &setup.server.dovecot);
    let uid = any_uid(setup, bob, &from, chance).await;
    let at = |uid: u32| uid.to_string();
    match (chance.below(9), uid) {
        (0, Some(uid)) => setup.move_message(bob, &from, uid, &to).await,
        (1, Some(uid)) => {
            dovecot.doveadm(&["expunge", "-u", bob.as_str(), "mailbox", from.as_str(), "uid", &at(uid)]);
        }
        (2, Some(uid)) => setup.set_flags(bob, &from, uid, &["\\Seen", "\\Deleted"]).await,
        (3, _) if from != FolderName::inbox() => {
            // The same name gets another UIDVALIDITY.
            dovecot.doveadm(&["mailbox", "delete", "-u", bob.as_str(), from.as_str()]);
            dovecot.doveadm(&["mailbox", "create", "-u", bob.as_str(), from.as_str()]);
        }
        (4, _) => {
            // Two folders swap their names.
            for (old, new) in [("Kept", "Between"), ("Archive/2026", "Kept"), ("Between", "Archive/2026")] {
                dovecot.doveadm(&["mailbox", "rename", "-u", bob.as_str(), old, new]);
            }
        }
        (5, Some(uid)) => {
            dovecot.doveadm(&["copy", "-u", bob.as_str(), to.as_str(), "mailbox", from.as_str(), "uid", &at(uid)]);
        }
        _ => setup.deliver(bob, &message(chance)).await,
    }
}

/// Sorts the hits, so that the order across folders does not matter.
fn sorted(mut hits: Vec<SearchHit>) -> Vec<SearchHit> {
    hits.sort_by(|a, b| (&a.folder, a.uid).cmp(&(&b.folder, b.uid)));
    hits
}

async fn assert_agreement(setup: &Indexed, bob: &EmailAddress, chance: &Chance) {
    let text = chance.of(&SEARCHES);
    let (mut everywhere, reader) = (Vec::new(), setup.reader());
    for name in FOLDERS {
        let folder: FolderName = name.parse().unwrap();
        let expected = read_all(&reader, bob, &folder, text).await;
        let found = setup.search(bob, &query(text, FolderScope::One(folder))).await;
        assert_eq!((found.total, &found.items), (expected.len() as u64, &expected), "{text} in {name}");
        everywhere.extend(expected);
    }
    let found = setup.search(bob, &query(text, FolderScope::All)).await;
    assert_eq!(found.total, everywhere.len() as u64, "{text}");
    assert_eq!(sorted(found.items), sorted(everywhere), "{text}");
}

#[tokio::test]
async fn the_index_agrees_with_reading_through_random_changes() {
    let mut setup = Indexed::start_with("", |settings| {
        settings.batch_messages = 3;
        // So small that each search reads the long texts.
        settings.max_indexed_bytes = 50_000;
    })
    .await;
    let chance = Chance(SeededEntropy::new(77_123));
    let bob = setup.server.mailbox_with("bob", &[]).await;
    for folder in &FOLDERS[1..] {
        setup.create_folder(&bob, &folder.parse().unwrap()).await;
    }
    for round in 0..40 {
        for _ in 0..1 + chance.below(4) {
            something_happens(&setup, &bob, &chance).await;
        }
        match chance.below(6) {
            0 => setup.restart(),
            1 => setup.mailboxes.forget(&bob),
            2 => drop(setup.mailboxes.index_once().await),
            _ => {}
        }
        assert_agreement(&setup, &bob, &chance).await;
        if round % 10 == 9 {
            setup.index_all().await;
        }
    }
}
