//! Reads that an export makes.

use bytes::Bytes;
use mailapi_backend_embedded::message_store::{FlagChange, MailboxExport};
use mailapi_imap::Flags;

use super::test_store::{TestStore, ann, folder, mail};

/// Returns the exported messages of a folder, by their subjects.
fn exported(export: &mut MailboxExport, name: &str) -> Vec<String> {
    let folder = export.folders().unwrap().into_iter().find(|one| one.name == folder(name)).unwrap();
    let entries = export.entries_above(folder.id, 0, 10).unwrap();
    let texts = entries.iter().map(|entry| export.message_of(entry).unwrap().to_bytes().unwrap());
    texts.map(|text| subject(str::from_utf8(&text).unwrap())).collect()
}

fn subject(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap().to_owned()
}

#[tokio::test]
async fn an_export_shows_one_state_however_mail_moves() {
    let test_store = TestStore::new().await;
    let store = &test_store.message_store;
    // The third is long, so it is read in pieces and buffered.
    for (number, body) in [(1, ".".to_owned()), (2, ".".to_owned()), (3, "x\r\n".repeat(1_000_000))] {
        let message = Bytes::from(mail(&format!("{number}"), &body));
        store.append(&ann(), &folder("INBOX"), &Flags::new(), None, message).await.unwrap();
    }
    let inbox = store.folder(&ann(), &folder("INBOX")).await.unwrap().id;
    let trash = store.folder(&ann(), &folder("Trash")).await.unwrap().id;
    let mut export = store.begin_export(&ann()).await.unwrap();
    assert_eq!(exported(&mut export, "Archive"), [""; 0]);

    // One message moves to a folder that was read, one to another folder, and one is expunged.
    store.move_messages(inbox, vec![1], &folder("Archive")).await.unwrap();
    store.move_messages(inbox, vec![2], &folder("Trash")).await.unwrap();
    store.store_flags(inbox, vec![3], FlagChange::Add, Flags::from_words(["\\Deleted"])).await.unwrap();
    store.expunge(inbox, None).await.unwrap();
    store.rename_folder(&ann(), &folder("Archive"), &folder("Old")).await.unwrap();
    let mut collected = 0;
    while collected == 0 {
        collected = store.collect_garbage_once().await.unwrap();
    }

    assert_eq!(exported(&mut export, "INBOX"), ["1", "2", "3"]);
    assert_eq!(exported(&mut export, "Trash"), [""; 0]);
    assert_eq!(export.subscriptions().unwrap().len(), 6);
    let mut later = store.begin_export(&ann()).await.unwrap();
    assert_eq!((exported(&mut later, "INBOX"), exported(&mut later, "Old")), (vec![], vec!["1".to_owned()]));
    assert_eq!(later.entries_above(trash, 0, 10).unwrap().len(), 1);
}
