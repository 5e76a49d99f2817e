//! Applies the rules of mailboxes to a message.
//!
//! The rules of each mailbox decide once for a message, whatever leads to it, unless they compare the recipient. They are
//! applied before anything is written, since a rule can refuse the message.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use mailapi_backend::Refusal;
use mailapi_backend::mime::{AddressEntry, Header};
use mailapi_model::{Alias, EmailAddress, EnhancedCode, Reply, RuleFacts, Ruling, Timestamp};
use mailapi_store::StoreError;
use memchr::memmem;
use rusqlite::Connection;

use super::answering::deserves_answer;
use super::expansion::{Expanded, Expansion, expand};
use super::transaction::{Local, LocalTo, Routes};
use super::unusable::{Failed, Unusable, unusable};
use super::wide::MessageBreadth;
use super::{Prepared, Recipient, loops};
use crate::MessageStoreSettings;
use crate::message_store::{MailboxId, mailbox, rules, unreadable};

/// Maximum number of bytes of a header block that rules compare.
const MAX_HEADER: usize = 256 * 1024;

/// Maximum number of bytes of a header field that rules compare. Rules of many mailboxes may compare it often.
const MAX_FIELD: usize = 4 * 1024;

/// Maximum number of bytes of all fields with one name that rules compare. Each of 2,000 conditions may compare them, and
/// all other writers wait.
const MAX_FIELDS: usize = 16 * 1024;

/// Number of searches for a text in a field whose results are kept: other mailboxes may have the same rules.
const MOST_FOUND: usize = 10_000;

/// What the rules of mailboxes decide. Mailboxes without rules have no ruling.
#[derive(Debug, Default)]
pub(super) struct AllRulings {
    /// `None` for all recipients.
    made: HashMap<(MailboxId, Option<EmailAddress>), Ruling>,
    /// Mailboxes whose rules compare the recipient.
    by_recipient: HashSet<MailboxId>,
    without_rules: HashSet<MailboxId>,
}

impl AllRulings {
    /// Returns the ruling of a mailbox about the message to a recipient that leads to it.
    pub(super) fn get(&self, mailbox: MailboxId, recipient: &EmailAddress) -> Option<&Ruling> {
        if self.made.is_empty() { None } else { self.made.get(&self.key(mailbox, recipient)) }
    }

    fn is_known(&self, mailbox: MailboxId, recipient: &EmailAddress) -> bool {
        self.without_rules.contains(&mailbox) || self.get(mailbox, recipient).is_some()
    }

    /// Returns what distinguishes the rulings of a mailbox.
    fn key(&self, mailbox: MailboxId, recipient: &EmailAddress) -> (MailboxId, Option<EmailAddress>) {
        (mailbox, self.by_recipient.contains(&mailbox).then(|| recipient.clone()))
    }
}

/// Applies the rules of all mailboxes that a message reaches: removes those that refuse it from the routes, and adds the
/// addresses to which they forward it.
pub(super) fn apply(
    connection: &Connection,
    mail: &Prepared,
    settings: &MessageStoreSettings,
    unusable: &Unusable,
    routes: &mut Routes<'_>,
    (expanded, breadth): (&mut Expanded, MessageBreadth),
    now: Timestamp,
) -> Result<(), Failed> {
    let mut mailboxes: Vec<(MailboxId, &EmailAddress)> = Vec::new();
    for Local { recipient, to, .. } in &routes.local {
        let recipient: &Recipient = recipient;
        mailboxes.extend(to.mailboxes().map(|mailbox| (mailbox, &recipient.address)));
    }
    let mut has_rules = false;
    for (mailbox, _) in mailboxes.iter().filter(|(mailbox, _)| !unusable.contains(*mailbox)) {
        has_rules = has_rules || rules::find(connection, *mailbox).map_err(blamed(*mailbox))?.is_some();
    }
    if !has_rules && unusable.is_empty() {
        return Ok(());
    }
    let (message, structure) = (mail.kept().message(), mail.kept().structure());
    let length = usize::try_from(structure.header_len).unwrap_or(usize::MAX);
    let header = message.slice(0..length.min(MAX_HEADER).min(message.len()));
    let bytes = header.to_bytes().map_err(unreadable)?;
    let header = Header::of(&bytes);
    let facts = Facts::new(&header, mail.incoming.message.len() as u64, mail.incoming.is_junk);
    let rulings = AllRulings::default();
    let mut judged = Judged { connection, mail, settings, unusable, breadth, facts, now, rulings };
    for (mailbox, recipient) in mailboxes {
        judged.judge(mailbox, recipient)?;
    }
    judged.refuse(routes);
    judged.forward(routes, expanded)?;
    routes.rulings = judged.rulings;
    Ok(())
}

