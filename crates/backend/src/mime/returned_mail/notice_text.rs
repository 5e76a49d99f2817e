//! The text that a notice has for people. Servers that write no machine-readable report name their recipients there: as
//! qmail (QSBMF), Exim (`X-Failed-Recipients`), dma, Courier and many others do. It also has reasons that a report omits.
//!
//! A text alone proves nothing. Callers know who the recipients of the message were, and that the notice came to its
//! return address.

use std::collections::{HashMap, HashSet};

use mailapi_model::EmailAddress;

use super::lines::{ListLine, address, list_line, mentions, paragraphs};
use super::reply::reply_class;
use super::verdict::{Verdict, is_failure_statement};

/// Characters of a reason.
const MAX_REASON: usize = 1_000;
/// Characters of the beginning: it has the reason in most notices.
const MAX_BEGINNING: usize = 1_000;
/// Failures that one text can name.
const MAX_FAILURES: usize = 1_000;
/// Paragraphs behind an address that may have its reply.
const MAX_DISTANCE: usize = 3;

/// A text, by the addresses that it is about.
pub(super) struct NoticeText {
    entries: Vec<Entry>,
    /// The entries that say most about each address.
    by_address: HashMap<EmailAddress, usize>,
    /// Lists with members that the server does not name.
    concealing: HashSet<EmailAddress>,
    verdict: Verdict,
    /// The beginning of what the author wrote.
    beginning: String,
}

/// What the text says about some addresses.
#[derive(Debug, Clone)]
struct Entry {
    addresses: Vec<EmailAddress>,
    /// The list or alias behind which the server found the addresses.
    origin: Option<EmailAddress>,
    /// Whether a statement of failure names the addresses.
    is_listed: bool,
    /// The class of the last reply beside them.
    class: Option<u8>,
    reason: String,
}

/// A recipient that a text names as failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedFailure {
    pub(super) recipient: EmailAddress,
    /// The address behind it, if the recipient is a list or an alias.
    pub(super) final_recipient: Option<EmailAddress>,
    pub(super) reason: String,
}

impl NoticeText {
    /// Reads a text. `own` has the return addresses, to which the notice was sent: none of them is a recipient.
    pub(super) fn of(subject: &str, text: &str, own: &[EmailAddress]) -> Self {
        let paragraphs = paragraphs(text);
        let verdict = Verdict::of(subject, &paragraphs.concat().join("\n"));
        let mut reading =
            Reading { verdict, own, entries: Vec::new(), concealing: HashSet::new(), has_statement: false };
        // The entry of the last address, and how far behind it the current paragraph is.
        let mut last: Option<(usize, usize)> = None;
        for paragraph in &paragraphs {
            let before = reading.entries.len();
            reading.read(paragraph);
            if reading.entries.len() > before {
                last = Some((reading.entries.len() - 1, 0));
            } else if let Some((entry, distance)) = last.as_mut().filter(|(_, distance)| *distance < MAX_DISTANCE) {
                *distance += 1;
                reading.entries[*entry].take_reason(paragraph, *distance);
            }
        }
        let beginning: String = paragraphs
            .concat()
            .join("\n")
            .chars()
            .filter(|c| *c == '\n' || !c.is_control())
            .take(MAX_BEGINNING)
            .collect();
        NoticeText { beginning, ..reading.finished() }
    }

    /// Returns what the notice says about the delivery as a whole.
    pub(super) const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Returns the beginning of what the author wrote.
    pub(super) fn beginning(&self) -> &str {
        &self.beginning
    }

