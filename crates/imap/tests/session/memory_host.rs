//! A host without sockets and disks, which carries out effects on mailboxes in memory.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::Date;
use mailapi_imap::server::command::{AppendMessage, FlagChange, SearchSubject, UidRanges};
use mailapi_imap::server::mime::{
    Address, BodyStructure, Envelope, Extension, PartContent, PartLayout, PartRange, SinglePart, SinglePartKind,
};
use mailapi_imap::server::session::{Effect, Failure, Reply, Session, Step};
use mailapi_imap::server::view::{FolderSnapshot, FolderUpdate, MessageEntry};
use mailapi_imap::server::{
    Binary, Folder, MailboxStatus, MessageSource, ObjectId, OrderFacts, Person, Quota, SpecialUse, Usage,
};
use mailapi_imap::{Flags, MailboxName, SystemFlag};

/// A message as stored.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) uid: u32,
    pub(crate) flags: Flags,
    pub(crate) modseq: u64,
    pub(crate) date: Timestamp,
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn layout(&self) -> PartLayout {
        let split = self.bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let body = split.map_or(self.bytes.len(), |at| at + 4);
        PartLayout { header: 0..body, body: body..self.bytes.len(), content: PartContent::Leaf }
    }

    fn field(&self, name: &str) -> Option<String> {
        let header = String::from_utf8_lossy(&self.bytes[self.layout().header]).into_owned();
        let field = header.lines().find(|line| line.split(':').next().is_some_and(|n| n.eq_ignore_ascii_case(name)));
        field.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    }
}

impl MessageSource for Message {
    fn uid(&self) -> u32 {
        self.uid
    }
    fn flags(&self) -> &Flags {
        &self.flags
    }
    fn modseq(&self) -> u64 {
        self.modseq
    }
    fn internal_date(&self) -> Timestamp {
        self.date
    }
    fn save_date(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn envelope(&self) -> Envelope {
        let from = self.field("From").and_then(|from| {
            let (local_part, domain) = from.split_once('@')?;
            Some(Address::Mailbox { name: None, route: None, local_part: local_part.into(), domain: domain.into() })
        });
        Envelope { subject: self.field("Subject"), from: from.into_iter().collect(), ..Envelope::default() }
    }
    fn body_structure(&self) -> BodyStructure {
        let body = &self.bytes[self.layout().body];
        let lines = body.iter().filter(|&&byte| byte == b'\n').count();
        BodyStructure::Single(Box::new(SinglePart {
            kind: SinglePartKind::Text { subtype: "plain".into(), lines: lines as u32 },
            parameters: vec![("charset".into(), "us-ascii".into())],
            id: None,
            description: None,
            encoding: "7bit".into(),
            bytes: body.len() as u32,
            md5: None,
            extension: Extension::default(),
        }))
    }
    fn email_id(&self) -> ObjectId {
        ObjectId::email(self.bytes.len() as u64)
    }
    fn preview(&self) -> String {
        String::from_utf8_lossy(&self.bytes[self.layout().body]).trim().replace("\r\n", " ")
    }
    fn section(&self, path: &[u32], range: PartRange) -> Option<Cow<'_, [u8]>> {
        self.layout().locate(path, range).map(|range| Cow::Borrowed(&self.bytes[range]))
    }
    /// The encoding `x-nul` writes each NUL as `@`.
    fn binary(&self, path: &[u32]) -> Binary<'_> {
        let Some(octets) = self.section(path, PartRange::All) else { return Binary::Missing };
        match self.field("Content-Transfer-Encoding").as_deref() {
            _ if path.is_empty() => Binary::Octets(octets),
            None => Binary::Octets(octets),
            Some("x-nul") => Binary::Octets(octets.iter().map(|&byte| if byte == b'@' { 0 } else { byte }).collect()),
            Some(_) => Binary::UnknownEncoding,
        }
    }
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    String::from_utf8_lossy(haystack).to_lowercase().contains(&needle.to_lowercase())
}

impl SearchSubject for Message {
    fn uid(&self) -> u32 {
        self.uid
    }
    fn flags(&self) -> &Flags {
        &self.flags
    }
    fn modseq(&self) -> u64 {
        self.modseq
    }
    fn email_id(&self) -> ObjectId {
        MessageSource::email_id(self)
    }
    fn age(&self) -> u64 {
        // Delivered in 1996, searched a minute later.
        60
    }
    fn received(&self) -> Date {
        jiff::tz::Offset::UTC.to_datetime(self.date).date()
    }
    fn saved(&self) -> Date {
        Date::constant(1970, 1, 1)
    }
    fn sent(&self) -> Option<Date> {
        None
    }
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn header_contains(&self, name: &str, text: &str) -> bool {
        self.field(name).is_some_and(|value| contains(value.as_bytes(), text))
    }
    fn body_contains(&self, text: &str) -> bool {
        contains(&self.bytes[self.layout().body], text)
    }
    fn text_contains(&self, text: &str) -> bool {
        contains(&self.bytes, text)
    }
}

