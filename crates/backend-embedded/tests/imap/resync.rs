//! Modification sequences, and clients that come back (RFC 7162).

use crate::client::Client;
use crate::test_server::{TestServer, ann};

const MAIL: &str = "From: eve@elsewhere.example\nSubject: Hi\n\ntext\n";

/// Returns UIDVALIDITY and HIGHESTMODSEQ of INBOX.
async fn state(client: &mut Client) -> (u64, u64) {
    let answer = client.ok("STATUS INBOX (UIDVALIDITY HIGHESTMODSEQ)").await;
    let line = answer.iter().find(|line| line.starts_with("* STATUS")).unwrap();
    let number = |name: &str| {
        let rest = line.split_once(name).unwrap().1.trim_start();
        rest.split([' ', ')']).next().unwrap().parse().unwrap()
    };
    (number("UIDVALIDITY"), number("HIGHESTMODSEQ"))
}

/// Returns the lines about removed and changed messages.
fn news(answer: &[String]) -> Vec<&str> {
    answer.iter().map(String::as_str).filter(|line| line.contains("VANISHED") || line.contains("FETCH")).collect()
}

/// Puts `count` messages into INBOX.
async fn fill(client: &mut Client, count: u32) {
    client.append("INBOX", "", MAIL).await;
    client.ok("SELECT INBOX").await;
    let mut present = 1;
    while present < count {
        let more = present.min(count - present);
        client.ok(&format!("COPY 1:{more} INBOX")).await;
        present += more;
    }
    client.ok("UNSELECT").await;
}

#[tokio::test]
async fn a_client_that_comes_back_gets_only_what_changed() {
    let server = TestServer::open().await;
    let (mut client, mut other) = (server.ann().await, server.ann().await);
    fill(&mut client, 14_000).await;
    client.ok("ENABLE QRESYNC").await;
    let (validity, modseq) = state(&mut client).await;
    other.ok("SELECT INBOX").await;
    other.ok("STORE 7,9 +FLAGS.SILENT (\\Seen)").await;
    other.ok("STORE 100:300,13999:14000 +FLAGS.SILENT (\\Deleted)").await;
    other.ok("EXPUNGE").await;
    other.append("INBOX", "", MAIL).await;
    let (_, latest) = state(&mut other).await;
    let answer = client.ok(&format!("SELECT INBOX (QRESYNC ({validity} {modseq}))")).await;
    let [vanished, seven, nine, new] = news(&answer)[..] else { panic!("{answer:?}") };
    assert_eq!(vanished, "* VANISHED (EARLIER) 100:300,13999:14000");
    assert!(seven.starts_with("* 7 FETCH (UID 7 FLAGS (\\Seen) MODSEQ ("), "{seven}");
    assert!(nine.starts_with("* 9 FETCH (UID 9 FLAGS (\\Seen) MODSEQ ("), "{nine}");
    assert!(new.starts_with("* 13798 FETCH (UID 14001 FLAGS () MODSEQ ("), "{new}");
    assert!(answer.contains(&format!("* OK [HIGHESTMODSEQ {latest}] Highest")), "{answer:?}");
    // The same by UID FETCH; and nothing that the client knows.
    let fetched = client.ok(&format!("UID FETCH 1:* (FLAGS) (CHANGEDSINCE {modseq} VANISHED)")).await;
    assert_eq!(news(&fetched), news(&answer));
    assert_eq!(client.ok(&format!("UID FETCH 1:* (FLAGS) (CHANGEDSINCE {latest} VANISHED)")).await, [""; 0]);
    let again = client.ok(&format!("SELECT INBOX (QRESYNC ({validity} {latest}))")).await;
    assert_eq!(news(&again), [""; 0]);
}

#[tokio::test]
async fn removals_by_move_and_by_the_api_are_remembered() {
    use mailapi_backend::Mailboxes;
    let server = TestServer::open().await;
    let mut client = server.ann().await;
    fill(&mut client, 5).await;
    client.ok("ENABLE QRESYNC").await;
    let (validity, modseq) = state(&mut client).await;
    client.ok("SELECT INBOX").await;
    let moved = client.run("UID MOVE 2:3 Trash").await;
    assert_eq!(moved.untagged.last().unwrap(), "* VANISHED 2:3");
    assert!(moved.end.starts_with("OK [HIGHESTMODSEQ "), "{moved:?}");
    server.message_store.purge(&ann()).await.unwrap();
    let answer = client.ok(&format!("SELECT INBOX (QRESYNC ({validity} {modseq}))")).await;
    assert_eq!(news(&answer), ["* VANISHED (EARLIER) 1:5"]);
}

#[tokio::test]
async fn removals_that_were_forgotten_are_the_gaps() {
    let server = TestServer::open().await;
    let mut client = server.ann().await;
    fill(&mut client, 6).await;
    client.ok("SELECT INBOX").await;
    let (validity, modseq) = state(&mut client).await;
    client.ok("STORE 2,6 +FLAGS.SILENT (\\Deleted)").await;
    client.ok("EXPUNGE").await;
    // As in a mailbox from before removals were stored.
    let database = server.database();
    database
        .execute_batch("DELETE FROM drop_vanished; UPDATE drop_folders SET vanished_after = highest_modseq")
        .unwrap();
    client.ok("ENABLE QRESYNC").await;
    let answer = client.ok(&format!("SELECT INBOX (QRESYNC ({validity} {modseq}))")).await;
    assert_eq!(news(&answer), ["* VANISHED (EARLIER) 2,6"]);
}

#[tokio::test]
async fn a_conditional_store_changes_only_what_the_client_knows() {
    let server = TestServer::open().await;
    let (mut client, mut other) = (server.ann().await, server.ann().await);
    fill(&mut client, 3).await;
    client.ok("SELECT INBOX (CONDSTORE)").await;
    let (_, modseq) = state(&mut client).await;
    other.ok("SELECT INBOX").await;
    other.ok("STORE 2 +FLAGS.SILENT (\\Answered)").await;
    let stored = client.run(&format!("STORE 1:3 (UNCHANGEDSINCE {modseq}) +FLAGS.SILENT (\\Seen)")).await;
    assert_eq!(stored.end, "OK [MODIFIED 2] Conditional STORE failed for some messages");
    assert_eq!(other.ok("SEARCH SEEN").await[0], "* SEARCH 1 3");
    assert_eq!(other.ok("SEARCH ANSWERED").await[0], "* SEARCH 2");
}

#[tokio::test]
async fn flags_that_another_session_changed_back_have_a_new_modseq() {
    let server = TestServer::open().await;
    let (mut client, mut plain, mut other) = (server.ann().await, server.ann().await, server.ann().await);
    fill(&mut client, 2).await;
    client.ok("SELECT INBOX (CONDSTORE)").await;
    plain.ok("SELECT INBOX").await;
    other.ok("SELECT INBOX").await;
    other.ok("STORE 2 +FLAGS.SILENT (\\Answered)").await;
    other.ok("STORE 2 -FLAGS.SILENT (\\Answered)").await;
    let (_, modseq) = state(&mut other).await;
    assert_eq!(client.ok("NOOP").await, [format!("* 2 FETCH (UID 2 MODSEQ ({modseq}))")]);
    assert_eq!(plain.ok("NOOP").await, [""; 0]);
    let stored = client.run(&format!("STORE 2 (UNCHANGEDSINCE {modseq}) +FLAGS.SILENT (\\Seen)")).await;
    assert_eq!(stored.end, "OK STORE completed");
}