    /// Returns the failures that the text proves. `failed` are addresses that a header field calls failed.
    pub(super) fn failures(&self, failed: &[EmailAddress]) -> Vec<NamedFailure> {
        if self.verdict.is_doubtful {
            return Vec::new();
        }
        let named = failed.iter().map(|recipient| {
            let about = self.by_address.get(recipient).map(|entry| &self.entries[*entry]);
            (recipient, about.and_then(|entry| entry.origin.as_ref()), self.reason_of(recipient))
        });
        let read = self.entries.iter().filter(|entry| entry.has_failed(self.verdict)).flat_map(|entry| {
            entry.addresses.iter().map(|address| (address, entry.origin.as_ref(), entry.reason.clone()))
        });
        let mut seen = HashSet::new();
        let new = named
            .chain(read)
            .filter(|(address, _, _)| !self.concealing.contains(address) && seen.insert((*address).clone()));
        let failure = |(address, origin, reason): (&EmailAddress, Option<&EmailAddress>, String)| match origin {
            Some(origin) => NamedFailure { recipient: origin.clone(), final_recipient: Some(address.clone()), reason },
            None => NamedFailure { recipient: address.clone(), final_recipient: None, reason },
        };
        new.map(failure).take(MAX_FAILURES).collect()
    }

    /// Returns what the text says about a recipient; empty if it does not name it.
    pub(super) fn reason_of(&self, recipient: &EmailAddress) -> String {
        self.by_address.get(recipient).map(|entry| self.entries[*entry].reason.clone()).unwrap_or_default()
    }

    /// Returns whether the text proves the failure of a recipient.
    pub(super) fn has_failed(&self, recipient: &EmailAddress) -> bool {
        let about = self.by_address.get(recipient).map(|entry| &self.entries[*entry]);
        !self.verdict.is_doubtful && about.is_some_and(|entry| entry.has_failed(self.verdict))
    }

    /// Returns the addresses behind a list that failed, with reasons: `bad@far.example` before `(generated from list@…)`.
    pub(super) fn members_of(&self, list: &EmailAddress) -> Vec<(EmailAddress, String)> {
        let behind = self.entries.iter().filter(|entry| entry.origin.as_ref() == Some(list));
        let members =
            behind.flat_map(|entry| entry.addresses.iter().map(|address| (address.clone(), entry.reason.clone())));
        members.filter(|(address, _)| address != list).take(MAX_FAILURES).collect()
    }

    /// Returns whether a failed address behind a list is not named.
    pub(super) fn conceals_member_of(&self, list: &EmailAddress) -> bool {
        self.concealing.contains(list)
    }
}

impl Entry {
    const fn has_failed(&self, verdict: Verdict) -> bool {
        match self.class {
            Some(5) => true,
            Some(4) => self.is_listed || verdict.is_failure,
            Some(_) => false,
            None => self.is_listed,
        }
    }

    /// Some servers write the reply, or what happened, in a paragraph of its own. It is a reason, and proves nothing.
    fn take_reason(&mut self, paragraph: &[&str], distance: usize) {
        let lines: Vec<&str> = paragraph.iter().copied().filter(|line| !is_heading(line)).collect();
        if self.class.is_some() {
            return;
        }
        if reply_class(lines.iter().copied()).is_some_and(|class| class != 2) {
            self.reason = on_one_line(&lines);
            self.class = self.is_listed.then_some(5);
        } else if distance == 1 && self.reason.ends_with('.') {
            let words = [self.reason.as_str(), &on_one_line(&lines)].join(" ");
            self.reason = words.trim_end().chars().take(MAX_REASON).collect();
        }
    }
}

/// The state while a text is read.
struct Reading<'a> {
    verdict: Verdict,
    own: &'a [EmailAddress],
    entries: Vec<Entry>,
    concealing: HashSet<EmailAddress>,
    /// Whether a statement of failure precedes.
    has_statement: bool,
}

