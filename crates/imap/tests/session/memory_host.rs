//! A host without sockets and disks, which carries out effects on mailboxes in memory.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::Date;
use mailapi_imap::server::command::{SearchSubject, UidRanges};
use mailapi_imap::server::mime::{
    Address, BodyStructure, Envelope, Extension, PartContent, PartLayout, PartRange, SinglePart, SinglePartKind,
};
use mailapi_imap::server::session::{Effect, Failure, Reply, Session, Step};
use mailapi_imap::server::view::{FolderSnapshot, FolderUpdate, MessageEntry};
use mailapi_imap::server::{Folder, MailboxStatus, MessageSource, Quota, SpecialUse, Usage};
use mailapi_imap::{Flags, MailboxName, SystemFlag};

/// A message as stored.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) uid: u32,
    pub(crate) flags: Flags,
    pub(crate) date: Timestamp,
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    fn layout(&self) -> PartLayout {
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
    fn internal_date(&self) -> Timestamp {
        self.date
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
    fn section(&self, path: &[u32], range: PartRange) -> Option<Cow<'_, [u8]>> {
        self.layout().locate(path, range).map(|range| Cow::Borrowed(&self.bytes[range]))
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
    fn received(&self) -> Date {
        jiff::tz::Offset::UTC.to_datetime(self.date).date()
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
            messages: Vec::new(),
        }
    }

    pub(crate) fn deliver(&mut self, flags: Flags, date: Timestamp, bytes: &[u8]) -> u32 {
        let uid = self.uid_next;
        self.uid_next += 1;
        self.messages.push(Message { uid, flags, date, bytes: bytes.to_vec() });
        uid
    }

    fn expunge(&mut self, uids: Option<&UidRanges>) -> Vec<u32> {
        let goes = |message: &Message| {
            message.flags.contains(SystemFlag::Deleted) && uids.is_none_or(|uids| uids.contains(message.uid))
        };
        let gone = self.messages.iter().filter(|message| goes(message)).map(|message| message.uid).collect();
        self.messages.retain(|message| !goes(message));
        gone
    }

    fn snapshot(&self) -> FolderSnapshot {
        let entry = |message: &Message| MessageEntry { uid: message.uid, flags: message.flags.clone() };
        FolderSnapshot {
            folder: self.id,
            uid_validity: UID_VALIDITY,
            uid_next: self.uid_next,
            messages: self.messages.iter().map(entry).collect(),
            recent: UidRanges::default(),
        }
    }
}

fn name(text: &str) -> MailboxName {
    MailboxName::new(text, 255).expect("a valid name")
}

/// The account of joe, whose password is `secret`.
pub(crate) struct MemoryHost {
    pub(crate) mailboxes: Vec<Mailbox>,
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
        Self { mailboxes: vec![inbox, sent, gone, year, Mailbox::new(5, "Work")] }
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

    fn run(&mut self, session: &mut Session, effect: Effect) -> Result<Reply, Failure> {
        match effect {
            Effect::Login { username, password } => {
                let right = username == "joe" && password.expose() == "secret";
                if right { Ok(Reply::Done) } else { Err(Failure::LoginRefused) }
            }
            Effect::Select { mailbox, .. } => self.mailbox(&mailbox).map(|mailbox| Reply::Selected(mailbox.snapshot())),
            Effect::Folders => Ok(Reply::Folders(self.mailboxes.iter().map(as_folder).collect())),
            Effect::Status { mailboxes, .. } => Ok(Reply::Statuses(self.statuses(mailboxes))),
            Effect::Append { mailbox, message } => {
                let mailbox = self.mailbox(&mailbox)?;
                let date = message.internal_date.unwrap_or(Timestamp::UNIX_EPOCH);
                let uid = mailbox.deliver(message.flags, date, &message.bytes);
                Ok(Reply::Appended { uid_validity: UID_VALIDITY, uid })
            }
            Effect::Quota => Ok(self.quota()),
            Effect::QuotaRoot(mailbox) => self.mailbox(&mailbox).map(|_| ()).map(|()| self.quota()),
            Effect::Refresh { .. } => Ok(Reply::Done),
            Effect::Expunge { folder, uids } => Ok(Reply::Expunged(self.folder(folder)?.expunge(uids.as_ref()))),
            Effect::Search { folder, key } => {
                let messages = self.folder(folder)?.messages.iter();
                Ok(Reply::Found(messages.filter(|message| key.matches(*message)).map(|message| message.uid).collect()))
            }
            Effect::Fetch { folder, request } => {
                for message in &mut self.folder(folder)?.messages {
                    if request.uids.contains(&message.uid) {
                        if request.mark_seen {
                            message.flags.insert(SystemFlag::Seen);
                        }
                        session.write_message(message);
                    }
                }
                Ok(Reply::Done)
            }
            Effect::Store { folder, uids, change } => {
                let messages = self.folder(folder)?.messages.iter_mut();
                let stored = messages.filter(|message| uids.contains(&message.uid)).map(|message| {
                    message.flags = change.apply(&message.flags);
                    MessageEntry { uid: message.uid, flags: message.flags.clone() }
                });
                Ok(Reply::Stored(stored.collect()))
            }
            Effect::Copy { folder, uids, to, remove } => self.copy(folder, &uids, &to, remove),
            other => self.change_mailboxes(other),
        }
    }

    fn change_mailboxes(&mut self, effect: Effect) -> Result<Reply, Failure> {
        match effect {
            Effect::Create(new) => {
                if self.mailbox(&new).is_ok() {
                    return Err(Failure::AlreadyExists);
                }
                let id = self.mailboxes.iter().map(|mailbox| mailbox.id).max().unwrap_or(0) + 1;
                self.mailboxes.push(Mailbox::new(id, new.as_str()));
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
            source.messages.retain(|message| !uids.contains(&message.uid));
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
            uid_next: mailbox.uid_next,
            uid_validity: UID_VALIDITY,
            size: mailbox.messages.iter().map(|message| message.bytes.len() as u64).sum(),
        };
        names.into_iter().filter_map(|name| Some((name.clone(), status(self.mailbox(&name).ok()?)))).collect()
    }

    fn quota(&self) -> Reply {
        let bytes = self.mailboxes.iter().flat_map(|mailbox| &mailbox.messages).map(|m| m.bytes.len() as u64).sum();
        Reply::Quota(Quota { storage: Some(Usage { used: bytes, limit: 1 << 20 }), messages: None })
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
