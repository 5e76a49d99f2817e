//! Drafts on servers without UIDPLUS, on full ones, and over connections that break.

use mailapi_backend::{MailboxError, Mailboxes, NewDraft, SavedDraft};
use mailapi_backend_external::mailboxes::{ImapMailboxes, MailboxSettings};
use mailapi_model::EmailAddress;
use mailapi_testkit::scripted_imap::{LOGIN, ScriptedServer};

use crate::fixture::{imap_settings, mailboxes, pool};

const FOLDERS: &str = "\
C: LIST \"\" \"*\"
S: * LIST () \"/\" INBOX
S: * LIST (\\Drafts) \"/\" Saved
S: * LIST () \"/\" Drafts
S: {tag} OK";

/// The message has one line, and an empty line ends the command. The script takes the first word of a line for a tag.
const APPEND: &str = "\
C: APPEND \"Saved\" (\\Draft \\Seen) {11}
S: + go on
C: draft
C: ";

/// Finds the appended message.
const SEARCH: &str = "\
C: LIST \"\" \"\"
S: * LIST (\\Noselect) \"/\" \"\"
S: {tag} OK
C: EXAMINE \"Saved\"
S: * 2 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID SEARCH HEADER \"Message-ID\" \"<1@example.org>\"
S: * SEARCH 8
S: {tag} OK";

const MARK: &str = "\
C: SELECT \"Saved\"
S: * 2 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID FETCH 5 (UID FLAGS)
S: * 1 FETCH (UID 5 FLAGS (\\Draft))
S: {tag} OK
C: UID STORE 5 +FLAGS.SILENT (\\Deleted)
S: {tag} OK
C: UID SEARCH DELETED";

struct Setup {
    server: ScriptedServer,
    mailboxes: ImapMailboxes,
    bob: EmailAddress,
}

impl Setup {
    /// Starts a server with a script for each connection.
    async fn start(scripts: &[&[&str]]) -> Self {
        let scripts: Vec<String> = scripts.iter().map(|script| script.join("\n")).collect();
        let server = ScriptedServer::start(&scripts).await;
        let mailboxes = mailboxes(&pool(imap_settings(server.port)), MailboxSettings::default());
        Self { server, mailboxes, bob: "bob@example.org".parse().unwrap() }
    }

    async fn save(&self, replaces: Option<u32>) -> Result<SavedDraft, MailboxError> {
        let message = b"the draft\r\n".to_vec().into();
        let draft = NewDraft { message, message_id: "<1@example.org>".to_owned(), replaces };
        let saved = self.mailboxes.save_draft(&self.bob, draft).await;
        self.server.assert_no_surprise();
        saved
    }
}

fn saved_as(uid: u32) -> Result<SavedDraft, MailboxError> {
    Ok(SavedDraft { folder: "Saved".parse().unwrap(), uid })
}

#[tokio::test]
async fn a_server_without_room_is_not_sent_the_message() {
    for (code, error) in [("OVERQUOTA", MailboxError::Full), ("TOOBIG", MailboxError::TooLarge)] {
        let refusal = format!("C: APPEND \"Saved\"\nS: {{tag}} NO [{code}] no");
        let setup = Setup::start(&[&[LOGIN, FOLDERS, &refusal, FOLDERS, &refusal, "hang"]]).await;
        assert_eq!(setup.save(None).await, Err(error.clone()));
        assert_eq!(setup.save(None).await, Err(error));
        assert_eq!(setup.server.connections(), 1, "the connection still works");
    }
}

#[tokio::test]
async fn without_uidplus_nothing_but_the_draft_is_removed() {
    let appended = "S: a3 OK done";
    let alone = "S: * SEARCH 5\nS: {tag} OK\nC: EXPUNGE\nS: * 1 EXPUNGE\nS: {tag} OK";
    let with_others = "S: * SEARCH 4 5\nS: {tag} OK";
    for rest in [alone, with_others] {
        let setup = Setup::start(&[&[LOGIN, FOLDERS, APPEND, appended, SEARCH, MARK, rest, "hang"]]).await;
        assert_eq!(setup.save(Some(5)).await, saved_as(8));
    }
}

#[tokio::test]
async fn a_message_that_is_no_draft_is_not_marked() {
    let appended = "S: a3 OK [APPENDUID 7 8] done\nC: LIST \"\" \"\"\nS: * LIST () \"/\" \"\"\nS: {tag} OK";
    let select = MARK.split_once("\nC: UID FETCH").unwrap().0;
    let flags = "C: UID FETCH 5 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS (\\Seen))\nS: {tag} OK";
    let setup = Setup::start(&[&[LOGIN, FOLDERS, APPEND, appended, select, flags, "hang"]]).await;
    assert_eq!(setup.save(Some(5)).await, saved_as(8));
}

#[tokio::test]
async fn a_draft_is_not_stored_again_after_its_connection_broke() {
    let setup = Setup::start(&[&[LOGIN, FOLDERS, FOLDERS, APPEND, "close"], &[LOGIN, FOLDERS, SEARCH, "hang"]]).await;
    assert_eq!(setup.mailboxes.drafts_folder(&setup.bob).await, Ok(Some("Saved".parse().unwrap())));
    assert_eq!(setup.save(None).await, saved_as(8));
    assert_eq!(setup.server.connections(), 2);
}

#[tokio::test]
async fn a_missing_folder_is_created_where_the_server_allows_it() {
    let listed = "C: LIST \"\" \"*\"\nS: * LIST () \".\" INBOX\nS: {tag} OK\nC: LIST \"\" \"\"\nS: * LIST () \".\" \"\"\nS: {tag} OK";
    let created = "C: CREATE \"Drafts\"\nS: {tag} NO only below INBOX\nC: CREATE \"INBOX.Drafts\"\nS: {tag} OK\n\
                   C: SUBSCRIBE \"INBOX.Drafts\"\nS: {tag} NO no subscriptions";
    let append = APPEND.replace("Saved", "INBOX.Drafts");
    let setup = Setup::start(&[&[LOGIN, listed, created, &append, "S: a7 OK [APPENDUID 7 1] done", "hang"]]).await;
    assert_eq!(setup.save(None).await, Ok(SavedDraft { folder: "INBOX/Drafts".parse().unwrap(), uid: 1 }));
}
