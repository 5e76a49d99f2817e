//! Replays the conversations in `dialogs/`.
//!
//! Lines of a dialog:
//! - `c -> text`  the client sends the text and CRLF; `c ~> text` sends it without CRLF, and with
//!   `\r`, `\n`, `\0` and `\\` read as escapes; `c *> 5000 x` sends the letter 5000 times
//! - `s <- line`  the server sends exactly this line; `s <~ start` a line with this beginning
//! - `s <- [closed]`, `s <- [tls]`, `s <- [deflate]`  the server closes, begins the TLS handshake (which succeeds), or
//!   compresses
//! - `x -> deliver INBOX`, `x -> flag INBOX 2 \Seen`, `x -> remove INBOX 2`, `x -> drop INBOX`
//!   another session changes the store
//! - `config tls|plaintext|starttls ...`  how the connection begins; `plaintext` when there is none
//! - `# ...`  a comment
//!
//! All server lines must be listed in order, and imap-codec must be able to decode all of them.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use crate::memory_host::MemoryHost;
use jiff::Timestamp;
use mailapi_imap::server::session::{Session, SessionConfig, Step};
use mailapi_imap::token::Limits;
use mailapi_imap::{Flags, MailboxName};

struct Conversation {
    host: MemoryHost,
    session: Session,
    heard: VecDeque<String>,
}

impl Conversation {
    fn begin(options: &str) -> Self {
        let has = |option| options.split(' ').any(|word| word == option);
        let limits = Limits {
            max_line: 2000,
            max_literal: 100,
            max_message: 300,
            max_messages_bytes: 700,
            max_discarded: 1000,
            ..Limits::default()
        };
        let config = SessionConfig {
            limits,
            starttls: has("starttls"),
            plaintext_login: has("plaintext"),
            ..SessionConfig::default()
        };
        let session = Session::new(config, has("tls"));
        let mut conversation = Self { host: MemoryHost::new(), session, heard: VecDeque::new() };
        conversation.listen();
        conversation
    }

    fn say(&mut self, bytes: &[u8]) {
        self.session.feed(bytes);
        self.listen();
    }

    fn listen(&mut self) {
        let mut step = self.host.drive(&mut self.session);
        if matches!(step, Step::Idle) {
            self.push_news();
        }
        self.collect();
        if matches!(step, Step::StartTls) {
            self.heard.push_back("[tls]".to_owned());
            self.session.tls_started();
            step = self.host.drive(&mut self.session);
            self.collect();
        }
        if matches!(step, Step::Compress) {
            // Only the protocol's state matters here: a dialog has no transport.
            self.heard.push_back("[deflate]".to_owned());
            self.session.compression_started();
            step = self.host.drive(&mut self.session);
            self.collect();
        }
        if matches!(step, Step::Close) {
            self.heard.push_back("[closed]".to_owned());
        }
    }

    fn push_news(&mut self) {
        if let Some(update) = self.host.update(&self.session) {
            self.session.folder_changed(update);
        }
    }

    fn collect(&mut self) {
        let output = self.session.take_output();
        crate::oracle::accept_responses(&output);
        let output = String::from_utf8_lossy(&output).into_owned();
        self.heard.extend(output.split_terminator("\r\n").map(str::to_owned));
    }

    fn elsewhere(&mut self, change: &str) {
        let words: Vec<&str> = change.split(' ').collect();
        let mailbox = self.host.mailbox(&MailboxName::new(words[1], 255).unwrap()).unwrap();
        let uid: u32 = words.get(2).map_or(0, |uid| uid.parse().unwrap());
        match words[0] {
            "deliver" => {
                mailbox.deliver(Flags::new(), Timestamp::UNIX_EPOCH, b"Subject: new\r\n\r\nnew\r\n");
            }
            "flag" => {
                mailbox.flag(uid, Flags::from_words(words[3..].iter().copied()));
            }
            "remove" => mailbox.remove(uid),
            "drop" => mailbox.exists = false,
            other => panic!("unknown change {other}"),
        }
        if matches!(self.session.step(), Step::Idle) {
            self.listen();
        }
    }

    fn expect(&mut self, at: &str, matches: impl Fn(&str) -> bool, expected: &str) {
        let heard = self.heard.pop_front();
        let fits = heard.as_deref().is_some_and(matches);
        assert!(fits, "{at}\nexpected {expected:?}\n   heard {heard:?}\n    then {:?}", self.heard);
    }

    fn expect_silence(&self, at: &str) {
        assert!(self.heard.is_empty(), "{at}: not expected: {:?}", self.heard);
    }
}

fn unescape(text: &str) -> Vec<u8> {
    text.replace("\\\\", "\u{1}")
        .replace("\\r", "\r")
        .replace("\\n", "\n")
        .replace("\\0", "\0")
        .replace('\u{1}', "\\")
        .into_bytes()
}

fn replay(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let (options, lines) = match text.split_once('\n') {
        Some((first, _)) if first.starts_with("config") => (first.to_owned(), text.lines().skip(1).collect::<Vec<_>>()),
        _ => ("config plaintext".to_owned(), text.lines().collect()),
    };
    let skipped = usize::from(text.starts_with("config"));
    let mut conversation = Conversation::begin(&options);
    for (number, line) in lines.into_iter().enumerate() {
        let at = format!("{}:{}: {line}", path.display(), number + 1 + skipped);
        let (kind, rest) = line.split_at(line.len().min(4));
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        if matches!(kind, "c ->" | "c ~>" | "c *>" | "x ->") {
            conversation.expect_silence(&at);
        }
        match kind {
            "c ->" => conversation.say(format!("{rest}\r\n").as_bytes()),
            "c ~>" => conversation.say(&unescape(rest)),
            "c *>" => {
                let (count, letter) = rest.split_once(' ').unwrap();
                conversation.say(letter.repeat(count.parse().unwrap()).as_bytes());
            }
            "x ->" => conversation.elsewhere(rest),
            "s <-" => conversation.expect(&at, |heard| heard == rest, rest),
            "s <~" => conversation.expect(&at, |heard| heard.starts_with(rest), rest),
            "" => {}
            _ if line.starts_with('#') => {}
            _ => panic!("{at}: unknown line"),
        }
    }
    conversation.expect_silence(&format!("{}: at the end", path.display()));
}

#[test]
fn dialogs_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogs");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        replay(&path);
    }
}