/// The decisions so far.
struct Judged<'a> {
    connection: &'a Connection,
    mail: &'a Prepared,
    settings: &'a MessageStoreSettings,
    unusable: &'a Unusable,
    breadth: MessageBreadth,
    facts: Facts<'a>,
    now: Timestamp,
    rulings: AllRulings,
}

impl Judged<'_> {
    /// Applies the rules of a mailbox, once, or once for each recipient if they compare it.
    fn judge(&mut self, mailbox: MailboxId, recipient: &EmailAddress) -> Result<(), Failed> {
        if self.unusable.contains(mailbox) || self.rulings.is_known(mailbox, recipient) {
            return Ok(());
        }
        let rules = rules::find(self.connection, mailbox).map_err(blamed(mailbox))?;
        let Some(rules) = rules else {
            self.rulings.without_rules.insert(mailbox);
            return Ok(());
        };
        if rules.compare_recipient() {
            self.rulings.by_recipient.insert(mailbox);
        }
        recipient.as_str().clone_into(&mut self.facts.recipient);
        let mut ruling = rules.ruling(&self.facts);
        // Notices are neither answered nor refused (RFC 5429 section 2.1.1, RFC 5230 section 4.5). A message whose sender
        // address is not valid here cannot be answered, but it can be refused.
        if self.mail.incoming.sender.is_none() {
            ruling.vacation = None;
            ruling.reject = ruling.reject.filter(|_| self.mail.incoming.unanswerable.is_some());
        }
        if let Some(vacation) = &ruling.vacation {
            let owner = mailbox::address(self.connection, mailbox)?;
            let delimiter = self.settings.recipient_delimiter;
            if !deserves_answer(&self.facts, self.mail, &owner, vacation, delimiter) {
                ruling.vacation = None;
            }
        }
        let key = self.rulings.key(mailbox, recipient);
        self.rulings.made.insert(key, ruling);
        Ok(())
    }

    /// Returns the reply if a mailbox cannot take mail, or its rules refuse the message.
    fn refusal(&self, mailbox: MailboxId, recipient: &EmailAddress) -> Option<Reply> {
        if self.unusable.contains(mailbox) {
            return Some(unusable());
        }
        self.rulings.get(mailbox, recipient)?.reject.as_deref().map(rejected)
    }

    /// Removes the mailboxes that refuse the message.
    fn refuse(&self, routes: &mut Routes<'_>) {
        for mut local in std::mem::take(&mut routes.local) {
            let recipient = &local.recipient.address;
            let refusal = match &mut local.to {
                LocalTo::Mailbox(mailbox) => self.refusal(*mailbox, recipient),
                LocalTo::Alias(expansion) => {
                    self.refuse_members(expansion, recipient);
                    expansion.refusal()
                }
            };
            match refusal {
                Some(reply) => routes.refused.push(Refusal { recipient: recipient.clone(), reply }),
                None => routes.local.push(local),
            }
        }
    }

    fn refuse_members(&self, expansion: &mut Expansion, recipient: &EmailAddress) {
        for (member, mailbox) in std::mem::take(&mut expansion.mailboxes) {
            match self.refusal(mailbox, recipient) {
                Some(reply) => expansion.failed.push(Refusal { recipient: member, reply }),
                None => expansion.mailboxes.push((member, mailbox)),
            }
        }
    }

    /// Adds the addresses to which the rules forward the message. The rules of mailboxes here among them apply too.
    fn forward(&mut self, routes: &mut Routes<'_>, expanded: &mut Expanded) -> Result<(), Failed> {
        if self.mail.earlier.are_too_many() {
            return Ok(());
        }
        // A copy that comes back names the recipient of which it is one.
        let mail = self.mail;
        let is_first = |local: &&mut Local<'_>| !mail.earlier.name(&local.recipient.address);
        let mut asked = HashSet::new();
        for local in routes.local.iter_mut().filter(is_first) {
            let recipient = &local.recipient.address;
            let mut waiting: VecDeque<MailboxId> = local.to.mailboxes().collect();
            while let Some(mailbox) = waiting.pop_front() {
                if asked.insert(self.rulings.key(mailbox, recipient)) {
                    let found = self.targets(mailbox, recipient, expanded)?;
                    waiting.extend(found.mailboxes.iter().map(|(_, mailbox)| *mailbox));
                    local.forwarded.add(found);
                }
            }
        }
        Ok(())
    }

    /// Expands the addresses to which the rules of a mailbox forward the message.
    fn targets(
        &mut self,
        mailbox: MailboxId,
        recipient: &EmailAddress,
        expanded: &mut Expanded,
    ) -> Result<Expansion, Failed> {
        let members = self.rulings.get(mailbox, recipient).map(|ruling| ruling.forward.clone()).unwrap_or_default();
        if members.is_empty() || expanded.refusal().is_some() {
            return Ok(Expansion::default());
        }
        let address = mailbox::address(self.connection, mailbox)?;
        if self.mail.earlier.name(&address) {
            return Ok(Expansion::default());
        }
        let as_alias = Alias { address, members, senders: Vec::new(), active: true, created_at: self.now };
        let (size, most) = (self.mail.size_for(recipient), self.breadth.largest());
        let mut found = expand(self.connection, as_alias, size, self.settings, most, expanded)?;
        for (_, mailbox) in found.mailboxes.clone() {
            self.judge(mailbox, recipient)?;
        }
        self.refuse_members(&mut found, recipient);
        Ok(found)
    }
}