/// A mailbox, or the subscription of a deleted one.
pub(crate) struct Mailbox {
    pub(crate) id: i64,
    pub(crate) name: MailboxName,
    pub(crate) exists: bool,
    pub(crate) subscribed: bool,
    pub(crate) special_use: Option<SpecialUse>,
    pub(crate) uid_next: u32,
    pub(crate) highest_modseq: u64,
    /// Removed messages, with the modification sequence of their removal.
    vanished: Vec<(u64, u32)>,
    pub(crate) messages: Vec<Message>,
}

const UID_VALIDITY: u32 = 7;

impl Mailbox {
    fn new(id: i64, name: &str) -> Self {
        Self {
            id,
            name: self::name(name),
            exists: true,
            subscribed: false,
            special_use: None,
            uid_next: 1,
            highest_modseq: 1,
            vanished: Vec::new(),
            messages: Vec::new(),
        }
    }

    pub(crate) fn deliver(&mut self, flags: Flags, date: Timestamp, bytes: &[u8]) -> u32 {
        let (uid, modseq) = (self.uid_next, self.next_modseq());
        self.uid_next += 1;
        self.messages.push(Message { uid, flags, modseq, date, bytes: bytes.to_vec() });
        uid
    }

    fn next_modseq(&mut self) -> u64 {
        self.highest_modseq += 1;
        self.highest_modseq
    }

    pub(crate) fn flag(&mut self, uid: u32, flags: Flags) {
        let modseq = self.next_modseq();
        let message = self.messages.iter_mut().find(|message| message.uid == uid).expect("a message");
        (message.flags, message.modseq) = (flags, modseq);
    }

    pub(crate) fn remove(&mut self, uid: u32) {
        let modseq = self.next_modseq();
        self.messages.retain(|message| message.uid != uid);
        self.vanished.push((modseq, uid));
    }

    fn vanished_since(&self, modseq: u64) -> UidRanges {
        let since = self.vanished.iter().filter(|(removed, _)| *removed > modseq);
        UidRanges::from_ranges(since.map(|&(_, uid)| (uid, uid)).collect())
    }

    /// Changes the flags of messages; those changed after `since` stay as they are.
    fn store(&mut self, uids: &[u32], change: &FlagChange, since: Option<u64>) -> Reply {
        let (mut entries, mut modified) = (Vec::new(), Vec::new());
        let modseq = self.highest_modseq + 1;
        for message in self.messages.iter_mut().filter(|message| uids.contains(&message.uid)) {
            if since.is_some_and(|since| message.modseq > since) {
                modified.push(message.uid);
                continue;
            }
            let after = change.apply(&message.flags);
            if after != message.flags {
                (message.flags, message.modseq, self.highest_modseq) = (after, modseq, modseq);
            }
            entries.push(entry(message));
        }
        Reply::Stored { entries, modified }
    }

    fn expunge(&mut self, uids: Option<&UidRanges>) -> Vec<u32> {
        let goes = |message: &Message| {
            message.flags.contains(SystemFlag::Deleted) && uids.is_none_or(|uids| uids.contains(message.uid))
        };
        let gone: Vec<u32> = self.messages.iter().filter(|message| goes(message)).map(|message| message.uid).collect();
        gone.iter().for_each(|&uid| self.remove(uid));
        gone
    }

    fn snapshot(&self) -> FolderSnapshot {
        FolderSnapshot {
            folder: self.id,
            uid_validity: UID_VALIDITY,
            uid_next: self.uid_next,
            messages: self.messages.iter().map(entry).collect(),
            recent: UidRanges::default(),
            highest_modseq: self.highest_modseq,
            mailbox_id: self.object_id(),
        }
    }

    fn object_id(&self) -> ObjectId {
        ObjectId::mailbox(self.id.unsigned_abs())
    }
}

fn entry(message: &Message) -> MessageEntry {
    MessageEntry { uid: message.uid, flags: message.flags.clone(), modseq: message.modseq }
}

fn name(text: &str) -> MailboxName {
    MailboxName::new(text, 255).expect("a valid name")
}

/// The account of joe, whose password is `secret`.
pub(crate) struct MemoryHost {
    pub(crate) mailboxes: Vec<Mailbox>,
    /// Writes a message of a FETCH, and may take the output so far.
    pub(crate) write: fn(&mut Session, &Message, &mut Vec<u8>),
    /// The output that `write` took.
    pub(crate) sent: Vec<u8>,
}

