//! Changes by others, as a session reports them.

use mailapi_backend::{Mailboxes, Provisioning};
use mailapi_backend_embedded::message_store::FlagChange;
use mailapi_imap::Flags;

use crate::test_server::{TestServer, ann};

const MAIL: &str = "From: eve@elsewhere.example\nSubject: Hi\n\ntext\n";

#[tokio::test]
async fn two_sessions_see_what_the_other_does() {
    let server = TestServer::open().await;
    let (mut one, mut two) = (server.ann_in("INBOX").await, server.ann_in("INBOX").await);
    assert!(one.append("INBOX", "", MAIL).await.end.starts_with("OK [APPENDUID "));
    assert_eq!(two.ok("NOOP").await, ["* 1 EXISTS"]);
    one.append("INBOX", "\\Flagged todo", MAIL).await;
    assert_eq!(two.ok("NOOP").await, ["* FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft todo)", "* 2 EXISTS"]);
    two.ok("STORE 1 +FLAGS.SILENT (\\Deleted)").await;
    assert_eq!(one.ok("NOOP").await, ["* 1 FETCH (UID 1 FLAGS (\\Deleted \\Recent))"]);
    assert_eq!(one.ok("EXPUNGE").await, ["* 1 EXPUNGE", "* 1 RECENT"]);
    // The second message is still number 2 for the other session, which has not reported the change yet.
    assert_eq!(two.ok("FETCH 2 UID").await, ["* 2 FETCH (UID 2)"]);
    assert_eq!(two.ok("NOOP").await, ["* 1 EXPUNGE"]);
    assert_eq!(two.ok("MOVE 1 Trash").await.last().unwrap(), "* 1 EXPUNGE");
    assert_eq!(one.ok("NOOP").await, ["* 1 EXPUNGE", "* 0 RECENT"]);
    assert_eq!(one.ok("NOOP").await, [""; 0]);
}

#[tokio::test]
async fn a_client_that_idles_hears_at_once() {
    let server = TestServer::open().await;
    let mut idle = server.ann_in("INBOX").await;
    // Changes between SELECT and IDLE are reported at the start of IDLE.
    server.deliver(MAIL).await;
    idle.idle().await;
    assert_eq!(idle.line().await.unwrap(), "* 1 EXISTS");
    assert_eq!(idle.line().await.unwrap(), "* 1 RECENT");
    server.deliver(MAIL).await;
    assert_eq!(idle.line().await.unwrap(), "* 2 EXISTS");
    assert_eq!(idle.line().await.unwrap(), "* 2 RECENT");
    let folder = server.message_store.folder(&ann(), &"INBOX".parse().unwrap()).await.unwrap().id;
    server.message_store.store_flags(folder, vec![1], FlagChange::Add, Flags::from_words(["\\Seen"])).await.unwrap();
    assert_eq!(idle.line().await.unwrap(), "* 1 FETCH (UID 1 FLAGS (\\Seen \\Recent))");
    // Purged by the API.
    server.message_store.purge(&ann()).await.unwrap();
    assert_eq!(idle.line().await.unwrap(), "* 2 EXPUNGE");
    assert_eq!(idle.line().await.unwrap(), "* 1 EXPUNGE");
    assert_eq!(idle.line().await.unwrap(), "* 0 RECENT");
    assert_eq!(idle.done().await, [""; 0]);
}

#[tokio::test]
async fn a_client_that_idles_hears_of_other_processes() {
    let server = TestServer::open().await;
    let mut idle = server.ann_in("INBOX").await;
    idle.idle().await;
    let other = server.other_process().await;
    other.append(&ann(), &"INBOX".parse().unwrap(), &Flags::new(), None, MAIL.to_owned()).await.unwrap();
    assert_eq!(idle.line().await.unwrap(), "* 1 EXISTS");
}

#[tokio::test]
async fn changes_of_other_folders_and_mailboxes_are_no_news() {
    let server = TestServer::open().await;
    let mut idle = server.ann_in("Drafts").await;
    idle.idle().await;
    server.deliver(MAIL).await;
    assert_eq!(idle.done().await, [""; 0]);
    assert_eq!(idle.ok("NOOP").await, [""; 0]);
}