impl Reading<'_> {
    /// Reads a paragraph: lines in prose, and then the lines of each listed address.
    fn read(&mut self, paragraph: &[&str]) {
        let is_origin = |place: usize| place > 0 && paragraph[place - 1].trim_end().ends_with(" from");
        let in_list = |place: usize| list_line(paragraph[place]).filter(|_| !is_origin(place));
        let listed: Vec<_> = (0..paragraph.len()).map(in_list).collect();
        let mut start = listed.iter().position(Option::is_some).unwrap_or(listed.len());
        self.read_prose(&paragraph[..start]);
        let is_aside =
            start > 0 && !is_failure_statement(&on_one_line(&paragraph[..start])) && is_aside(paragraph[start - 1]);
        let next = |from: usize| (from..listed.len()).find(|place| listed[*place].is_some()).unwrap_or(listed.len());
        while let Some(Some(line)) = listed.get(start) {
            let end = next(start + 1);
            let other = paragraph[start..end].iter().position(|line| begins_session(line));
            self.read_listed(line, &paragraph[start..other.map_or(end, |other| start + other)], is_aside);
            start = end;
        }
    }

    fn read_prose(&mut self, lines: &[&str]) {
        let is_statement = is_failure_statement(&on_one_line(lines));
        let mentioned: Vec<Vec<EmailAddress>> = lines.iter().map(|line| self.foreign(named(line))).collect();
        let distinct: HashSet<&EmailAddress> = mentioned.iter().flatten().collect();
        if let (Some(address), 1) = (distinct.iter().next(), distinct.len()) {
            let address = (*address).clone();
            self.add(vec![address], None, is_statement, lines);
        } else {
            // Of several addresses, those fail that stand beside a reply.
            for (line, addresses) in lines.iter().zip(mentioned).filter(|(_, addresses)| !addresses.is_empty()) {
                let is_alone = addresses.len() == 1 && reply_class(std::iter::once(*line)).is_some();
                if is_alone {
                    self.add(addresses, None, false, &[line]);
                } else {
                    let is_listed = is_failure_statement(line);
                    self.entries.push(Entry { class: Some(0), is_listed, ..Entry::of(addresses, &[line]) });
                }
            }
        }
        self.has_statement |= is_statement;
    }

    fn read_listed(&mut self, line: &ListLine, lines: &[&str], is_aside: bool) {
        let origin = origin(&on_one_line(lines));
        if line.addresses.is_empty() {
            self.concealing.extend(origin);
            return;
        }
        let is_listed = !is_aside && (self.has_statement || (self.verdict.is_failure && line.is_bare));
        let addresses = self.foreign(line.addresses.clone());
        if !addresses.is_empty() {
            self.add(addresses, origin, is_listed, lines);
        }
        self.has_statement |= is_failure_statement(&on_one_line(&lines[1..]));
    }

    fn add(&mut self, addresses: Vec<EmailAddress>, origin: Option<EmailAddress>, is_listed: bool, lines: &[&str]) {
        self.entries.push(Entry { origin, is_listed, ..Entry::of(addresses, lines) });
    }

    fn foreign(&self, mut addresses: Vec<EmailAddress>) -> Vec<EmailAddress> {
        addresses.retain(|address| !self.own.contains(address));
        addresses
    }

    fn finished(mut self) -> NoticeText {
        let named: HashSet<&EmailAddress> = self.entries.iter().flat_map(|entry| &entry.addresses).collect();
        // A notice of failure that names a single address is about that one.
        if named.len() == 1 && self.verdict.is_failure {
            self.entries.iter_mut().for_each(|entry| entry.is_listed = true);
        }
        let mut by_address: HashMap<EmailAddress, usize> = HashMap::new();
        for (place, entry) in self.entries.iter().enumerate() {
            for address in &entry.addresses {
                // Of several, one with a reply says most, and one without a reason says least.
                let known = by_address.entry(address.clone()).or_insert(place);
                if rank(entry) > rank(&self.entries[*known]) {
                    *known = place;
                }
            }
        }
        NoticeText {
            entries: self.entries,
            by_address,
            concealing: self.concealing,
            verdict: self.verdict,
            beginning: String::new(),
        }
    }
}

impl Entry {
    fn of(addresses: Vec<EmailAddress>, lines: &[&str]) -> Self {
        let class = reply_class(lines.iter().copied());
        let start = lines.iter().position(|line| line.contains('@')).unwrap_or_default();
        let mut reason = on_one_line(&lines[start..]);
        // An address alone does not explain the failure.
        if !reason.split(' ').any(|word| !word.contains('@') && word.contains(char::is_alphabetic)) {
            reason.clear();
        }
        Self { addresses, origin: None, is_listed: false, class, reason }
    }
}

