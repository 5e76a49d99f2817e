//! An IMAP server with a small mailbox in memory. Its responses have the faults of real connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use mailapi_model::Entropy;
use mailapi_testkit::SeededEntropy;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) const FOLDERS: [&str; 3] = ["INBOX", "Archive", "Archive/Old"];
pub(crate) const FLAGS: [&str; 3] = ["\\Seen", "\\Flagged", "$Label"];

/// Reproducible random choices.
pub(crate) struct Dice(SeededEntropy);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// Returns a number below `limit`, which must not be 0.
    pub(crate) fn below(&self, limit: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        usize::try_from(u64::from_le_bytes(bytes) % limit as u64).expect("a small number")
    }

    pub(crate) fn one_in(&self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// A message on the server.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) uid: u32,
    pub(crate) flags: BTreeSet<&'static str>,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// The decoded attachment; a message with one consists of a text and the attachment.
    pub(crate) attachment: Option<Vec<u8>>,
}

const BOUNDARY: &str = "=_b";

impl Message {
    pub(crate) fn header(&self) -> String {
        let fields = format!("Message-ID: <{0}@x>\r\nFrom: Ann <ann@example.org>\r\nSubject: {0}\r\n", self.subject);
        match self.attachment {
            Some(_) => format!("{fields}Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\r\n\r\n"),
            None => format!("{fields}\r\n"),
        }
    }

    fn encoded_attachment(&self) -> String {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(self.attachment.as_deref().unwrap_or_default());
        encoded.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned() + "\r\n").collect()
    }

    /// Returns the first part, as sent.
    fn body(&self) -> String {
        format!("{}\r\n", self.text)
    }

    pub(crate) fn raw(&self) -> String {
        match self.attachment {
            None => self.header() + &self.body(),
            Some(_) => format!(
                "{}--{BOUNDARY}\r\nContent-Type: text/plain\r\n\r\n{}\r\n--{BOUNDARY}\r\n\
                 Content-Type: application/octet-stream; name=a.bin\r\nContent-Transfer-Encoding: base64\r\n\
                 Content-Disposition: attachment; filename=a.bin\r\n\r\n{}\r\n--{BOUNDARY}--\r\n",
                self.header(),
                self.body(),
                self.encoded_attachment()
            ),
        }
    }

    fn structure(&self) -> String {
        let text = format!("(\"text\" \"plain\" NIL NIL NIL \"7bit\" {} 1)", self.body().len());
        match self.attachment {
            None => text,
            Some(_) => format!(
                "({text}(\"application\" \"octet-stream\" (\"name\" \"a.bin\") NIL NIL \"base64\" {} NIL \
                 (\"attachment\" (\"filename\" \"a.bin\")) NIL NIL) \"mixed\" (\"boundary\" \"{BOUNDARY}\") NIL NIL NIL)",
                self.encoded_attachment().len()
            ),
        }
    }

    fn section(&self, name: &str) -> Option<String> {
        match name {
            "" => Some(self.raw()),
            "HEADER" => Some(self.header()),
            name if name.starts_with("HEADER.FIELDS") => Some(self.header()),
            "1" => Some(self.body()),
            "2" if self.attachment.is_some() => Some(self.encoded_attachment()),
            _ => None,
        }
    }
}

/// A folder on the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folder {
    pub(crate) uid_next: u32,
    pub(crate) messages: Vec<Message>,
}

/// All data of the server, and its settings.
pub(crate) struct ServerState {
    pub(crate) folders: BTreeMap<&'static str, Folder>,
    pub(crate) dice: Dice,
    /// Whether responses have faults.
    pub(crate) is_faulty: bool,
    /// Faults since the counter was reset.
    pub(crate) faults: usize,
    /// Whether the response to the current query omitted something. Two consistent faults in one response are
    /// undetectable.
    pub(crate) has_left_out: bool,
    extensions: &'static str,
    serial: usize,
}

impl ServerState {
    fn new(seed: u64) -> Self {
        const EXTENSIONS: [&str; 3] = [
            "LITERAL+ LIST-STATUS STATUS=SIZE ESEARCH CONDSTORE",
            "LITERAL+ LIST-STATUS ESEARCH",
            "ESEARCH STATUS=SIZE",
        ];
        let dice = Dice::new(seed);
        let extensions = EXTENSIONS[dice.below(EXTENSIONS.len())];
        let folders = FOLDERS.into_iter().map(|name| (name, Folder { uid_next: 1, messages: Vec::new() })).collect();
        let mut state = Self { folders, dice, is_faulty: true, faults: 0, has_left_out: false, extensions, serial: 0 };
        for name in FOLDERS {
            for _ in 0..state.dice.below(6) {
                state.deliver(name);
            }
        }
        state
    }

