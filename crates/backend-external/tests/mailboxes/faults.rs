//! Failures of the connection to the server.

use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use mailapi_backend::{MailboxError, Mailboxes, MessageSummary};
use mailapi_backend_external::TlsMode;
use mailapi_backend_external::imap_pool::{ImapPool, ImapSettings};
use mailapi_backend_external::mailboxes::{ImapMailboxes, MailboxSettings};
use mailapi_imap::client::ClientLimits;
use mailapi_model::{EmailAddress, FolderName, Listed, Page};
use mailapi_testkit::scripted_imap::{INBOX, LOGIN, ScriptedServer};

use crate::fixture::{PageReader, imap_settings, mailboxes, pool};

/// A message in the form of a list, in response to `C: FETCH`.
const SUMMARY: &str = "C: FETCH 1:1 (UID RFC822.SIZE
S: * 1 FETCH (UID 5 FLAGS (\\Seen \\Recent) RFC822.SIZE 60 INTERNALDATE \"17-Jul-1996 02:44:25 +0000\" BODYSTRUCTURE (\"text\" \"plain\" NIL NIL NIL \"7bit\" 5 1) BODY[HEADER.FIELDS (SUBJECT)]<0> {16}\\r\\nSubject: one\\r\\n\\r\\n)
S: {tag} OK";

/// Short for a wait that must fail, and long for a server in this process that responds.
const A_WHILE: Duration = Duration::from_millis(500);

fn script(lines: &[&str]) -> String {
    lines.join("\n")
}

fn bob() -> EmailAddress {
    "bob@example.org".parse().unwrap()
}

struct Setup {
    server: ScriptedServer,
    pool: ImapPool,
    mailboxes: ImapMailboxes,
    reader: PageReader,
}

impl Setup {
    async fn start(scripts: &[String]) -> Self {
        Self::start_with(scripts, |settings| settings).await
    }

    async fn start_with(scripts: &[String], change: impl FnOnce(ImapSettings) -> ImapSettings) -> Self {
        let server = ScriptedServer::start(scripts).await;
        let pool = pool(change(imap_settings(server.port)));
        let mailboxes = mailboxes(&pool, MailboxSettings::default());
        Self { server, pool, mailboxes, reader: PageReader::default() }
    }

    async fn inbox(&self) -> Result<Listed<MessageSummary>, MailboxError> {
        self.reader.list(&self.mailboxes, &bob(), &FolderName::inbox(), Page::default()).await
    }

    async fn subjects(&self) -> Result<Vec<String>, MailboxError> {
        Ok(self.inbox().await?.items.into_iter().map(|item| item.subject).collect())
    }

    fn assert_connections(&self, expected: usize) {
        self.server.assert_no_surprise();
        assert_eq!(self.server.connections(), expected);
    }
}

fn is_unavailable<T>(outcome: &Result<T, MailboxError>) -> bool {
    matches!(outcome, Err(MailboxError::Unavailable(_)))
}

#[tokio::test]
async fn a_server_that_is_down_is_left_alone_after_some_failures() {
    let setup = Setup::start(&["close".to_owned()]).await;
    for _ in 0..6 {
        assert!(is_unavailable(&setup.subjects().await));
    }
    setup.assert_connections(3);
    assert!(setup.mailboxes.check().await.is_err());
    setup.assert_connections(3);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let impatient = |settings| ImapSettings { connect_timeout: A_WHILE, failures_until_pause: 1, ..settings };
    let setup = Setup::start_with(&["hang".to_owned()], impatient).await;
    assert!(is_unavailable(&setup.subjects().await));
    assert!(is_unavailable(&setup.subjects().await));
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    let setup = Setup::start_with(&["close".to_owned(), script(&[LOGIN, INBOX, SUMMARY])], |settings| ImapSettings {
        failures_until_pause: 1,
        pause: Duration::ZERO,
        ..settings
    })
    .await;
    assert!(is_unavailable(&setup.subjects().await));
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
}

#[tokio::test]
async fn a_silence_within_a_command_ends_it() {
    let impatient = |settings| ImapSettings { silence_timeout: A_WHILE, ..settings };
    let setup = Setup::start_with(&[script(&[LOGIN, INBOX, "C: FETCH", "hang"])], impatient).await;
    assert!(is_unavailable(&setup.subjects().await));
    setup.assert_connections(1);
}

/// Long enough to give up a server in this process under load.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_answer_that_drips_is_given_up() {
    let impatient = |settings| ImapSettings { silence_timeout: A_WHILE, ..settings };
    let of_body = "C: UID FETCH\nS: * 1 FETCH (UID 5 FLAGS () RFC822.SIZE 9 BODY[]<0> {900}\ndrip";
    for drip in [format!("{INBOX}\nC: FETCH\ndrip"), format!("{INBOX}\n{of_body}")] {
        let setup = Setup::start_with(&[script(&[LOGIN, &drip])], impatient).await;
        let outcome = async {
            match drip.contains("UID FETCH") {
                true => is_unavailable(&setup.mailboxes.read(&bob(), &FolderName::inbox(), 5).await),
                false => is_unavailable(&setup.subjects().await),
            }
        };
        assert!(tokio::time::timeout(PATIENCE, outcome).await.expect("an end"), "{drip}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let small = |settings: ImapSettings| {
        let limits = ClientLimits { max_answer: 300_000, ..settings.limits.clone() };
        ImapSettings { limits, ..settings }
    };
    let floods = [
        "flood: * 1 FETCH (UID 5 FLAGS (\\Seen))",
        "flood: * 1 EXISTS",
        "flood: * OK still at it",
        "flood: * SEARCH 1 3 5 7",
        "flood: * LIST () \"/\" x",
    ];
    for flood in floods {
        let setup = Setup::start_with(&[script(&[LOGIN, INBOX, "C: FETCH", flood])], small).await;
        let listed = tokio::time::timeout(PATIENCE, setup.subjects()).await.expect("an end");
        assert!(is_unavailable(&listed), "{flood}");
    }
    for flood in ["flood: * LIST () \"/\" x", "flood: * STATUS x (MESSAGES 1 UNSEEN 1 SIZE 1)"] {
        let setup = Setup::start_with(&[script(&[LOGIN, "C: LIST \"\" \"*\"", flood])], small).await;
        let listed = tokio::time::timeout(PATIENCE, setup.mailboxes.folders(&bob())).await.expect("an end");
        assert!(is_unavailable(&listed), "{flood}");
    }
}

#[tokio::test]
async fn a_refused_master_is_not_tried_again() {
    let refused = script(&[
        "S: * OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] ready",
        "C: AUTHENTICATE PLAIN Ym9iQGV4YW1wbGUub3JnAG1haWxhcGkA",
        "S: {tag} NO [AUTHENTICATIONFAILED] Authentication failed.",
    ]);
    let setup = Setup::start(&[refused]).await;
    for _ in 0..3 {
        assert!(is_unavailable(&setup.subjects().await));
    }
    setup.assert_connections(1);
    assert!(setup.mailboxes.check().await.unwrap_err().contains("Authentication failed"));
}

/// A server that rejects the mailbox at the first login, and a client that remembers this for a minute.
async fn setup_that_refuses_the_first_log_in() -> Setup {
    let refused = script(&[
        "S: * OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] ready",
        "C: AUTHENTICATE PLAIN",
        "S: {tag} NO [AUTHORIZATIONFAILED] Authorization failed",
    ]);
    let patient = |settings| ImapSettings { unknown_mailbox_pause: Duration::from_secs(60), ..settings };
    Setup::start_with(&[refused, script(&[LOGIN, INBOX, SUMMARY])], patient).await
}

#[tokio::test]
async fn an_unknown_mailbox_is_named_and_not_asked_for_again_at_once() {
    let setup = setup_that_refuses_the_first_log_in().await;
    for _ in 0..3 {
        assert_eq!(setup.subjects().await, Err(MailboxError::NoSuchMailbox));
    }
    setup.assert_connections(1);
    setup.mailboxes.forget(&bob());
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
}

#[tokio::test]
async fn a_connection_in_use_is_not_kept_once_its_mailbox_changed() {
    let flags = "C: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK";
    let only_once = script(&[LOGIN, INBOX, SUMMARY, "C: nothing more"]);
    let setup = Setup::start(&[only_once, script(&[LOGIN, INBOX, flags])]).await;
    let mut first = pin!(setup.subjects());
    assert!(first.as_mut().now_or_never().is_none(), "the login has begun");
    setup.mailboxes.forget(&bob());
    assert_eq!(first.await.unwrap(), ["one"]);
    // The login began before the change, so its session may have the old quota.
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(2);
}

#[tokio::test]
async fn a_mailbox_made_during_a_log_in_is_not_taken_for_unknown() {
    let setup = setup_that_refuses_the_first_log_in().await;
    let mut first = pin!(setup.subjects());
    assert!(first.as_mut().now_or_never().is_none(), "the login has begun");
    setup.mailboxes.forget(&bob());
    assert_eq!(first.await, Err(MailboxError::NoSuchMailbox));
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
}

#[tokio::test]
async fn a_limit_of_the_server_says_nothing_about_the_mailbox() {
    let refused = script(&[
        "S: * OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] ready",
        "C: AUTHENTICATE PLAIN",
        "S: {tag} NO [LIMIT] Maximum number of connections exceeded",
    ]);
    let setup = Setup::start(&[refused, script(&[LOGIN, INBOX, SUMMARY])]).await;
    assert!(is_unavailable(&setup.subjects().await));
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
}

#[tokio::test]
async fn no_password_is_sent_in_clear_text_when_tls_is_wanted() {
    let plain = script(&["S: * OK [CAPABILITY IMAP4rev1 AUTH=PLAIN] ready", "C: nothing"]);
    let encrypted = |settings| ImapSettings { tls: TlsMode::StartTls, ..settings };
    let setup = Setup::start_with(&[plain], encrypted).await;
    assert!(is_unavailable(&setup.subjects().await));
    setup.assert_connections(1);
    let disabled = script(&["S: * OK [CAPABILITY IMAP4rev1 LOGINDISABLED] ready", "C: nothing"]);
    let setup = Setup::start(&[disabled]).await;
    assert!(is_unavailable(&setup.subjects().await));
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_dead_connection_is_replaced_once_without_an_error() {
    let news = "C: NOOP\nS: {tag} OK\nC: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK";
    for end in ["C: NOOP\nclose", "C: NOOP\nS: * BYE please relogin\nclose", "C: NOOP\nS: * OK half an ans\nclose"] {
        let again = INBOX.to_owned()
            + "\n"
            + news.split_once("C: FETCH").map(|(_, rest)| format!("C: FETCH{rest}")).unwrap().as_str();
        let setup = Setup::start(&[script(&[LOGIN, INBOX, SUMMARY, end]), script(&[LOGIN, &again])]).await;
        assert_eq!(setup.subjects().await.unwrap(), ["one"]);
        assert_eq!(setup.subjects().await.unwrap(), ["one"]);
        setup.assert_connections(2);
    }
}

#[tokio::test]
async fn a_new_connection_that_dies_is_not_replaced() {
    let setup = Setup::start(&[script(&[LOGIN, INBOX, "C: FETCH", "close"])]).await;
    assert!(is_unavailable(&setup.subjects().await));
    setup.assert_connections(1);
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_ends_the_connection() {
    for nonsense in ["S: * 1 FETCH (UID", "S: * 1 FETCH (BODY[] {99999999999}", "S: b7 OK what", "S: \u{fffd}"] {
        let first = script(&[LOGIN, INBOX, "C: FETCH", nonsense, "hang"]);
        let setup = Setup::start(&[first, script(&[LOGIN, INBOX, SUMMARY])]).await;
        assert!(is_unavailable(&setup.subjects().await), "{nonsense}");
        assert_eq!(setup.subjects().await.unwrap(), ["one"]);
        setup.assert_connections(2);
    }
}

/// Allows a single connection, so that one that is not returned is missed.
fn only_one(settings: ImapSettings) -> ImapSettings {
    ImapSettings { max_connections: 1, max_connections_per_mailbox: 1, wait_timeout: Duration::ZERO, ..settings }
}

#[tokio::test]
async fn a_download_that_is_given_up_poisons_no_connection() {
    // More than one piece, so that a piece is passed on before the server stops sending.
    let (promised, first) = (1_000_000, format!("* 2 EXISTS\r\n{}", "x".repeat(400_000)));
    let begun = format!(
        "C: UID FETCH 5 (UID BODY.PEEK[])\nS: * 1 FETCH (UID 5 BODY[] {{{promised}}}\\r\\n{}\nhang",
        first.replace("\r\n", "\\r\\n")
    );
    let setup = Setup::start_with(&[script(&[LOGIN, INBOX, &begun]), script(&[LOGIN, INBOX, SUMMARY])], only_one).await;
    let mut opened = setup.mailboxes.open_raw(&bob(), &FolderName::inbox(), 5).await.unwrap();
    assert_eq!(opened.size, promised);
    let piece = opened.content.next().await.unwrap().unwrap();
    assert!(first.as_bytes().starts_with(&piece), "{} bytes", piece.len());
    drop(opened);
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(2);
}

#[tokio::test]
async fn a_cancelled_download_poisons_no_connection() {
    let begun = "C: UID FETCH 5 (UID BODY.PEEK[])\nS: * 1 FETCH (UID 5 BODY[] {1000}\\r\\n* 2 EXISTS\nhang";
    let setup = Setup::start_with(&[script(&[LOGIN, INBOX, begun]), script(&[LOGIN, INBOX, SUMMARY])], only_one).await;
    let mut opened = setup.mailboxes.open_raw(&bob(), &FolderName::inbox(), 5).await.unwrap();
    let given_up = tokio::time::timeout(A_WHILE, opened.content.next()).await;
    assert!(given_up.is_err());
    drop(opened);
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(2);
}

#[tokio::test]
async fn reading_only_the_promised_length_keeps_the_connection() {
    let begun = "C: UID FETCH 5 (UID BODY.PEEK[])\nS: * 1 FETCH (UID 5 BODY[] {4}\\r\\nabcd)\nS: {tag} OK\nC: NOOP\nS: {tag} OK";
    let setup = Setup::start(&[script(&[LOGIN, INBOX, begun, SUMMARY])]).await;
    let mut opened = setup.mailboxes.open_raw(&bob(), &FolderName::inbox(), 5).await.unwrap();
    assert_eq!(&opened.content.next().await.unwrap().unwrap()[..], b"abcd");
    drop(opened);
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_request_that_is_given_up_poisons_no_connection() {
    let setup = Setup::start(&[script(&[LOGIN, INBOX, "C: FETCH", "hang"]), script(&[LOGIN, INBOX, SUMMARY])]).await;
    let given_up = tokio::time::timeout(A_WHILE, setup.subjects()).await;
    assert!(given_up.is_err());
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(2);
}

#[tokio::test]
async fn a_download_that_breaks_off_is_an_error() {
    let begun = "C: UID FETCH 5 (UID BODY.PEEK[])\nS: * 1 FETCH (UID 5 BODY[] {1000}\\r\\nhalf\nclose";
    let setup = Setup::start(&[script(&[LOGIN, INBOX, begun])]).await;
    let opened = setup.mailboxes.open_raw(&bob(), &FolderName::inbox(), 5).await.unwrap();
    let pieces: Vec<_> = opened.content.collect().await;
    assert!(is_unavailable(pieces.last().unwrap()));
}

#[tokio::test]
async fn other_clients_changes_may_appear_anywhere_in_an_answer() {
    let with_news = SUMMARY
        .replace("S: * 1 FETCH", "S: * 2 EXISTS\nS: * 9 FETCH (FLAGS (\\Deleted))\nS: * OK [ALERT] hm\nS: * 1 FETCH")
        .replace("S: {tag}", "S: * 1 FETCH (UID 5 FLAGS (\\Flagged))\nS: * 1 EXPUNGE\nS: * 0 RECENT\nS: {tag}");
    let setup = Setup::start(&[script(&[LOGIN, INBOX, &with_news])]).await;
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_repeated_list_fetches_flags_alone() {
    let news = "C: NOOP\nS: * 2 EXISTS\nS: {tag} OK\nC: FETCH 1:2 (UID FLAGS)\n\
                S: * 1 FETCH (UID 5 FLAGS (\\Answered))\nS: * 2 FETCH (UID 9 FLAGS ())\nS: {tag} OK\nC: UID FETCH 9 (UID RFC822.SIZE";
    let new = SUMMARY.split_once('\n').unwrap().1.replace("UID 5", "UID 9").replace("Subject: one", "Subject: two");
    let setup = Setup::start(&[script(&[LOGIN, INBOX, SUMMARY, news, &new])]).await;
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    let listed = setup.inbox().await.unwrap();
    let shown: Vec<_> = listed.items.iter().map(|item| (item.subject.as_str(), item.flags.concat())).collect();
    assert_eq!(shown, [("two", String::new()), ("one", "\\Answered".to_owned())]);
    assert_eq!(listed.total, 2);
    setup.assert_connections(1);
}

/// The server has CONDSTORE, so a page is unchanged until its folder has an update.
#[tokio::test]
async fn flags_changed_during_a_fetch_show_and_are_fetched_again() {
    let login = LOGIN.replace("LIST-STATUS", "CONDSTORE LIST-STATUS");
    let changed = "C: NOOP\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK";
    let twice =
        "C: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS ())\nS: * 1 FETCH (UID 5 FLAGS (\\Flagged))\nS: {tag} OK";
    let quiet = "C: NOOP\nS: {tag} OK";
    let once = "C: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS (\\Flagged))\nS: {tag} OK";
    let dialog = script(&[&login, INBOX, SUMMARY, changed, twice, once, quiet, quiet]);
    let setup = Setup::start(&[dialog]).await;
    for flags in ["\\Seen", "\\Flagged", "\\Flagged", "\\Flagged"] {
        let listed = setup.inbox().await.unwrap();
        assert_eq!(listed.items[0].flags.concat(), flags);
    }
    setup.assert_connections(1);
}

/// An update of the page that is repeated during the fetch, so that the page has no validator.
const CHANGED: &str = "C: NOOP\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK\n\
    C: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS ())\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK";

/// A page without a validator is fetched together with the updates: one round trip, and a second one only after an update.
#[tokio::test]
async fn news_behind_a_page_are_shown_in_it() {
    let login = LOGIN.replace("LIST-STATUS", "CONDSTORE LIST-STATUS");
    let page = "C: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS (\\Draft))\nS: {tag} OK";
    let later = "C: NOOP\nS: * 1 FETCH (UID 5 FLAGS (\\Flagged))\nS: {tag} OK";
    let again = "C: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS (\\Flagged))\nS: {tag} OK";
    let dialog = script(&[&login, INBOX, SUMMARY, CHANGED, page, later, again, "C: NOOP\nS: {tag} OK"]);
    let setup = Setup::start(&[dialog]).await;
    for flags in ["\\Seen", "", "\\Flagged", "\\Flagged"] {
        let listed = setup.inbox().await.unwrap();
        assert_eq!(listed.items[0].flags.concat(), flags);
    }
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_page_of_removed_messages_shows_the_remaining_ones() {
    let login = LOGIN.replace("LIST-STATUS", "CONDSTORE LIST-STATUS");
    let refused = "C: FETCH 1:1 (UID FLAGS)\nS: {tag} NO [EXPUNGEISSUED] gone\nC: NOOP\nS: * 1 EXPUNGE\nS: {tag} OK";
    let setup = Setup::start(&[script(&[&login, INBOX, SUMMARY, CHANGED, refused])]).await;
    for subjects in [&["one"][..], &["one"], &[]] {
        assert_eq!(setup.subjects().await.unwrap(), subjects);
    }
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_folder_whose_update_fails_is_read_over_a_new_connection() {
    let login = LOGIN.replace("LIST-STATUS", "CONDSTORE LIST-STATUS");
    let page = "C: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK\nC: NOOP";
    let rebuilt =
        script(&[&login, &INBOX.replace("UIDVALIDITY 7", "UIDVALIDITY 8"), &SUMMARY.replace(": one", ": two")]);
    for end in ["S: {tag} NO Mailbox was deleted under us", "S: * BYE see you\nclose", "close"] {
        let setup = Setup::start(&[script(&[&login, INBOX, SUMMARY, CHANGED, page, end]), rebuilt.clone()]).await;
        for subject in ["one", "one", "two"] {
            assert_eq!(setup.subjects().await.unwrap(), [subject], "{end}");
        }
        setup.assert_connections(2);
    }
}

#[tokio::test]
async fn numbers_at_the_ends_of_their_ranges_are_read() {
    let codes = "[UIDVALIDITY 4294967295] valid\nS: * OK [UIDNEXT 4294967295] next\n\
        S: * OK [HIGHESTMODSEQ 9223372036854775808] highest";
    let inbox = INBOX.replace("[UIDVALIDITY 7] valid", codes);
    let summary = SUMMARY.replace("UID 5 FLAGS", "UID 4294967295 MODSEQ (9223372036854775808) FLAGS");
    let setup = Setup::start(&[script(&[LOGIN, &inbox, &summary])]).await;
    let listed = setup.inbox().await.unwrap();
    assert_eq!((listed.items[0].uid, listed.items[0].subject.as_str()), (u32::MAX, "one"));
    setup.assert_connections(1);
}

#[tokio::test]
async fn sums_of_absurd_counts_have_an_end() {
    let status = "(MESSAGES 18446744073709551615 UNSEEN 0 SIZE 18446744073709551615)";
    let folders = format!(
        "C: LIST\nS: * LIST () \"/\" INBOX\nS: * STATUS INBOX {status}\nS: * LIST () \"/\" Other\n\
         S: * STATUS Other {status}\nS: {{tag}} OK"
    );
    let setup = Setup::start(&[script(&[LOGIN, &folders])]).await;
    let quota = setup.mailboxes.quota(&bob()).await.unwrap();
    assert_eq!((quota.messages, quota.used_bytes), (u64::MAX, u64::MAX));
}

#[tokio::test]
async fn another_uid_validity_makes_everything_new() {
    let rebuilt = INBOX.replace("UIDVALIDITY 7", "UIDVALIDITY 8");
    let other = SUMMARY.replace("Subject: one", "Subject: two");
    let scripts = [script(&[LOGIN, INBOX, SUMMARY, "C: NOOP", "close"]), script(&[LOGIN, &rebuilt, &other])];
    let setup = Setup::start(&scripts).await;
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    assert_eq!(setup.subjects().await.unwrap(), ["two"]);
    setup.assert_connections(2);
}

/// A server reports an open folder under its old name; only INBOX is never renamed.
#[tokio::test]
async fn a_folder_replaced_under_its_name_is_noticed() {
    let kept = INBOX.replace("\"INBOX\"", "\"Kept\"");
    let opened = kept.split_once("C: EXAMINE").unwrap().1;
    let replaced = format!("C: EXAMINE{}", opened.replace("UIDVALIDITY 7", "UIDVALIDITY 8"));
    let other = SUMMARY.replace("Subject: one", "Subject: two");
    let inbox = format!("C: EXAMINE{}", INBOX.split_once("C: EXAMINE").unwrap().1);
    let news = "C: NOOP\nS: {tag} OK\nC: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK";
    let dialog = script(&[LOGIN, &kept, SUMMARY, &replaced, &other, &inbox, SUMMARY, news]);
    let impatient = |settings| ImapSettings { reopen_after: Duration::ZERO, warm_connections: 1, ..settings };
    let setup = Setup::start_with(&[dialog], impatient).await;
    let folder: FolderName = "Kept".parse().unwrap();
    for subject in ["one", "two"] {
        let listed = setup.mailboxes.list(&bob(), &folder, Page::default()).await.unwrap();
        assert_eq!(listed.items[0].subject, subject);
    }
    for _ in 0..2 {
        assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    }
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_mailbox_has_only_so_many_connections() {
    let few = |settings| ImapSettings { max_connections_per_mailbox: 1, wait_timeout: A_WHILE, ..settings };
    let begun = "C: UID FETCH 5 (UID BODY.PEEK[])\nS: * 1 FETCH (UID 5 BODY[] {4}\\r\\nabcd)\nS: {tag} OK\nC: NOOP\nS: {tag} OK";
    let setup = Setup::start_with(&[script(&[LOGIN, INBOX, begun, SUMMARY])], few).await;
    let opened = setup.mailboxes.open_raw(&bob(), &FolderName::inbox(), 5).await.unwrap();
    assert!(is_unavailable(&setup.subjects().await));
    assert_eq!(opened.content.count().await, 1);
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_mailbox_at_its_limit_closes_no_other_connections() {
    let few = |settings| ImapSettings { max_connections_per_mailbox: 1, wait_timeout: A_WHILE, ..settings };
    let begun = "C: UID FETCH 5 (UID BODY.PEEK[])\nS: * 1 FETCH (UID 5 BODY[] {4}\\r\\nabcd)\nS: {tag} OK";
    let flags = "C: NOOP\nS: {tag} OK\nC: FETCH 1:1 (UID FLAGS)\nS: * 1 FETCH (UID 5 FLAGS ())\nS: {tag} OK";
    let of_eve = script(&[LOGIN, INBOX, SUMMARY, flags]);
    let setup = Setup::start_with(&[of_eve, script(&[LOGIN, INBOX, begun])], few).await;
    let eve = "eve@example.org".parse().unwrap();
    assert_eq!(setup.mailboxes.list(&eve, &FolderName::inbox(), Page::default()).await.unwrap().total, 1);
    let opened = setup.mailboxes.open_raw(&bob(), &FolderName::inbox(), 5).await.unwrap();
    assert!(is_unavailable(&setup.subjects().await));
    assert_eq!(setup.mailboxes.list(&eve, &FolderName::inbox(), Page::default()).await.unwrap().total, 1);
    assert_eq!(opened.content.count().await, 1);
    setup.assert_connections(2);
}

#[tokio::test]
async fn who_waits_for_a_connection_gets_it_when_it_is_given_back() {
    let begun = "C: UID FETCH 5 (UID BODY.PEEK[])\nS: * 1 FETCH (UID 5 BODY[] {4}\\r\\nabcd)\nS: {tag} OK\nC: NOOP\nS: {tag} OK";
    let few = |settings| ImapSettings { max_connections: 1, ..settings };
    let setup = Setup::start_with(&[script(&[LOGIN, INBOX, begun, SUMMARY])], few).await;
    let opened = setup.mailboxes.open_raw(&bob(), &FolderName::inbox(), 5).await.unwrap();
    let (waited, pieces) = tokio::join!(setup.subjects(), opened.content.count());
    assert_eq!((waited.unwrap(), pieces), (vec!["one".to_owned()], 1));
    setup.assert_connections(1);
}

#[tokio::test]
async fn the_least_recently_used_connection_makes_room() {
    let few = |settings| ImapSettings { max_connections: 1, ..settings };
    let whole = script(&[LOGIN, INBOX, SUMMARY]);
    let flags = script(&[LOGIN, INBOX, "C: FETCH 1:1 (UID FLAGS)", "S: * 1 FETCH (UID 5 FLAGS ())", "S: {tag} OK"]);
    let setup = Setup::start_with(&[whole.clone(), whole, flags], few).await;
    let eve = "eve@example.org".parse().unwrap();
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    assert_eq!(setup.mailboxes.list(&eve, &FolderName::inbox(), Page::default()).await.unwrap().total, 1);
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    setup.assert_connections(3);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let brief = |settings| ImapSettings { idle_lifetime: Duration::ZERO, ..settings };
    let setup = Setup::start_with(&[script(&[LOGIN, INBOX, SUMMARY, "hang"])], brief).await;
    assert_eq!(setup.pool.close_idle(), 0);
    assert_eq!(setup.subjects().await.unwrap(), ["one"]);
    assert_eq!(setup.pool.close_idle(), 1);
    assert_eq!(setup.pool.close_idle(), 0);
}

#[tokio::test]
async fn a_server_without_extensions_is_enough() {
    let dialog = "\
S: * OK ready
C: CAPABILITY
S: * CAPABILITY IMAP4rev1
S: {tag} OK
C: LOGIN \"bob@example.org*mailapi\" \"master-secret\"
S: {tag} OK
C: CAPABILITY
S: * CAPABILITY IMAP4rev1
S: {tag} OK
C: LIST \"\" \"*\"
S: * LIST (\\HasChildren) \".\" Work
S: * LIST (\\Noselect) \".\" Top
S: * LIST () \".\" \"Work.K&APY-ln\"
S: * LIST () \".\" INBOX
S: {tag} OK
C: STATUS \"INBOX\" (MESSAGES UNSEEN)
S: * STATUS INBOX (MESSAGES 2 UNSEEN 1)
S: {tag} OK
C: STATUS \"Work\"
S: {tag} NO gone
C: STATUS \"Work.K&APY-ln\"
S: * STATUS Work.K&APY-ln (MESSAGES 0 UNSEEN 0)
S: {tag} OK
C: LIST \"\" \"*\"
S: * LIST () \".\" \"Work.K&APY-ln\"
S: * LIST () \".\" INBOX
S: {tag} OK
C: LIST \"\" \"\"
S: * LIST (\\Noselect) \".\" \"\"
S: {tag} OK
C: EXAMINE \"INBOX\"
S: * 2 EXISTS
S: {tag} OK
C: FETCH 1:2 (UID RFC822.SIZE)
S: * 1 FETCH (UID 1 RFC822.SIZE 10)
S: * 2 FETCH (UID 2 RFC822.SIZE 20)
S: {tag} OK
C: EXAMINE \"Work.K&APY-ln\"
S: * 0 EXISTS
S: {tag} OK";
    let setup = Setup::start(&[dialog.to_owned()]).await;
    let folders = setup.mailboxes.folders(&bob()).await.unwrap();
    let shown: Vec<_> = folders.iter().map(|one| (one.name.as_str(), one.messages, one.unread, one.size)).collect();
    assert_eq!(shown, [("INBOX", 2, 1, 30), ("Work/Köln", 0, 0, 0)]);
    setup.assert_connections(1);
}

#[tokio::test]
async fn a_name_with_the_servers_separator_is_no_folder() {
    let dots = INBOX.split_once("C: EXAMINE").unwrap().0.replace("\"/\"", "\".\"");
    let setup = Setup::start(&[script(&[LOGIN, dots.trim_end()])]).await;
    let folder = "a.b/c".parse().unwrap();
    let listed = setup.mailboxes.list(&bob(), &folder, Page::default()).await;
    assert_eq!(listed.err(), Some(MailboxError::NoSuchFolder));
}