#[tokio::test]
async fn a_removed_folder_ends_the_selection_and_a_rename_does_not() {
    let server = TestServer::open().await;
    let mut admin = server.ann().await;
    admin.ok("CREATE Work/a").await;
    let (mut removed, mut renamed) = (server.ann_in("Drafts").await, server.ann_in("Work/a").await);
    admin.ok("RENAME Work Job").await;
    admin.append("Job/a", "", MAIL).await;
    assert_eq!(renamed.ok("NOOP").await, ["* 1 EXISTS", "* 1 RECENT"]);
    admin.ok("DELETE Drafts").await;
    let appended = removed.append("INBOX", "", MAIL).await;
    // The client must learn that the message is stored, or it would store it again.
    assert!(appended.end.starts_with("OK [APPENDUID "), "{appended:?}");
    assert_eq!(removed.line().await.as_deref(), Some("* BYE Selected mailbox was deleted or renamed"));
    assert_eq!(removed.line().await, None);
    server.message_store.remove_mailbox(&ann()).await.unwrap();
    assert_eq!(renamed.run("NOOP").await.end, "OK Done");
    assert_eq!(renamed.line().await.as_deref(), Some("* BYE Selected mailbox was deleted or renamed"));
    assert!(admin.run("LIST \"\" *").await.end.starts_with("NO [UNAVAILABLE]"));
}

#[tokio::test]
async fn a_client_may_delete_what_it_has_selected() {
    let server = TestServer::open().await;
    let mut client = server.ann_in("Drafts").await;
    let mut other = server.ann_in("INBOX").await;
    assert_eq!(other.ok("DELETE Junk").await, [""; 0]);
    assert_eq!(other.ok("NOOP").await, [""; 0]);
    assert_eq!(client.ok("DELETE Drafts").await, [""; 0]);
    assert_eq!(client.run("FETCH 1 UID").await.end, "BAD No mailbox is selected");
    client.ok("SELECT INBOX").await;
}

#[tokio::test]
async fn renaming_the_inbox_moves_messages_and_keeps_subfolders() {
    let server = TestServer::open().await;
    let mut client = server.ann_in("INBOX").await;
    client.ok("CREATE INBOX/below").await;
    client.append("INBOX", "\\Seen", MAIL).await;
    // APPEND reported the message; the rename removes it again.
    assert_eq!(client.ok("RENAME INBOX Old").await, ["* 1 EXPUNGE", "* 0 RECENT"]);
    let listed = client.ok("LIST \"\" *").await.join("\n");
    assert!(listed.contains("INBOX/below") && listed.contains("Old") && !listed.contains("Old/"), "{listed}");
    client.ok("SELECT Old").await;
    assert_eq!(client.ok("FETCH 1 FLAGS").await, ["* 1 FETCH (FLAGS (\\Seen \\Recent))"]);
}

#[tokio::test]
async fn a_user_disabled_during_idle_reads_no_later_mail() {
    let server = TestServer::open().await;
    server.deliver(MAIL).await;
    let (mut idle, mut other) = (server.ann_in("INBOX").await, server.ann_in("INBOX").await);
    idle.idle().await;
    server.disable_everybody();
    server.deliver(MAIL).await;
    assert_eq!(
        idle.line().await.as_deref(),
        Some("* BYE The account is disabled, or the password was changed or revoked")
    );
    assert_eq!(idle.line().await, None);
    other.send(b"x FETCH 1 BODY[]\r\n").await;
    assert_eq!(other.line().await.as_deref(), Some("x NO Command not completed"));
    assert_eq!(
        other.line().await.as_deref(),
        Some("* BYE The account is disabled, or the password was changed or revoked")
    );
    assert_eq!(other.line().await, None);
}

#[tokio::test]
async fn a_session_ends_when_its_folder_gets_new_uids() {
    let server = TestServer::open().await;
    server.deliver(MAIL).await;
    let mut selected = server.ann_in("INBOX").await;
    let used_up = "UPDATE drop_folders SET uid_next = 4294967295 WHERE name = 'INBOX'";
    server.database().execute(used_up, []).unwrap();
    server.deliver(MAIL).await;
    // UID 1 is still the first message, but 2 could be another one than the session takes it for.
    assert!(selected.run("UID STORE 1:2 +FLAGS (\\Deleted)").await.end.starts_with("NO "));
    assert_eq!(selected.line().await.as_deref(), Some("* BYE Selected mailbox was deleted or renamed"));
    let mut again = server.ann_in("INBOX").await;
    let listed = again.ok("UID FETCH 1:* FLAGS").await;
    assert_eq!(listed, ["* 1 FETCH (UID 1 FLAGS ())", "* 2 FETCH (UID 2 FLAGS (\\Recent))"]);
}