/// Blames a mailbox for rules that cannot be read.
fn blamed(mailbox: MailboxId) -> impl Fn(StoreError) -> Failed {
    move |error| Failed::at(mailbox, error.into())
}

fn rejected(text: &str) -> Reply {
    Reply::new(550, EnhancedCode::new(5, 7, 1), text)
}

/// The facts about a message that rules compare. The rules of 1,000 mailboxes may apply to one message while all other
/// writers wait, so each field is decoded once.
pub(super) struct Facts<'a> {
    header: &'a Header<'a>,
    /// The names of its fields, in lower case.
    names: HashSet<String>,
    size: u64,
    is_spam: bool,
    /// The address that the message was sent to.
    recipient: String,
    texts: RefCell<HashMap<String, Rc<[String]>>>,
    /// The texts of all fields with one name, one in a line.
    lines: RefCell<HashMap<String, String>>,
    /// Whether a field contains a text, for at most [`MOST_FOUND`] of both.
    found: RefCell<HashMap<String, bool>>,
    addresses: RefCell<HashMap<String, Rc<[String]>>>,
}

impl<'a> Facts<'a> {
    fn new(header: &'a Header<'a>, size: u64, is_spam: bool) -> Self {
        let names = header.names().map(str::to_ascii_lowercase).collect();
        let (texts, lines, found, addresses) = Default::default();
        Self { header, names, size, is_spam, recipient: String::new(), texts, lines, found, addresses }
    }

