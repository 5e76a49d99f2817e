use bytes::Bytes;
use mailapi_backend::Mailboxes;
use mailapi_backend_embedded::message_store::FlagChange;
use mailapi_imap::Flags;
use proptest::prelude::*;

use super::test_store::{TestStore, ann, folder, mail};

#[derive(Debug, Clone)]
enum Step {
    Deliver,
    Append { to: usize, seen: bool },
    Flag { at: usize, uid: u32, change: FlagChange, flag: &'static str },
    Copy { from: usize, to: usize, uid: u32 },
    Move { from: usize, to: usize, uid: u32 },
    Expunge { at: usize },
    Rename { at: usize, to: usize },
    Remove { at: usize },
    Create { at: usize },
    Purge,
    Maintain,
}

const FOLDERS: [&str; 4] = ["INBOX", "Sent", "Work", "Work/a"];

fn step() -> impl Strategy<Value = Step> {
    let (at, uid) = (0..FOLDERS.len(), 1_u32..6);
    let change = prop::sample::select(vec![FlagChange::Set, FlagChange::Add, FlagChange::Remove]);
    let flag = prop::sample::select(vec!["\\Seen", "\\Deleted", "$k"]);
    prop_oneof![
        4 => Just(Step::Deliver),
        4 => (at.clone(), any::<bool>()).prop_map(|(to, seen)| Step::Append { to, seen }),
        6 => (at.clone(), uid.clone(), change, flag).prop_map(|(at, uid, change, flag)| Step::Flag { at, uid, change, flag }),
        3 => (at.clone(), at.clone(), uid.clone()).prop_map(|(from, to, uid)| Step::Copy { from, to, uid }),
        3 => (at.clone(), at.clone(), uid).prop_map(|(from, to, uid)| Step::Move { from, to, uid }),
        3 => at.clone().prop_map(|at| Step::Expunge { at }),
        1 => (at.clone(), at.clone()).prop_map(|(at, to)| Step::Rename { at, to }),
        1 => at.clone().prop_map(|at| Step::Remove { at }),
        2 => at.prop_map(|at| Step::Create { at }),
        1 => Just(Step::Purge),
        2 => Just(Step::Maintain),
    ]
}

/// Performs a step. A refused step must have no effect, which the recount checks.
async fn take(test_store: &TestStore, step: Step) {
    let message_store = &test_store.message_store;
    let at = |n: usize| folder(FOLDERS[n]);
    let id = async |n: usize| message_store.folder(&ann(), &at(n)).await.ok().map(|folder| folder.id);
    match step {
        Step::Deliver => {
            test_store.deliver(&["ann@example.org", "bob@example.org", "c@x.example"], &mail("Hi", ".")).await
        }
        Step::Append { to, seen } => {
            let flags = Flags::from_words(seen.then_some("\\Seen"));
            let _ = message_store.append(&ann(), &at(to), &flags, None, Bytes::from(mail("Hi", "text"))).await;
        }
        Step::Flag { at, uid, change, flag } => {
            if let Some(id) = id(at).await {
                message_store.store_flags(id, vec![uid], change, Flags::from_words([flag])).await.unwrap();
            }
        }
        Step::Copy { from, to, uid } => {
            if let Some(id) = id(from).await {
                let _ = message_store.copy(id, vec![uid, uid + 1], &at(to)).await;
            }
        }
        Step::Move { from, to, uid } => {
            if let Some(id) = id(from).await {
                let _ = message_store.move_messages(id, vec![uid, uid + 1], &at(to)).await;
            }
        }
        Step::Expunge { at } => {
            if let Some(id) = id(at).await {
                message_store.expunge(id, None).await.unwrap();
            }
        }
        Step::Rename { at: from, to } => drop(message_store.rename_folder(&ann(), &at(from), &at(to)).await),
        Step::Remove { at: n } => drop(message_store.delete_folder(&ann(), &at(n)).await),
        Step::Create { at: n } => drop(message_store.create_folder(&ann(), &at(n)).await),
        Step::Purge => drop(message_store.purge(&ann()).await.unwrap()),
        Step::Maintain => message_store.maintain_until_done().await.unwrap(),
    }
}

/// Each query counts rows that contradict another table.
const CONTRADICTIONS: [&str; 8] = [
    "SELECT count(*) FROM drop_folders f WHERE (messages, unread, size) IS NOT (SELECT count(*),
        count(*) FILTER (WHERE flags & 1 = 0), coalesce(sum(size), 0) FROM drop_entries WHERE folder_id = f.id)",
    "SELECT count(*) FROM drop_mailboxes m WHERE (messages, used_bytes) IS NOT (SELECT count(*),
        coalesce(sum(e.size), 0) FROM drop_entries e JOIN drop_folders f ON f.id = e.folder_id
        WHERE f.mailbox_id = m.id)",
    "SELECT count(*) FROM drop_messages m WHERE refs <> (SELECT count(*) FROM drop_entries WHERE message_id = m.id)
        + (SELECT count(*) FROM drop_queue WHERE message_id = m.id)",
    "SELECT count(*) FROM drop_entries e JOIN drop_messages m ON m.id = e.message_id
        WHERE e.size <> m.size + coalesce(length(CAST('Delivered-To: ' || e.delivered_to AS BLOB)) + 2, 0)",
    "SELECT count(*) FROM drop_messages m WHERE size <> (SELECT sum(length(octets)) FROM drop_chunks
        WHERE key / 65536 = m.id)",
    "SELECT count(*) FROM drop_chunks WHERE key / 65536 NOT IN (SELECT id FROM drop_messages)",
    "SELECT count(*) FROM drop_entries e JOIN drop_folders f ON f.id = e.folder_id
        WHERE e.uid >= f.uid_next OR e.modseq > f.highest_modseq",
    "SELECT count(*) FROM (SELECT uid_validity FROM drop_folders GROUP BY uid_validity HAVING count(*) > 1)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn counters_equal_a_recount_whatever_was_done(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let test_store = TestStore::new().await;
            for step in steps {
                take(&test_store, step).await;
            }
            for sql in CONTRADICTIONS {
                assert_eq!(test_store.number(sql), 0, "{sql}");
            }
            test_store.message_store.maintain_until_done().await.unwrap();
            assert_eq!(test_store.number("SELECT count(*) FROM drop_messages WHERE refs = 0"), 0);
            assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 0);
            assert_eq!(
                test_store.number("SELECT count(*) FROM drop_texts"),
                test_store.number("SELECT count(DISTINCT message_id) FROM drop_entries"),
            );
        });
    }
}
