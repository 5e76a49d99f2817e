//! The selected mailbox is deleted by another session while a command runs.

use mailapi_imap::MailboxName;
use mailapi_imap::server::Folder;
use mailapi_imap::server::session::{Reply, Session, SessionConfig, Step};
use mailapi_imap::server::view::FolderUpdate;

use crate::memory_host::MemoryHost;

/// The response after the selected mailbox was deleted, and whether the connection is then closed.
fn answer(command: &str) -> (Vec<String>, bool) {
    let mut host = MemoryHost::new();
    let mut session = Session::new(SessionConfig { plaintext_login: true, ..SessionConfig::default() }, false);
    session.feed(b"a LOGIN joe secret\r\nb SELECT INBOX\r\n");
    host.drive(&mut session);
    session.take_output();
    host.mailboxes[0].exists = false;
    session.feed(format!("c {command}\r\n").as_bytes());
    let is_closed = matches!(host.drive(&mut session), Step::Close);
    let output = String::from_utf8(session.take_output()).unwrap();
    (output.lines().map(ToOwned::to_owned).collect(), is_closed)
}

#[test]
fn a_command_that_was_carried_out_is_completed_before_bye() {
    for command in [
        "APPEND Sent {6+}\r\nmail\r\n",
        "COPY 1:2 Sent",
        "MOVE 1:2 Sent",
        "UID MOVE 1:2 Sent",
        "STORE 1 +FLAGS (\\Deleted)",
        "STORE 1 +FLAGS.SILENT (\\Deleted)",
        "EXPUNGE",
        "UID EXPUNGE 1:4",
        "FETCH 1 BODY[]",
        "SEARCH ALL",
        "CREATE New",
        "RENAME Work Job",
        "SUBSCRIBE Work",
        "STATUS Work (MESSAGES)",
        "LIST \"\" *",
        "LIST \"\" * RETURN (STATUS (MESSAGES))",
        "GETQUOTAROOT Work",
        "NOOP",
        "CHECK",
    ] {
        let (lines, is_closed) = answer(command);
        let [.., completion, bye] = lines.as_slice() else { panic!("{command}: {lines:?}") };
        assert!(completion.starts_with("c OK"), "{command}: {lines:?}");
        assert_eq!(bye, "* BYE Selected mailbox was deleted or renamed", "{command}: {lines:?}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("c ")).count(), 1, "{command}: {lines:?}");
        assert!(is_closed, "{command}");
    }
}

#[test]
fn a_command_that_failed_is_completed_before_bye_too() {
    let (lines, is_closed) = answer("APPEND Nowhere {6+}\r\nmail\r\n");
    assert!(lines[0].starts_with("c NO [TRYCREATE]") && lines[1].starts_with("* BYE"), "{lines:?}");
    assert!(is_closed);
}

#[test]
fn a_command_that_leaves_the_mailbox_needs_no_bye() {
    for command in ["CLOSE", "UNSELECT", "SELECT Work", "DELETE Work"] {
        let (lines, is_closed) = answer(command);
        assert!(lines.last().unwrap().starts_with("c OK"), "{command}: {lines:?}");
        assert!(!is_closed && !lines.iter().any(|line| line.starts_with("* BYE")), "{command}: {lines:?}");
    }
}

/// A session of joe with INBOX selected, in the first step of a LIST with STATUS items.
fn list_with_figures(host: &mut MemoryHost) -> Session {
    let mut session = Session::new(SessionConfig { plaintext_login: true, ..SessionConfig::default() }, false);
    session.feed(b"a LOGIN joe secret\r\nb SELECT INBOX\r\n");
    host.drive(&mut session);
    session.take_output();
    session.feed(b"c LIST \"\" INBOX RETURN (STATUS (MESSAGES))\r\n");
    let Step::Run(_) = session.step() else { panic!("LIST must run") };
    session
}

fn inbox() -> Reply {
    let (name, special_use) = (MailboxName::inbox(), None);
    Reply::Folders(vec![Folder { name, exists: true, subscribed: false, special_use }])
}

fn lines(session: &mut Session) -> Vec<String> {
    String::from_utf8(session.take_output()).unwrap().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn news_within_a_list_with_figures_are_not_lost() {
    let mut host = MemoryHost::new();
    let mut session = list_with_figures(&mut host);
    host.mailboxes[0].messages.remove(0);
    let update = host.update(&session);
    session.finish(Ok(inbox()), update);
    let Step::Run(_) = session.step() else { panic!("STATUS must run") };
    session.finish(Ok(Reply::Statuses(Vec::new())), None);
    let written = lines(&mut session);
    assert!(written.iter().any(|line| line == "* 1 EXPUNGE"), "{written:?}");
}

#[test]
fn a_folder_deleted_during_list_status_is_reported_last() {
    let mut session = list_with_figures(&mut MemoryHost::new());
    session.finish(Ok(inbox()), Some(FolderUpdate::Gone));
    assert!(!lines(&mut session).iter().any(|line| line.starts_with("* BYE")));
    let Step::Run(_) = session.step() else { panic!("STATUS must run") };
    // The host reports the deletion only once.
    session.finish(Ok(Reply::Statuses(Vec::new())), None);
    assert_eq!(lines(&mut session), ["c OK LIST completed", "* BYE Selected mailbox was deleted or renamed"]);
    assert!(matches!(session.step(), Step::Close));
}

#[test]
fn a_command_that_is_not_carried_out_is_refused_before_bye() {
    let mut session = list_with_figures(&mut MemoryHost::new());
    session.bye("The server is shutting down");
    assert_eq!(lines(&mut session), ["c NO Command not completed", "* BYE The server is shutting down"]);
    assert!(matches!(session.step(), Step::Close));
    let mut session = list_with_figures(&mut MemoryHost::new());
    session.finish(Ok(inbox()), Some(FolderUpdate::Gone));
    let Step::Run(_) = session.step() else { panic!("STATUS must run") };
    session.bye("The server is shutting down");
    let written = lines(&mut session);
    assert_eq!(written[1..], ["c NO Command not completed", "* BYE The server is shutting down"], "one BYE");
}