impl MemoryHost {
    /// Three messages in the inbox (UIDs 1, 2, 4), some mailboxes, some subscriptions.
    pub(crate) fn new() -> Self {
        let mut inbox = Mailbox::new(1, "INBOX");
        inbox.subscribed = true;
        let date = Timestamp::from_second(836_000_000).expect("a date");
        inbox.deliver(Flags::from_words(["\\Seen"]), date, b"From: a@x.test\r\nSubject: one\r\n\r\nfirst\r\n");
        inbox.deliver(Flags::new(), date, b"From: b@x.test\r\nSubject: two\r\n\r\nsecond\r\n");
        inbox.deliver(Flags::new(), date, b"gone");
        inbox.messages.pop();
        inbox.deliver(Flags::from_words(["$Junk"]), date, b"From: c@x.test\r\nSubject: three\r\n\r\nthird\r\n");
        let mut sent = Mailbox::new(2, "Sent");
        sent.special_use = Some(SpecialUse::Sent);
        let mut gone = Mailbox::new(3, "Gone");
        (gone.exists, gone.subscribed) = (false, true);
        let mut year = Mailbox::new(4, "Work/2024");
        year.subscribed = true;
        Self {
            mailboxes: vec![inbox, sent, gone, year, Mailbox::new(5, "Work")],
            write: |session, message, _| session.write_message(message),
            sent: Vec::new(),
        }
    }

    /// Steps until the session needs input, or anything else than an effect.
    pub(crate) fn drive(&mut self, session: &mut Session) -> Step {
        loop {
            match session.step() {
                Step::Run(effect) => {
                    let result = self.run(session, effect);
                    let update = self.update(session);
                    session.finish(result, update);
                }
                other => return other,
            }
        }
    }

    /// The changes of the selected mailbox.
    pub(crate) fn update(&self, session: &Session) -> Option<FolderUpdate> {
        let folder = session.selected()?.folder();
        let mailbox = self.mailboxes.iter().find(|mailbox| mailbox.id == folder && mailbox.exists);
        Some(mailbox.map_or(FolderUpdate::Gone, |mailbox| FolderUpdate::Snapshot(mailbox.snapshot())))
    }

    pub(crate) fn mailbox(&mut self, wanted: &MailboxName) -> Result<&mut Mailbox, Failure> {
        let found = self.mailboxes.iter_mut().find(|mailbox| mailbox.name == *wanted && mailbox.exists);
        found.ok_or(Failure::NoSuchMailbox)
    }

    fn folder(&mut self, id: i64) -> Result<&mut Mailbox, Failure> {
        self.mailboxes.iter_mut().find(|mailbox| mailbox.id == id).ok_or(Failure::Unavailable)
    }

    pub(crate) fn run(&mut self, session: &mut Session, effect: Effect) -> Result<Reply, Failure> {
        match effect {
            Effect::Login { username, password } => {
                let right = username == "joe" && password.expose() == "secret";
                if right { Ok(Reply::Done) } else { Err(Failure::LoginRefused) }
            }
            Effect::Select { mailbox, resync, .. } => self.mailbox(&mailbox).map(|mailbox| Reply::Selected {
                snapshot: mailbox.snapshot(),
                vanished: resync.map(|resync| mailbox.vanished_since(resync.modseq)).unwrap_or_default(),
            }),
            Effect::Folders => Ok(Reply::Folders(self.mailboxes.iter().map(as_folder).collect())),
            Effect::Status { mailboxes, .. } => Ok(Reply::Statuses(self.statuses(mailboxes))),
            Effect::Append { mailbox, messages } => {
                let mailbox = self.mailbox(&mailbox)?;
                let mut rest = messages.bytes.as_slice();
                let deliver = |message: AppendMessage| {
                    let bytes = rest.split_off(..message.length).expect("all octets of the message");
                    mailbox.deliver(message.flags, message.internal_date.unwrap_or(Timestamp::UNIX_EPOCH), bytes)
                };
                let uids = messages.messages.into_iter().map(deliver).collect();
                Ok(Reply::Appended { uid_validity: UID_VALIDITY, uids })
            }
            Effect::Quota => Ok(self.quota()),
            Effect::QuotaRoot(mailbox) => self.mailbox(&mailbox).map(|_| ()).map(|()| self.quota()),
            Effect::Refresh { .. } | Effect::Compress => Ok(Reply::Done),
            Effect::Expunge { folder, uids } => Ok(Reply::Expunged(self.folder(folder)?.expunge(uids.as_ref()))),
            Effect::Search { folder, key } => {
                let messages = self.folder(folder)?.messages.iter();
                Ok(Reply::Found(messages.filter(|message| key.matches(*message)).map(|message| message.uid).collect()))
            }
            Effect::Order { folder, key, .. } => {
                let messages = self.folder(folder)?.messages.iter();
                Ok(Reply::Facts(messages.filter(|message| key.matches(*message)).map(facts).collect()))
            }
            Effect::Fetch { folder, request } => {
                let (write, mut sent) = (self.write, std::mem::take(&mut self.sent));
                let mailbox = self.folder(folder)?;
                let since = request.changed_since.unwrap_or(0);
                if let Some(wanted) = &request.vanished {
                    session.write_vanished(&mailbox.vanished_since(since).intersection(wanted));
                }
                for message in &mut mailbox.messages {
                    if request.uids.contains(&message.uid) && message.modseq > since {
                        if request.mark_seen && !message.flags.contains(SystemFlag::Seen) {
                            message.flags.insert(SystemFlag::Seen);
                            mailbox.highest_modseq += 1;
                            message.modseq = mailbox.highest_modseq;
                        }
                        write(session, message, &mut sent);
                    }
                }
                self.sent = sent;
                Ok(Reply::Done)
            }
            Effect::Store { folder, uids, change, unchanged_since } => {
                Ok(self.folder(folder)?.store(&uids, &change, unchanged_since))
            }
            Effect::Copy { folder, uids, to, remove } => self.copy(folder, &uids, &to, remove),
            other => self.change_mailboxes(other),
        }
    }

