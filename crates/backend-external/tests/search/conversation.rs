//! The exact commands that are sent to a server.

use std::sync::Arc;

use mailapi_backend::{FolderScope, Mailboxes, SearchQuery};
use mailapi_backend_external::mailboxes::{ImapMailboxes, MailboxSettings};
use mailapi_backend_external::search_index::{IndexUse, SearchIndex, SearchSettings};
use mailapi_model::EmailAddress;
use mailapi_testkit::FakeClock;
use mailapi_testkit::scripted_imap::{LOGIN, ScriptedServer};
use tempfile::TempDir;

use crate::fixture::{imap_settings, mailboxes, pool};
use crate::indexed::{in_inbox, query};

const SEPARATOR: &str = "C: LIST \"\" \"\"\nS: * LIST (\\Noselect) \"/\" \"\"\nS: {tag} OK";

/// Two messages from which the first results of the index are built.
const FILLED: &str = "\
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 2 UIDNEXT 9 UIDVALIDITY 7)
S: {tag} OK
C: EXAMINE \"Kept\"
S: * 2 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 1:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 5,8
S: {tag} OK
C: UID FETCH 5,8 (UID INTERNALDATE BODY.PEEK[]<0.65536>)
S: * 1 FETCH (UID 5 INTERNALDATE \"17-Jul-1996 02:44:25 +0000\" BODY[]<0> {24}\\r\\nSubject: one\\r\\n\\r\\nneedle\\r\\n)
S: * 2 FETCH (UID 8 INTERNALDATE \"18-Jul-1996 02:44:25 +0000\" BODY[]<0> {24}\\r\\nSubject: two\\r\\n\\r\\nNeedle\\r\\n)
S: {tag} OK
C: CLOSE
S: {tag} OK";

struct Setup {
    server: ScriptedServer,
    mailboxes: ImapMailboxes,
    bob: EmailAddress,
    _directory: TempDir,
}

impl Setup {
    async fn start(script: &[&str]) -> Self {
        Self::start_twice(&[script]).await
    }

    /// Starts a server with a script for each connection.
    async fn start_twice(scripts: &[&[&str]]) -> Self {
        let scripts: Vec<String> = scripts.iter().map(|script| script.join("\n")).collect();
        let server = ScriptedServer::start(&scripts).await;
        let directory = TempDir::new().unwrap();
        let settings = SearchSettings { index: IndexUse::Auto, ..SearchSettings::new(directory.path()) };
        let index = SearchIndex::new(settings, Arc::new(FakeClock::default()));
        let pool = pool(imap_settings(server.port));
        let mailboxes = mailboxes(&pool, MailboxSettings::default()).with_search_index(Arc::new(index));
        Self { server, mailboxes, bob: "bob@example.org".parse().unwrap(), _directory: directory }
    }

    /// Returns the UIDs that a search finds.
    async fn found(&self, text: &str) -> Vec<u32> {
        self.found_by(query(text, FolderScope::One("Kept".parse().unwrap()))).await
    }

    async fn found_by(&self, query: SearchQuery) -> Vec<u32> {
        let found = self.mailboxes.search(&self.bob, &query).await;
        self.server.assert_no_surprise();
        found.unwrap().items.into_iter().map(|hit| hit.uid).collect()
    }
}

const UNCHANGED: &str = "\
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 2 UIDNEXT 9 UIDVALIDITY 7)
S: {tag} OK";

#[tokio::test]
async fn a_folder_without_changes_costs_one_status() {
    let setup = Setup::start(&[LOGIN, SEPARATOR, FILLED, UNCHANGED, UNCHANGED, "hang"]).await;
    assert_eq!(setup.found("needle").await, [8, 5]);
    assert_eq!(setup.found("two").await, [8]);
    assert_eq!(setup.found("three").await, [0; 0]);
}

/// For a STATUS of INBOX while it is closed, Dovecot reads the names of all its messages.
#[tokio::test]
async fn the_inbox_stays_open() {
    let filled = "\
C: EXAMINE \"INBOX\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: STATUS \"INBOX\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"INBOX\" (MESSAGES 1 UIDNEXT 6 UIDVALIDITY 7)
S: {tag} OK
C: NOOP
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 1:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 5
S: {tag} OK
C: UID FETCH 5 (UID INTERNALDATE BODY.PEEK[]<0.65536>)
S: * 1 FETCH (UID 5 INTERNALDATE \"17-Jul-1996 02:44:25 +0000\" BODY[]<0> {24}\\r\\nSubject: one\\r\\n\\r\\nneedle\\r\\n)
S: {tag} OK";
    let unchanged = "\
C: NOOP
S: {tag} OK
C: STATUS \"INBOX\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"INBOX\" (MESSAGES 1 UIDNEXT 6 UIDVALIDITY 7)
S: {tag} OK";
    let setup = Setup::start(&[LOGIN, SEPARATOR, filled, unchanged, unchanged, "hang"]).await;
    for text in ["needle", "one", "needle"] {
        assert_eq!(setup.found_by(in_inbox(text)).await, [5]);
    }
}

/// One message was removed and another added: the equal counts must not deceive the search.
#[tokio::test]
async fn one_for_one_is_noticed() {
    let exchanged = "\
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 2 UIDNEXT 10 UIDVALIDITY 7)
S: {tag} OK
C: EXAMINE \"Kept\"
S: * 2 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 9:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 9
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 1:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 8:9
S: {tag} OK
C: UID FETCH 9 (UID INTERNALDATE BODY.PEEK[]<0.65536>)
S: * 2 FETCH (UID 9 INTERNALDATE \"19-Jul-1996 02:44:25 +0000\" BODY[]<0> {24}\\r\\nSubject: new\\r\\n\\r\\nneedle\\r\\n)
S: {tag} OK
C: CLOSE
S: {tag} OK";
    let setup = Setup::start(&[LOGIN, SEPARATOR, FILLED, exchanged, "hang"]).await;
    assert_eq!(setup.found("needle").await, [8, 5]);
    assert_eq!(setup.found("needle").await, [9, 8]);
}

/// RFC 3501 section 6.4.8: the highest UID matches even if it is lower than the requested range.
#[tokio::test]
async fn a_removed_message_alone_is_noticed() {
    let removed = "\
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 1 UIDNEXT 9 UIDVALIDITY 7)
S: {tag} OK
C: EXAMINE \"Kept\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 9:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 8
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 1:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 8
S: {tag} OK
C: CLOSE
S: {tag} OK";
    let setup = Setup::start(&[LOGIN, SEPARATOR, FILLED, removed, "hang"]).await;
    assert_eq!(setup.found("needle").await, [8, 5]);
    assert_eq!(setup.found("needle").await, [8]);
}

/// The folder was recreated between STATUS and EXAMINE, so STATUS describes other messages.
#[tokio::test]
async fn another_uid_validity_begins_anew() {
    let made_anew = "\
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 3 UIDNEXT 1000 UIDVALIDITY 7)
S: {tag} OK
C: EXAMINE \"Kept\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 8] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 1:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 1
S: {tag} OK
C: UID FETCH 1 (UID INTERNALDATE BODY.PEEK[]<0.65536>)
S: * 1 FETCH (UID 1 INTERNALDATE \"19-Jul-1996 02:44:25 +0000\" BODY[]<0> {24}\\r\\nSubject: new\\r\\n\\r\\nneedle\\r\\n)
S: {tag} OK
C: CLOSE
S: {tag} OK
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 1 UIDNEXT 3 UIDVALIDITY 8)
S: {tag} OK
C: EXAMINE \"Kept\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 8] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 2:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 2
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 1:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 2
S: {tag} OK
C: UID FETCH 2 (UID INTERNALDATE BODY.PEEK[]<0.65536>)
S: * 1 FETCH (UID 2 INTERNALDATE \"19-Jul-1996 02:44:25 +0000\" BODY[]<0> {24}\\r\\nSubject: two\\r\\n\\r\\nneedle\\r\\n)
S: {tag} OK
C: CLOSE
S: {tag} OK
hang";
    let setup = Setup::start(&[LOGIN, SEPARATOR, FILLED, made_anew]).await;
    assert_eq!(setup.found("needle").await, [8, 5]);
    assert_eq!(setup.found("needle").await, [1]);
    // One message replaced another, below the UIDNEXT of the old STATUS.
    assert_eq!(setup.found("needle").await, [2]);
}

#[tokio::test]
async fn a_server_without_uidnext_is_asked_for_every_uid() {
    let little = "\
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 1)
S: {tag} OK
C: EXAMINE \"Kept\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 1:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 5
S: {tag} OK
C: UID FETCH 5 (UID INTERNALDATE BODY.PEEK[]<0.65536>)
S: * 1 FETCH (UID 5 INTERNALDATE \"17-Jul-1996 02:44:25 +0000\" BODY[]<0> {24}\\r\\nSubject: one\\r\\n\\r\\nneedle\\r\\n)
S: {tag} OK
C: CLOSE
S: {tag} OK
C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)
S: * STATUS \"Kept\" (MESSAGES 1)
S: {tag} OK
C: EXAMINE \"Kept\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) UID 6:*
S: * ESEARCH (TAG \"{tag}\") UID ALL 5
S: {tag} OK
C: CLOSE
S: {tag} OK
hang";
    let setup = Setup::start(&[LOGIN, SEPARATOR, little]).await;
    assert_eq!(setup.found("needle").await, [5]);
    assert_eq!(setup.found("needle").await, [5]);
}

/// More UIDs than messages, and no UIDVALIDITY: such a server searches by itself.
#[tokio::test]
async fn what_cannot_be_is_not_indexed() {
    let by_server = "\
C: EXAMINE \"Kept\"
S: * 1 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {tag} OK
C: UID SEARCH RETURN (ALL) OR SUBJECT
S: * ESEARCH (TAG \"{tag}\") UID
S: {tag} OK
C: FETCH 1:1 (UID BODYSTRUCTURE)
S: * 1 FETCH (UID 1 BODYSTRUCTURE (\"text\" \"plain\" NIL NIL NIL \"7bit\" 5 1))
S: {tag} OK
hang";
    let opened = |validity: &str| {
        format!(
            "C: STATUS \"Kept\" (MESSAGES UIDNEXT UIDVALIDITY)\nS: * STATUS \"Kept\" (MESSAGES 1 UIDNEXT 2)\n\
             S: {{tag}} OK\nC: EXAMINE \"Kept\"\nS: * 1 EXISTS\n{validity}S: {{tag}} OK"
        )
    };
    let huge = "C: UID SEARCH RETURN (ALL) UID 1:*\nS: * ESEARCH (TAG \"{tag}\") UID ALL 1:4294967295\nS: {tag} OK";
    let validity = opened("S: * OK [UIDVALIDITY 7] valid\n");
    let closed = "C: CLOSE\nS: {tag} OK\nhang";
    let second = [LOGIN, SEPARATOR, by_server];
    for first in [&[LOGIN, SEPARATOR, &opened(""), closed][..], &[LOGIN, SEPARATOR, &validity, huge, closed]] {
        let setup = Setup::start_twice(&[first, &second]).await;
        assert_eq!(setup.found("needle").await, [0; 0]);
    }
}
