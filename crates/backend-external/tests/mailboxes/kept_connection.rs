//! State that a kept connection carries from one use to the next must not matter. After any fault, a result of the
//! API matches the server's data, or is an error.

use std::collections::BTreeMap;
use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use mailapi_backend::contract::Fixture;
use mailapi_backend::{FolderScope, MailboxError, Mailboxes, SearchQuery};
use mailapi_backend_external::imap_pool::ImapSettings;
use mailapi_backend_external::mailboxes::{ImapMailboxes, MailboxSettings};
use mailapi_model::{EmailAddress, FolderName, Page};

use crate::cutting_proxy::CuttingProxy;
use crate::fixture::{DovecotFixture, PageReader, imap_settings, mailboxes, pool};
use crate::model_server::{Dice, FLAGS, FOLDERS, Folder, Message, ModelServer};

/// Small, so that messages with attachments are read in parts.
fn settings() -> MailboxSettings {
    MailboxSettings {
        whole_message_bytes: 450,
        doubtful_message_bytes: 0,
        sample_bytes: 90,
        html_search_messages: 4,
        uids_per_command: 3,
        ..MailboxSettings::default()
    }
}

fn patient(port: u16) -> ImapSettings {
    ImapSettings { failures_until_pause: u32::MAX, silence_timeout: Duration::from_secs(20), ..imap_settings(port) }
}

fn rounds(variable: &str, default: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "the length of a test is not a setting of the server")]
    let value = std::env::var(variable);
    value.map_or(default, |value| value.parse().expect("a number of rounds"))
}