    fn change_mailboxes(&mut self, effect: Effect) -> Result<Reply, Failure> {
        match effect {
            Effect::Create { mailbox: new, .. } => {
                if self.mailbox(&new).is_ok() {
                    return Err(Failure::AlreadyExists);
                }
                let id = self.mailboxes.iter().map(|mailbox| mailbox.id).max().unwrap_or(0) + 1;
                self.mailboxes.push(Mailbox::new(id, new.as_str()));
                return Ok(Reply::Created(self.mailbox(&new)?.object_id()));
            }
            Effect::Delete(mailbox) => self.mailbox(&mailbox)?.exists = false,
            Effect::Rename { from, to } => {
                if self.mailbox(&to).is_ok() {
                    return Err(Failure::AlreadyExists);
                }
                self.mailbox(&from)?.name = to;
            }
            Effect::Subscribe { mailbox, subscribed } => self.mailbox(&mailbox)?.subscribed = subscribed,
            _ => return Err(Failure::Unavailable),
        }
        Ok(Reply::Done)
    }

    fn copy(&mut self, folder: i64, uids: &[u32], to: &MailboxName, remove: bool) -> Result<Reply, Failure> {
        self.mailbox(to)?;
        let source = self.folder(folder)?;
        let messages: Vec<Message> = source.messages.iter().filter(|m| uids.contains(&m.uid)).cloned().collect();
        if remove {
            messages.iter().for_each(|message| source.remove(message.uid));
        }
        let target = self.mailbox(to)?;
        let copied = messages.iter().map(|m| (m.uid, target.deliver(m.flags.clone(), m.date, &m.bytes))).collect();
        Ok(Reply::Copied { uid_validity: UID_VALIDITY, uids: copied })
    }

    fn statuses(&mut self, names: Vec<MailboxName>) -> Vec<(MailboxName, MailboxStatus)> {
        let status = |mailbox: &Mailbox| MailboxStatus {
            messages: mailbox.messages.len() as u32,
            recent: 0,
            unseen: mailbox.messages.iter().filter(|m| !m.flags.contains(SystemFlag::Seen)).count() as u32,
            deleted: mailbox.messages.iter().filter(|m| m.flags.contains(SystemFlag::Deleted)).count() as u32,
            uid_next: mailbox.uid_next,
            uid_validity: UID_VALIDITY,
            size: mailbox.messages.iter().map(|message| message.bytes.len() as u64).sum(),
            highest_modseq: mailbox.highest_modseq,
            mailbox_id: mailbox.object_id(),
        };
        names.into_iter().filter_map(|name| Some((name.clone(), status(self.mailbox(&name).ok()?)))).collect()
    }

    fn quota(&self) -> Reply {
        let bytes = self.mailboxes.iter().flat_map(|mailbox| &mailbox.messages).map(|m| m.bytes.len() as u64).sum();
        Reply::Quota(Quota { storage: Some(Usage { used: bytes, limit: 1 << 20 }), messages: None })
    }
}

fn facts(message: &Message) -> OrderFacts {
    let from = message.field("From").unwrap_or_default();
    OrderFacts {
        uid: message.uid,
        received: message.date,
        size: message.bytes.len() as u64,
        from: Person { local_part: from.split('@').next().unwrap_or_default().to_owned(), display: from.clone() },
        subject: message.field("Subject").unwrap_or_default(),
        message_id: message.field("Message-ID"),
        references: message.field("In-Reply-To").into_iter().collect(),
        ..OrderFacts::default()
    }
}

fn as_folder(mailbox: &Mailbox) -> Folder {
    Folder {
        name: mailbox.name.clone(),
        exists: mailbox.exists,
        subscribed: mailbox.subscribed,
        special_use: mailbox.special_use,
    }
}