    pub(crate) fn deliver(&mut self, name: &'static str) {
        self.serial += 1;
        let subject = format!("{}-{}", name.replace('/', "."), self.serial);
        let text = format!("body of {subject}, {}", "needle ".repeat(self.dice.below(2)));
        let bytes = self.serial;
        let attachment = self.dice.one_in(3).then(|| (0..100 + bytes * 7).map(|at| (at * bytes) as u8).collect());
        let folder = self.folders.get_mut(name).expect("a folder");
        let uid = folder.uid_next;
        folder.uid_next += 1;
        folder.messages.push(Message { uid, flags: BTreeSet::new(), subject, text, attachment });
    }

    /// Simulates a change by another client.
    pub(crate) fn change(&mut self) {
        let name = FOLDERS[self.dice.below(FOLDERS.len())];
        let count = self.folders[name].messages.len();
        match self.dice.below(3) {
            0 if count < 8 => self.deliver(name),
            1 if count > 0 => {
                let at = self.dice.below(count);
                self.folders.get_mut(name).expect("a folder").messages.remove(at);
            }
            2 if count > 0 => {
                let (at, flag) = (self.dice.below(count), FLAGS[self.dice.below(FLAGS.len())]);
                let flags = &mut self.folders.get_mut(name).expect("a folder").messages[at].flags;
                if !flags.remove(flag) {
                    flags.insert(flag);
                }
            }
            _ => {}
        }
    }
}

/// A server; dropping it stops it.
pub(crate) struct ModelServer {
    pub(crate) port: u16,
    state: Arc<Mutex<ServerState>>,
    task: JoinHandle<()>,
}

impl ModelServer {
    pub(crate) async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(Mutex::new(ServerState::new(seed)));
        let of_task = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(Conversation::new(stream, of_task.clone()).run());
            }
        });
        Self { port, state, task }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().expect("no thread panicked while holding the state")
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Faults of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// NO instead of OK, with or without the data.
    No {
        with_data: bool,
    },
    Bad,
    Bye,
    /// The connection ends within the response.
    Cut,
    /// A surplus line after the tagged one: at once, or before the next response.
    Late {
        at_once: bool,
    },
    LeftOut,
    /// Data of another message or folder, which is correct but was not requested.
    Alien,
}

const FAULTS: [Fault; 9] = [
    Fault::No { with_data: true },
    Fault::No { with_data: false },
    Fault::Bad,
    Fault::Bye,
    Fault::Cut,
    Fault::Late { at_once: true },
    Fault::Late { at_once: false },
    Fault::LeftOut,
    Fault::Alien,
];

/// The folder that a connection has open, in the state last sent to its client.
struct Opened {
    name: &'static str,
    view: Vec<(u32, BTreeSet<&'static str>)>,
}

struct Conversation {
    read: BufReader<tokio::net::tcp::OwnedReadHalf>,
    write: OwnedWriteHalf,
    state: Arc<Mutex<ServerState>>,
    opened: Option<Opened>,
    /// Data to send before the next response.
    late: Vec<String>,
    /// Whether an outdated response is pending, which a client cannot recognise if the current one is missing.
    is_late: bool,
}

/// Untagged lines, and the text after the tag.
struct Answer {
    data: Vec<String>,
    /// A fault that the client cannot detect.
    news: Vec<String>,
    end: String,
}

impl Answer {
    fn ok(data: Vec<String>) -> Self {
        Self::ending("OK done", data)
    }

    fn ending(end: &str, data: Vec<String>) -> Self {
        Self { data, news: Vec::new(), end: end.to_owned() }
    }
}

impl Conversation {
    fn new(stream: TcpStream, state: Arc<Mutex<ServerState>>) -> Self {
        let (read, write) = stream.into_split();
        Self { read: BufReader::new(read), write, state, opened: None, late: Vec::new(), is_late: false }
    }