fn rank(entry: &Entry) -> u8 {
    match entry.class {
        Some(4 | 5) => 3,
        _ if entry.is_listed => 1 + u8::from(!entry.reason.is_empty()),
        _ => 0,
    }
}

/// Returns the recipients in a line of prose. A program behind an address has none itself: `(expanded from: <zoe@…>)`.
fn named(line: &str) -> Vec<EmailAddress> {
    let mentioned = mentions(line);
    if mentioned.is_empty() { origin(line).into_iter().collect() } else { mentioned }
}

/// Whether a transcript goes on with the session of another host: `... while talking to mx.far.example.:`.
fn begins_session(line: &str) -> bool {
    line.trim_start().starts_with("... ")
}

/// Whether dashes frame a line: `----- Transcript of session follows -----`.
fn is_heading(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("--") && line.ends_with("--")
}

/// Returns the list in `(generated from list@far.example)`, as Exim writes it, or in `(expanded from …)` of others.
fn origin(text: &str) -> Option<EmailAddress> {
    const BEFORE: [&str; 3] = ["(generated from", "(ultimately generated from", "(expanded from"];
    let rest = BEFORE.iter().find_map(|before| text.split_once(before))?.1;
    rest.split(')').next()?.split_whitespace().find_map(address)
}

/// Whether a line says where to ask.
fn is_aside(line: &str) -> bool {
    const ASIDES: [&str; 6] = ["contact", "assistance", "questions", "write to", "mail to", "send "];
    let line = line.to_lowercase();
    ASIDES.iter().any(|words| line.contains(words))
}