    /// Returns the texts of the message itself, of a field whose name is in lower case.
    fn written(&self, field: &str) -> Rc<[String]> {
        if !self.names.contains(field) {
            return Rc::default();
        }
        let read = || {
            let mut room = MAX_FIELDS;
            let texts = self.header.texts(field).map(|text| shortened(&text).to_lowercase());
            let within = texts.map_while(|text| {
                room = room.checked_sub(text.len())?;
                Some(text)
            });
            within.collect()
        };
        self.texts.borrow_mut().entry(field.to_owned()).or_insert_with(read).clone()
    }

    fn search(&self, field: &str, text: &str) -> bool {
        let read = || self.written(field).join("\n");
        // A text that rules search for has no line end, so it is in one line.
        memmem::find(self.lines.borrow_mut().entry(field.to_owned()).or_insert_with(read).as_bytes(), text.as_bytes())
            .is_some()
    }
}

impl RuleFacts for Facts<'_> {
    fn texts(&self, field: &str) -> Rc<[String]> {
        let field = field.to_ascii_lowercase();
        let texts = self.written(&field);
        // The field of this delivery is in front of the message.
        if field.eq_ignore_ascii_case(loops::FIELD) {
            return [self.recipient.clone()].into_iter().chain(texts.iter().cloned()).collect();
        }
        texts
    }

    fn contains(&self, field: &str, text: &str) -> bool {
        let field = field.to_ascii_lowercase();
        if field.eq_ignore_ascii_case(loops::FIELD) && self.recipient.contains(text) {
            return true;
        }
        if !self.names.contains(&field) {
            return false;
        }
        let key = format!("{field}:{text}");
        if let Some(found) = self.found.borrow().get(&key) {
            return *found;
        }
        let is_found = self.search(&field, text);
        let mut found = self.found.borrow_mut();
        if found.len() < MOST_FOUND {
            found.insert(key, is_found);
        }
        is_found
    }

    fn addresses(&self, field: &str) -> Rc<[String]> {
        let field = field.to_ascii_lowercase();
        if !self.names.contains(&field) {
            return Rc::default();
        }
        let read = || self.header.addresses(&field).iter().filter_map(address).collect();
        self.addresses.borrow_mut().entry(field.clone()).or_insert_with(read).clone()
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn is_spam(&self) -> bool {
        self.is_spam
    }

    fn recipient(&self) -> &str {
        &self.recipient
    }
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_FIELD)]
}

/// Returns an address of a header field in its canonical form.
fn address(entry: &AddressEntry) -> Option<String> {
    let AddressEntry::Mailbox { local_part, domain, .. } = entry else { return None };
    let text = format!("{local_part}@{domain}");
    Some(text.parse::<EmailAddress>().map_or_else(|_| text.to_lowercase(), |address| address.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_of_many_fields_are_compared() {
        let fields = format!("X-A: {}\r\n", "x".repeat(5_000)).repeat(50) + "X-B: y\r\n\r\n";
        let header = Header::of(fields.as_bytes());
        let facts = Facts::new(&header, 0, false);
        assert_eq!(facts.texts("x-a").iter().map(String::len).sum::<usize>(), MAX_FIELDS);
        assert_eq!(*facts.texts("x-b"), ["y".to_owned()]);
    }

    #[test]
    fn texts_are_found_in_one_field_alone() {
        let header = Header::of(b"X-A: One two\r\nX-A: three\r\nDelivered-To: bob@far.example\r\n\r\n");
        let facts = Facts { recipient: "ann@example.org".to_owned(), ..Facts::new(&header, 0, false) };
        for _ in 0..2 {
            for (field, text, is_found) in [
                ("x-a", "one t", true),
                ("X-A", "hree", true),
                ("x-a", "twothree", false),
                ("x-a", "two three", false),
                ("x-b", "one", false),
                ("delivered-to", "ann@", true),
                ("delivered-to", "bob@", true),
            ] {
                assert_eq!(facts.contains(field, text), is_found, "{field} {text}");
            }
        }
    }
}