    async fn run(mut self) {
        let greeting = "* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] ready\r\n";
        if self.write.write_all(greeting.as_bytes()).await.is_err() {
            return;
        }
        loop {
            let mut line = String::new();
            if self.read.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let (tag, command) = line.trim_end().split_once(' ').expect("a tag and a command");
            let (pieces, goes_on) = self.reply(tag, command);
            for piece in pieces {
                if self.write.write_all(&piece).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Returns the bytes of the response after cutting, and whether the connection continues.
    fn reply(&mut self, tag: &str, command: &str) -> (Vec<Vec<u8>>, bool) {
        let state = self.state.clone();
        let mut state = state.lock().expect("no thread panicked while holding the state");
        let Answer { mut data, news, mut end } = self.answer(&state, tag, command);
        let mut lines = std::mem::take(&mut self.late);
        state.has_left_out |= std::mem::take(&mut self.is_late);
        let may_fail = state.is_faulty && !command.starts_with("AUTHENTICATE") && !command.starts_with("CAPABILITY");
        let fault = (may_fail && state.dice.one_in(3)).then(|| FAULTS[state.dice.below(FAULTS.len())]);
        state.faults += usize::from(fault.is_some() || !lines.is_empty());
        let (mut behind, mut goes_on, mut is_cut) = (Vec::new(), true, false);
        let may_omit = !data.is_empty() && !state.has_left_out;
        match fault {
            None => {}
            Some(Fault::No { with_data }) => {
                data.truncate(if with_data { data.len() } else { 0 });
                end = ["NO refused", "NO [UNAVAILABLE] later", "NO [SERVERBUG] oops"][state.dice.below(3)].to_owned();
            }
            Some(Fault::Bad) => (data, end) = (Vec::new(), "BAD what".to_owned()),
            Some(Fault::Bye) => {
                data.truncate(state.dice.below(data.len() + 1));
                data.push("* BYE closing".to_owned());
                (end, goes_on) = (String::new(), false);
            }
            Some(Fault::Cut) => (is_cut, goes_on) = (true, false),
            Some(Fault::Late { at_once }) if may_omit => {
                (state.has_left_out, self.is_late) = (true, true);
                let line = data.remove(state.dice.below(data.len()));
                if at_once { &mut behind } else { &mut self.late }.push(line);
            }
            Some(Fault::LeftOut) if may_omit => {
                state.has_left_out = true;
                data.remove(state.dice.below(data.len()));
            }
            Some(Fault::Late { .. } | Fault::LeftOut) => {}
            Some(Fault::Alien) => {
                let at = state.dice.below(data.len() + 1);
                data.splice(at..at, self.alien(&state, command));
            }
        }
        lines.extend(data);
        lines.extend(news);
        if !end.is_empty() {
            lines.push(format!("{tag} {end}"));
        }
        lines.extend(behind);
        let mut bytes = lines.join("\r\n").into_bytes();
        bytes.extend_from_slice(b"\r\n");
        if is_cut {
            bytes.truncate(state.dice.below(bytes.len()));
        }
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let rest = bytes.split_off(bytes.len().min(1 + state.dice.below(600)));
            pieces.push(std::mem::replace(&mut bytes, rest));
        }
        (pieces, goes_on)
    }

    fn answer(&mut self, state: &ServerState, tag: &str, command: &str) -> Answer {
        let (word, arguments) = command.split_once(' ').unwrap_or((command, ""));
        match word {
            "AUTHENTICATE" => Answer::ending(&format!("OK [CAPABILITY IMAP4rev1 {}] in", state.extensions), Vec::new()),
            "CAPABILITY" => Answer::ok(vec!["* CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN".to_owned()]),
            "NOOP" => Answer { news: self.news(state, true), ..Answer::ok(Vec::new()) },
            "CLOSE" => {
                self.opened = None;
                Answer::ok(Vec::new())
            }
            "LIST" => list(state, arguments),
            "STATUS" => match folder_named(arguments) {
                Some(name) => Answer::ok(vec![status(name, &state.folders[name])]),
                None => Answer::ending("NO [NONEXISTENT] none", Vec::new()),
            },
            "EXAMINE" => self.examine(state, arguments),
            "FETCH" => self.fetch(state, arguments, false),
            "UID" if arguments.starts_with("FETCH ") => self.fetch(state, &arguments["FETCH ".len()..], true),
            "UID" => self.search(state, tag, arguments),
            _ => Answer::ending("BAD unknown", Vec::new()),
        }
    }

    /// Opens a folder. Updates of the previously open one come first, as the protocol permits.
    fn examine(&mut self, state: &ServerState, arguments: &str) -> Answer {
        let mut news = self.news(state, true);
        self.opened = None;
        let Some(name) = folder_named(arguments) else {
            return Answer { news, ..Answer::ending("NO [NONEXISTENT] none", Vec::new()) };
        };
        let folder = &state.folders[name];
        let view: Vec<_> = folder.messages.iter().map(|message| (message.uid, message.flags.clone())).collect();
        let mut data = vec![format!("* {} EXISTS", view.len())];
        let validity = 7 + FOLDERS.iter().position(|known| *known == name).unwrap_or_default();
        data.push(format!("* OK [UIDVALIDITY {validity}] valid"));
        self.opened = Some(Opened { name, view });
        // Without its own count, the previous folder's count would be used.
        if !news.is_empty() {
            news.append(&mut data);
        }
        Answer { news, ..Answer::ending("OK [READ-ONLY] open", data) }
    }

    /// Returns changes in the open folder; expunged messages only where the protocol permits them.
    fn news(&mut self, state: &ServerState, may_expunge: bool) -> Vec<String> {
        let Some(Opened { name, view }) = &mut self.opened else { return Vec::new() };
        let (folder, mut news) = (&state.folders[name], Vec::new());
        if may_expunge {
            for at in (0..view.len()).rev() {
                if !folder.messages.iter().any(|message| message.uid == view[at].0) {
                    view.remove(at);
                    news.push(format!("* {} EXPUNGE", at + 1));
                }
            }
        }
        for (at, (uid, flags)) in view.iter_mut().enumerate() {
            if let Some(message) = folder.messages.iter().find(|message| message.uid == *uid)
                && message.flags != *flags
            {
                flags.clone_from(&message.flags);
                let uid = if state.dice.one_in(2) { format!("UID {uid} ") } else { String::new() };
                news.push(format!("* {} FETCH ({uid}FLAGS ({}))", at + 1, words(flags)));
            }
        }
        let known = view.last().map_or(0, |(uid, _)| *uid);
        let new: Vec<_> = folder.messages.iter().filter(|message| message.uid > known).collect();
        if !new.is_empty() {
            view.extend(new.iter().map(|message| (message.uid, message.flags.clone())));
            news.push(format!("* {} EXISTS", view.len()));
        }
        news
    }

    fn fetch(&mut self, state: &ServerState, arguments: &str, by_uid: bool) -> Answer {
        let (set, attributes) = arguments.split_once(' ').expect("a set and attributes");
        let wanted = numbers(set);
        let (mut data, mut is_one_gone) = (Vec::new(), false);
        if let Some(Opened { name, view }) = &self.opened {
            for (at, (uid, flags)) in view.iter().enumerate() {
                let number = at as u32 + 1;
                if !wanted.iter().any(|(first, last)| (*first..=*last).contains(if by_uid { uid } else { &number })) {
                    continue;
                }
                match state.folders[name].messages.iter().find(|message| message.uid == *uid) {
                    Some(message) => data.push(fetched(&state.dice, number, message, flags, attributes)),
                    None => is_one_gone = true,
                }
            }
        }
        let end = if is_one_gone { "NO [EXPUNGEISSUED] some are gone" } else { "OK done" };
        Answer { news: self.news(state, by_uid), ..Answer::ending(end, data) }
    }

    fn search(&mut self, state: &ServerState, tag: &str, arguments: &str) -> Answer {
        let text = arguments.trim_end_matches('"').rsplit('"').next().unwrap_or_default();
        let opened = self.opened.as_ref().map(|opened| &state.folders[opened.name]);
        let messages = opened.map(|folder| folder.messages.as_slice()).unwrap_or_default();
        let found =
            messages.iter().filter(|message| message.raw().contains(text)).map(|message| message.uid.to_string());
        let found: Vec<String> = found.collect();
        let all = if found.is_empty() { String::new() } else { format!(" ALL {}", found.join(",")) };
        let data = vec![format!("* ESEARCH (TAG \"{tag}\") UID{all}")];
        Answer { news: self.news(state, true), ..Answer::ok(data) }
    }

    /// Returns correct data that was not requested.
    fn alien(&self, state: &ServerState, command: &str) -> Vec<String> {
        let of_folder = || {
            let name = FOLDERS[state.dice.below(FOLDERS.len())];
            status(name, &state.folders[name])
        };
        let Some(Opened { name, view }) = self.opened.as_ref().filter(|opened| !opened.view.is_empty()) else {
            return vec![of_folder()];
        };
        let at = state.dice.below(view.len());
        let (uid, flags) = &view[at];
        let message = state.folders[name].messages.iter().find(|message| message.uid == *uid);
        let attributes = command.find(" (UID").map_or("(UID BODY.PEEK[])", |at| &command[at + 1..]);
        match (state.dice.below(4), message) {
            (0, Some(message)) => vec![fetched(&state.dice, at as u32 + 1, message, flags, attributes)],
            (1, _) => vec!["* ESEARCH (TAG \"a0\") UID ALL 1:9".to_owned()],
            (2, _) => vec![of_folder()],
            _ => vec![format!("* {} FETCH (UID {uid} FLAGS ({}))", at + 1, words(flags))],
        }
    }
}

fn words(flags: &BTreeSet<&'static str>) -> String {
    flags.iter().copied().collect::<Vec<_>>().join(" ")
}

fn folder_named(arguments: &str) -> Option<&'static str> {
    let name = arguments.strip_prefix('"')?.split('"').next()?;
    FOLDERS.into_iter().find(|known| *known == name)
}

fn list(state: &ServerState, arguments: &str) -> Answer {
    if arguments == "\"\" \"\"" {
        return Answer::ok(vec!["* LIST (\\Noselect) \"/\" \"\"".to_owned()]);
    }
    let news = FOLDERS.iter().map(|name| format!("* LIST () \"/\" \"{name}\"")).collect();
    let statuses = || state.folders.iter().map(|(name, folder)| status(name, folder)).collect();
    let data = if arguments.contains("RETURN") { statuses() } else { Vec::new() };
    Answer { news, ..Answer::ok(data) }
}

fn status(name: &str, folder: &Folder) -> String {
    let unseen = folder.messages.iter().filter(|message| !message.flags.contains("\\Seen")).count();
    let size: usize = folder.messages.iter().map(|message| message.raw().len()).sum();
    format!("* STATUS \"{name}\" (MESSAGES {} UNSEEN {unseen} SIZE {size})", folder.messages.len())
}

fn numbers(set: &str) -> Vec<(u32, u32)> {
    let number = |text: &str| -> u32 { text.parse().expect("a number") };
    let ends = |range: &str| {
        let (first, last) = range.split_once(':').unwrap_or((range, range));
        (number(first), number(last))
    };
    set.split(',').map(ends).collect()
}

/// Returns a FETCH response with these attributes, in the form `(UID FLAGS BODY.PEEK[1]<0.100>)`.
fn fetched(dice: &Dice, number: u32, message: &Message, flags: &BTreeSet<&'static str>, attributes: &str) -> String {
    let list = attributes.trim_start_matches('(').strip_suffix(')').expect("a list");
    let mut values = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let end = rest.find(']').filter(|_| rest.starts_with("BODY.PEEK[")).map_or(0, |at| at);
        let end = rest[end..].find(' ').map_or(rest.len(), |at| end + at);
        values.push(value(dice, message, flags, &rest[..end]));
        rest = rest[end..].trim_start();
    }
    format!("* {number} FETCH ({})", values.join(" "))
}

fn value(dice: &Dice, message: &Message, flags: &BTreeSet<&'static str>, attribute: &str) -> String {
    match attribute {
        "UID" => format!("UID {}", message.uid),
        "FLAGS" => format!("FLAGS ({})", words(flags)),
        "RFC822.SIZE" => format!("RFC822.SIZE {}", message.raw().len()),
        "INTERNALDATE" => format!("INTERNALDATE \"17-Jul-2026 02:44:25 +00{:02}\"", message.uid % 60),
        "BODYSTRUCTURE" => format!("BODYSTRUCTURE {}", message.structure()),
        section => {
            let section = section.strip_prefix("BODY.PEEK[").expect("a section");
            let (name, slice) = section.split_once(']').expect("its end");
            let bytes = message.section(name);
            let slice = slice.strip_prefix('<').and_then(|slice| slice.strip_suffix('>'));
            let (origin, bytes) = match (slice.and_then(|slice| slice.split_once('.')), bytes) {
                (Some((from, count)), Some(bytes)) => {
                    let first: usize = from.parse().expect("a number");
                    let last = first.saturating_add(count.parse().expect("a number")).min(bytes.len());
                    (format!("<{from}>"), Some(bytes.get(first..last).unwrap_or_default().to_owned()))
                }
                (_, bytes) => (String::new(), bytes),
            };
            let value = bytes.map_or("NIL".to_owned(), |bytes| string(dice, &bytes));
            format!("BODY[{name}]{origin} {value}")
        }
    }
}

fn string(dice: &Dice, bytes: &str) -> String {
    let is_short = bytes.len() < 80 && !bytes.contains(['\r', '\n', '"', '\\']);
    if is_short && dice.one_in(2) { format!("\"{bytes}\"") } else { format!("{{{}}}\r\n{bytes}", bytes.len()) }
}