fn on_one_line(lines: &[&str]) -> String {
    let is_blank = |c: char| c.is_whitespace() || c.is_control();
    let words = lines.iter().flat_map(|line| line.split(is_blank)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(subject: &str, text: &str) -> Vec<(String, String)> {
        let found = NoticeText::of(subject, text, &["ann@here.example".parse().unwrap()]).failures(&[]);
        let shown = |failure: NamedFailure| {
            let behind = failure.final_recipient.map_or(String::new(), |behind| format!(" ({behind})"));
            (format!("{}{behind}", failure.recipient), failure.reason)
        };
        found.into_iter().map(shown).collect()
    }

    fn failed(subject: &str, text: &str) -> Vec<String> {
        read(subject, text).into_iter().map(|(recipient, _)| recipient).collect()
    }

    #[test]
    fn an_address_beside_a_permanent_reply_has_failed() {
        for text in [
            "Delivery to zoe@far.example failed: 550 5.1.1 No such user",
            "<zoe@far.example>: host mx.far.example said: 550 User unknown\n    (in reply to RCPT TO command)",
            "The message could not be delivered.\n\n>>> RCPT TO:<zoe@far.example>\n<<< 553 sorry, not here",
            ">>> RCPT TO:<zoe@far.example>\n<<< 553 not here\n>>> RCPT TO:<joe@far.example>\n<<< 250 ok",
            "zoe@far.example\n#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##",
            "zoe@far.example: 5.1.1 Unknown",
            "zoe@far.example: 550 no\njoe@far.example: 250 ok",
            "550 mail from ann@here.example for zoe@far.example refused",
        ] {
            assert_eq!(failed("", text), ["zoe@far.example"], "{text}");
        }
        assert_eq!(failed("", "554 no: from joe@far.example via localhost, to zoe@far.example"), ["zoe@far.example"]);
    }

    #[test]
    fn an_address_that_a_failure_names_has_failed() {
        let qmail = "Sorry, I wasn't able to deliver your message.\n\n<zoe@far.example>:\nNo mailbox here. (#5.1.1)\n\n\
            <joe@far.example>:\nI'm not going to try again.\n\n--- Below this line is a copy of the message.\n\n<eve@far.example>:\n550 no\n";
        let both = ["zoe@far.example", "joe@far.example"];
        assert_eq!(failed("failure notice", qmail), both);
        let listed = "It did not reach the following recipients:\n\n  * zoe@far.example\n  * joe@far.example\n\nQuestions? Contact:\nadmin@far.example";
        assert_eq!(failed("", listed), both);
        for (subject, text) in [
            ("", "Undeliverable to zoe@far.example"),
            ("", "Your message to zoe@far.example was refused.\n\nIt has NOT been delivered."),
            ("Returned mail", "Mailbox full: <zoe@far.example>"),
            (
                "",
                "Delivery failed. It was sent by ann@here.example to:\n\n\"Zoe\" <zoe@far.example>\n451 4.4.1 timeout",
            ),
            ("Delivery failure", "Sorry.\n\nzoe@far.example\n"),
        ] {
            assert_eq!(failed(subject, text), ["zoe@far.example"], "{text}");
        }
    }

    #[test]
    fn other_notices_fail_nobody() {
        for (subject, text) in [
            ("", "zoe@far.example: 550 try\n\nThis is a warning only. The message will be retried."),
            ("Warning: message delayed", "zoe@far.example: 550 earlier"),
            ("", "zoe@far.example: 451 4.7.1 Greylisted"),
            ("", "Dear zoe@far.example, your order 550 is on its way."),
            ("", "zoe@far.example has 512 bytes"),
            ("", "I am away. Write to zoe@far.example."),
            ("", "zoe@far.example\n\n550 5.1.1 elsewhere"),
            ("", "Received: from a\n550 5.1.1 <zoe@far.example> no"),
            ("", "Delivered successfully; the earlier reply 550 was retried: zoe@far.example"),
            ("", "Your message was relayed to zoe@far.example: 550"),
            ("", "zoe@far.example: 550 no, then 250 2.1.5 ok"),
            ("", "Delivery failed for some. To: zoe@far.example and joe@far.example"),
            ("", "Delivery failed.\n\n  To: zoe@far.example\n"),
            ("", "Delivery failed.\n\n> zoe@far.example: 550 5.1.1 no\n"),
            ("", "Delivery failed. Please contact zoe@far.example"),
            ("", "Delivery of mail from zoe@far.example failed: 550 5.7.1 <zoe@far.example>: Sender rejected"),
        ] {
            assert_eq!(failed(subject, text), [""; 0], "{subject}: {text}");
        }
    }

    #[test]
    fn a_header_field_and_the_text_complete_each_other() {
        let zoe: EmailAddress = "zoe@far.example".parse().unwrap();
        let of = |text: &str| NoticeText::of("", text, &[]);
        let text = of("Some error:\n\n  Zoe@far.example\n    Unrouteable address\n\njoe@far.example\n");
        assert_eq!(text.failures(std::slice::from_ref(&zoe))[0].reason, "Zoe@far.example Unrouteable address");
        assert_eq!(text.failures(&[]), []);
        assert_eq!(of("No action is required.\n\nzoe@far.example").failures(&[zoe]), []);
    }

    #[test]
    fn lists_are_named_with_the_addresses_behind_them() {
        let text = "These failed:\n\n  bad@c.example\n    (generated from list@b.example)\n    550 no\n\n  worse@c.example\n    (ultimately generated from list@b.example)\n    550 no";
        assert_eq!(failed("", text), ["list@b.example (bad@c.example)", "list@b.example (worse@c.example)"]);
        let expanded = "<bad@c.example> (expanded from\n    <list@b.example>): host c.example said: 550 no";
        assert_eq!(failed("", expanded), ["list@b.example (bad@c.example)"]);
        let concealed =
            "This address failed:\n\n  an undisclosed address\n    (generated from list@b.example)\n    550 no";
        assert_eq!(failed("", concealed), [""; 0]);
        assert!(NoticeText::of("", concealed, &[]).conceals_member_of(&"list@b.example".parse().unwrap()));
    }

    #[test]
    fn the_reason_may_stand_in_the_next_paragraph() {
        let dma = "There was an error delivering your mail to <zoe@far.example>.\n\nmx.far.example did not like our RCPT TO:\n550 5.1.1 unknown\n\nMessage headers follow.";
        let reason = "mx.far.example did not like our RCPT TO: 550 5.1.1 unknown";
        assert_eq!(read("Mail delivery failed", dma), [("zoe@far.example".to_owned(), reason.to_owned())]);
        let dma = "There was an error delivering your mail to <zoe@far.example>.\n\nDNS lookup failure: no such host\n\nMessage headers follow.";
        let reason = "There was an error delivering your mail to <zoe@far.example>. DNS lookup failure: no such host";
        assert_eq!(read("Mail delivery failed", dma), [("zoe@far.example".to_owned(), reason.to_owned())]);
    }

    #[test]
    fn a_transcript_says_more_than_a_list() {
        let text = NoticeText::of(
            "Returned mail: see transcript for details",
            "----- The following addresses had permanent fatal errors -----\n<zoe@far.example>\n<joe@far.example>\n\
             <ann@far.example>\n    (reason: No space left on device)\n\n\
             ----- Transcript of session follows -----\n<zoe@far.example>... Deferred: Connection refused by mx.far.example.\n\
             ... while talking to mx.other.example.:\n>>> DATA\n<<< 554 5.7.1 no\n\
             <joe@far.example>... Deferred: Name server: far.example.: host name lookup failure\nIt was not delivered for 5 days",
            &[],
        );
        for (address, reason) in [
            ("zoe@far.example", "<zoe@far.example>... Deferred: Connection refused by mx.far.example."),
            (
                "joe@far.example",
                "<joe@far.example>... Deferred: Name server: far.example.: host name lookup failure It was not delivered for 5 days",
            ),
            ("ann@far.example", "<ann@far.example> (reason: No space left on device)"),
        ] {
            assert_eq!(text.reason_of(&address.parse().unwrap()), reason);
        }
    }

    #[test]
    fn of_several_lines_the_one_about_the_failure_has_the_reason() {
        let text = NoticeText::of(
            "failure notice",
            "Sorry.\n\nIntended: <zoe@far.example>, <joe@far.example>\nReason: Some recipients failed: <zoe@far.example>, <joe@far.example>",
            &[],
        );
        let reason = "Reason: Some recipients failed: <zoe@far.example>, <joe@far.example>";
        assert_eq!(text.reason_of(&"joe@far.example".parse().unwrap()), reason);
    }

    #[test]
    fn a_program_behind_an_address_is_a_delivery_to_it() {
        let text = "----- The following addresses had permanent fatal errors -----\n\"|exit 67\"\n    (reason: User unknown)\n\
            \x20   (expanded from: <zoe@far.example>)\n\n----- Transcript of session follows -----\n550 5.1.1 \"|exit 67\"... User unknown";
        let reason = "550 5.1.1 \"|exit 67\"... User unknown";
        assert_eq!(read("Returned mail: see transcript", text), [("zoe@far.example".to_owned(), reason.to_owned())]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(<|>|\u{1}|a@b.example|list@b.example|550 |5\\.1\\.1|#|:|\n|could not be delivered|[(]generated from |to |\\PC){0,60}") {
            let known = ["a@b.example", "list@b.example"];
            let notice = NoticeText::of("", &text, &[]);
            for failure in notice.failures(&[]) {
                prop_assert!(failure.reason.chars().count() <= MAX_REASON && !failure.reason.contains(char::is_control));
                prop_assert!(text.to_lowercase().contains(failure.recipient.as_str()) || !known.contains(&failure.recipient.as_str()));
            }
            let _ = notice.members_of(&"list@b.example".parse().unwrap());
            let delayed = NoticeText::of("", &format!("It will be retried.\n\n{text}"), &[]);
            prop_assert_eq!(delayed.failures(&[]), []);
        }
    }
}