/// One query to the API.
#[derive(Debug, Clone)]
enum Question {
    Folders,
    List(&'static str, Page),
    Read(&'static str, u32),
    Raw(&'static str, u32),
    Attachment(&'static str, u32),
    Search(&'static str),
    SearchAll,
    Quota,
}

impl Question {
    fn random(dice: &Dice) -> Self {
        let (name, uid) = (FOLDERS[dice.below(FOLDERS.len())], dice.below(12) as u32 + 1);
        match dice.below(9) {
            0 => Self::Folders,
            1 | 2 => Self::List(name, Page::new(dice.below(4) as u32 + 1, dice.below(4) as u64)),
            3 => Self::Read(name, uid),
            4 | 5 => Self::Raw(name, uid),
            6 => Self::Attachment(name, uid),
            7 => {
                if dice.one_in(3) {
                    Self::SearchAll
                } else {
                    Self::Search(name)
                }
            }
            _ => Self::Quota,
        }
    }
}

type Held = BTreeMap<&'static str, Folder>;

fn found<'a>(held: &'a Held, name: &str, uid: u32) -> Option<&'a Message> {
    held[name].messages.iter().find(|message| message.uid == uid)
}

fn shown_flags(message: &Message) -> Vec<String> {
    message.flags.iter().map(ToString::to_string).collect()
}

fn sorted(mut flags: Vec<String>) -> Vec<String> {
    flags.sort();
    flags
}

fn folder(name: &str) -> FolderName {
    name.parse().expect("a folder's name")
}

/// Compares the API's results with the server's data.
struct Examiner<'a> {
    mailboxes: &'a ImapMailboxes,
    reader: PageReader,
    bob: EmailAddress,
    /// Whether the server stores messages unchanged, without adding a header.
    is_exact: bool,
}

impl Examiner<'_> {
    /// Sends a query. The result must be correct, or an error.
    async fn ask(&self, question: &Question, held: &Held) -> Result<(), MailboxError> {
        let (api, bob) = (self.mailboxes, &self.bob);
        match *question {
            Question::Folders => {
                let returned: Vec<_> = api.folders(bob).await?;
                let returned: Vec<_> =
                    returned.iter().map(|one| (one.name.as_str(), one.messages, one.unread)).collect();
                let unread = |folder: &Folder| {
                    folder.messages.iter().filter(|message| !message.flags.contains("\\Seen")).count() as u64
                };
                let mut expected: Vec<_> =
                    held.iter().map(|(name, folder)| (*name, folder.messages.len() as u64, unread(folder))).collect();
                expected.sort_by_key(|(name, ..)| (*name != "INBOX", *name));
                assert_eq!(returned, expected, "{question:?}");
            }
            Question::List(name, page) => {
                let returned = self.reader.list(api, bob, &folder(name), page).await?;
                let shown: Vec<_> = returned
                    .items
                    .into_iter()
                    .map(|item| (item.uid, item.subject, sorted(item.flags), item.has_attachments))
                    .collect();
                let messages = held[name].messages.iter().rev();
                let expected: Vec<_> = messages
                    .skip(page.offset() as usize)
                    .take(page.limit() as usize)
                    .map(|one| (one.uid, one.subject.clone(), shown_flags(one), one.attachment.is_some()))
                    .collect();
                assert_eq!((returned.total, shown), (held[name].messages.len() as u64, expected), "{question:?}");
            }
            Question::Read(name, uid) => {
                let returned = api.read(bob, &folder(name), uid).await?;
                let message = found(held, name, uid).expect("a message that was read");
                let attachments: Vec<u64> = returned.attachments.iter().map(|attachment| attachment.size).collect();
                let expected: Vec<u64> = message.attachment.iter().map(|bytes| bytes.len() as u64).collect();
                let (text, flags) = (returned.text.unwrap_or_default(), sorted(returned.summary.flags));
                let expected_text = (message.subject.as_str(), message.text.trim_end(), shown_flags(message));
                assert_eq!((returned.summary.subject.as_str(), text.trim_end(), flags), expected_text, "{question:?}");
                assert_eq!((returned.summary.uid, attachments), (uid, expected), "{question:?}");
            }
            Question::Raw(name, uid) => {
                let mut opened = api.open_raw(bob, &folder(name), uid).await?;
                let message = found(held, name, uid).expect("a message that was opened");
                let mut bytes = Vec::new();
                while let Some(piece) = opened.content.next().await {
                    bytes.extend(piece?);
                }
                let returned = String::from_utf8(bytes).expect("text");
                assert_eq!(returned.len() as u64, opened.size);
                assert!(returned.ends_with(&message.raw()), "{question:?} {returned}");
                assert!(!self.is_exact || returned == message.raw(), "{question:?} {returned}");
            }
            Question::Attachment(name, uid) => {
                let mut opened = api.open_attachment(bob, &folder(name), uid, 0).await?;
                let message = found(held, name, uid).expect("a message that was opened");
                let mut bytes = Vec::new();
                while let Some(piece) = opened.content.next().await {
                    bytes.extend(piece?);
                }
                assert_eq!(Some(&bytes), message.attachment.as_ref(), "{question:?}");
                assert_eq!(opened.info.size, bytes.len() as u64);
            }
            Question::Search(name) => self.search(question, held, FolderScope::One(folder(name)), &[name]).await?,
            Question::SearchAll => self.search(question, held, FolderScope::All, &FOLDERS).await?,
            Question::Quota => {
                let returned = api.quota(bob).await?;
                let messages: usize = held.values().map(|folder| folder.messages.len()).sum();
                let bytes: usize = held.values().flat_map(|one| &one.messages).map(|one| one.raw().len()).sum();
                assert_eq!(returned.messages, messages as u64, "{question:?}");
                assert!(!self.is_exact || returned.used_bytes == bytes as u64, "{question:?} {returned:?} {bytes}");
            }
        }
        Ok(())
    }

    async fn search(
        &self,
        question: &Question,
        held: &Held,
        scope: FolderScope,
        names: &[&str],
    ) -> Result<(), MailboxError> {
        let query = SearchQuery { text: "needle".parse().expect("a text"), scope, page: Page::new(50, 0) };
        let returned = self.mailboxes.search(&self.bob, &query).await?;
        let mut shown: Vec<_> =
            returned.items.iter().map(|hit| (hit.folder.as_str().to_owned(), hit.uid, hit.subject.clone())).collect();
        shown.sort();
        let of = |name: &str| {
            let hits = held[name].messages.iter().filter(|one| one.text.contains("needle"));
            hits.map(|one| (name.to_owned(), one.uid, one.subject.clone())).collect::<Vec<_>>()
        };
        let mut expected: Vec<_> = names.iter().flat_map(|name| of(name)).collect();
        expected.sort();
        assert_eq!((returned.total, shown), (expected.len() as u64, expected), "{question:?}");
        Ok(())
    }

    /// Whether the query has a result.
    fn has_answer(question: &Question, held: &Held) -> bool {
        match *question {
            Question::Read(name, uid) | Question::Raw(name, uid) => found(held, name, uid).is_some(),
            Question::Attachment(name, uid) => found(held, name, uid).is_some_and(|one| one.attachment.is_some()),
            _ => true,
        }
    }
}

/// Cancels the work after this many polls; returns `None` then.
async fn up_to<F: Future>(turns: usize, work: F) -> Option<F::Output> {
    let (mut work, mut left) = (Box::pin(work), turns);
    std::future::poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// `MAILAPI_TEST_IMAP_ROUNDS` sets the number of queries to the server with faults.
#[tokio::test]
async fn a_kept_connection_returns_the_truth_or_an_error() {
    const QUESTIONS: usize = 100;
    let work = async {
        for seed in 0..rounds("MAILAPI_TEST_IMAP_ROUNDS", 2_000).div_ceil(QUESTIONS) {
            ask_a_faulty_server(seed as u64, QUESTIONS).await;
        }
    };
    work.await;
}

async fn ask_a_faulty_server(seed: u64, questions: usize) {
    let server = ModelServer::start(seed).await;
    let pool = pool(patient(server.port));
    let mailboxes = mailboxes(&pool, settings());
    let bob = "bob@example.org".parse().expect("an address");
    let examiner = Examiner { mailboxes: &mailboxes, reader: PageReader::default(), bob, is_exact: true };
    let dice = Dice::new(seed ^ 0xABCD);
    for number in 0..questions {
        let held = {
            let mut state = server.state();
            (0..dice.below(3)).for_each(|_| state.change());
            (state.faults, state.has_left_out) = (0, false);
            // At the end the server has no faults, and the API recovers.
            state.is_faulty = number < questions - 10;
            state.folders.clone()
        };
        let question = Question::random(&dice);
        let turns = if dice.one_in(8) { dice.below(12) } else { usize::MAX };
        let answer = tokio::time::timeout(Duration::from_secs(60), up_to(turns, examiner.ask(&question, &held))).await;
        let answer = answer.unwrap_or_else(|_| panic!("seed {seed} number {number}: no answer to {question:?}"));
        let has_faults = server.state().faults > 0;
        let shown = format!("seed {seed} number {number} {question:?} {answer:?}");
        match answer {
            None => {}
            Some(Ok(())) => assert!(Examiner::has_answer(&question, &held), "{shown}"),
            Some(Err(_)) if has_faults => {}
            Some(Err(MailboxError::NoSuchMessage | MailboxError::NoSuchAttachment)) => {
                assert!(!Examiner::has_answer(&question, &held), "{shown}");
            }
            Some(Err(_)) => panic!("{shown}"),
        }
    }
}

/// `MAILAPI_TEST_DOVECOT_ROUNDS` sets the number of queries to Dovecot over connections that are cut.
#[tokio::test]
async fn cut_connections_to_dovecot_yield_the_truth_or_an_error() {
    let fixture = DovecotFixture::start().await;
    let proxy = CuttingProxy::start(fixture.dovecot.imap()).await;
    let pool = pool(patient(proxy.port));
    let mailboxes = mailboxes(&pool, settings());
    let bob = fixture.mailbox_with("bob", &[]).await;
    let (reader, dice) = (PageReader::default(), Dice::new(7));
    let examiner = Examiner { mailboxes: &mailboxes, reader, bob: bob.clone(), is_exact: false };
    let mut held: Held = FOLDERS.into_iter().map(|name| (name, Folder { uid_next: 1, messages: Vec::new() })).collect();
    for name in &FOLDERS[1..] {
        fixture.create_folder(&bob, &folder(name)).await;
    }
    let questions = rounds("MAILAPI_TEST_DOVECOT_ROUNDS", 60);
    for number in 0..questions {
        if dice.one_in(3) {
            change_dovecot(&fixture, &bob, &dice, &mut held).await;
        }
        proxy.cut(number + 10 < questions);
        let question = Question::random(&dice);
        let turns = if dice.one_in(8) { dice.below(12) } else { usize::MAX };
        let answer = tokio::time::timeout(Duration::from_secs(60), up_to(turns, examiner.ask(&question, &held))).await;
        let answer = answer.unwrap_or_else(|_| panic!("number {number}: no answer to {question:?}"));
        let shown = format!("number {number} {question:?} {answer:?}");
        match answer {
            None => {}
            Some(Ok(())) => assert!(Examiner::has_answer(&question, &held), "{shown}"),
            Some(Err(MailboxError::NoSuchMessage | MailboxError::NoSuchAttachment)) => {
                assert!(!Examiner::has_answer(&question, &held), "{shown}");
            }
            Some(Err(_)) => assert!(proxy.has_cut(), "{shown}"),
        }
    }
}

/// Changes by another mail client; only INBOX receives mail.
async fn change_dovecot(fixture: &DovecotFixture, bob: &EmailAddress, dice: &Dice, held: &mut Held) {
    let count = held["INBOX"].messages.len();
    let inbox = held.get_mut("INBOX").expect("a folder");
    match dice.below(4) {
        0 | 1 if count < 8 => {
            let uid = inbox.uid_next;
            inbox.uid_next += 1;
            let subject = format!("mail-{uid}");
            let text = format!("body of {subject}, {}", "needle ".repeat(dice.below(2)));
            let attachment = dice.one_in(2).then(|| (0..500).map(|at| (at * uid) as u8).collect());
            let message = Message { uid, flags: Default::default(), subject, text, attachment };
            fixture.deliver(bob, message.raw().as_bytes()).await;
            inbox.messages.push(message);
        }
        2 if count > 0 => {
            let (at, target) = (dice.below(count), FOLDERS[1 + dice.below(FOLDERS.len() - 1)]);
            let mut message = inbox.messages.remove(at);
            fixture.move_message(bob, &FolderName::inbox(), message.uid, &folder(target)).await;
            let target = held.get_mut(target).expect("a folder");
            message.uid = target.uid_next;
            target.uid_next += 1;
            target.messages.push(message);
        }
        3 if count > 0 => {
            let (at, flag) = (dice.below(count), FLAGS[dice.below(FLAGS.len())]);
            let message = &mut inbox.messages[at];
            message.flags.insert(flag);
            let flags: Vec<&str> = message.flags.iter().copied().collect();
            fixture.set_flags(bob, &FolderName::inbox(), message.uid, &flags).await;
        }
        _ => {}
    }
}
