//! Every log line contains text that strangers choose: client names, Message-IDs, subjects, addresses, server
//! replies, login names. A model that ignores such text computes the expected events for each message.
//!
//! The default run is short. `PROPTEST_CASES=100000` runs a long one.

use std::collections::{BTreeSet, HashMap};

use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::support::{Reader, TestLog};
use crate::log_follower::fact::{Fact, fact};
use crate::log_follower::line::Line;
use crate::log_follower::timestamp::TimeReader;
use mailapi_model::{DeliveryEvent, InboundOutcome, Timestamp};

/// The number of submitted messages in a case, and of strangers' messages.
const OURS: usize = 2;
const THEIRS: usize = 3;
/// Longer than the limit for a line.
const LONG: usize = 2000;

/// A source of random choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }

    /// Returns text that a stranger writes: parts of lines about messages that the stranger has seen.
    fn text(&mut self) -> String {
        let (ours, theirs) = (self.roll(OURS), self.roll(THEIRS));
        let id = if self.roll(2) == 0 { our_id(ours) } else { their_id(theirs) };
        let to = self.pick(&["eve0@evil.example", "bob@example.org", "eve1@evil.example"]);
        let status =
            self.pick(&["sent (250 Ok)", "bounced (forged)", "deferred (forged)", "sent (forwarded as B00001)"]);
        let delivery = format!("{id}: to=<{to}>, relay=none, delay=1, delays=1/0/0/0, dsn=5.1.1, status={status}");
        let pieces = [
            delivery.clone(),
            format!("Nov 21 08:00:09 mx postfix/smtp[7]: {delivery}"),
            format!(
                "Nov 21 08:00:09 mx postfix/qmgr[7]: {id}: from=<ann@example.org>, status=expired, returned to sender"
            ),
            format!("{id}: removed"),
            format!("Nov 21 08:00:09 mx postfix/postsuper[7]: {id}: removed"),
            format!("Nov 21 08:00:09 mx postfix/pickup[7]: B00009: uid=0 from=<ann@example.org> orig_id={id}"),
            format!("queued as {id}"),
            format!("forwarded as {id}"),
            format!("{}@example.org", message_id(ours)),
            format!("<{}@example.org>", message_id(ours)),
            format!("message-id=<{}@example.org>", message_id(ours)),
            format!("; from=<ann@example.org> to=<{to}> proto=ESMTP helo=<x>"),
            format!("status={status}), dsn=2.0.0 \"y\" said (z)"),
            ", sasl_method=PLAIN, sasl_username=ann".to_owned(),
            "Suppressed 7 messages from postfix@-.service".to_owned(),
            "Nov 21 08:00:09 mx systemd-journald[1]: Suppressed 7 messages from postfix@-.service".to_owned(),
            "rsyslogd: imuxsock[pid 7]: 12 messages lost due to rate-limiting".to_owned(),
            "daemon started -- version 3.7.11".to_owned(),
            "X-Spam-Flag: YES".to_owned(),
            format!("<22>1 2026-11-21T08:00:09Z mx postfix/postsuper 7 - - {id}: removed"),
            format!("{id}: placed on hold"),
            format!("warning: maildrop/B00009: error writing {id}: no recipients specified"),
            "warning: process /usr/lib/postfix/sbin/smtp pid 7 killed by signal 9".to_owned(),
            "Deleted: 7 messages".to_owned(),
            "stopping the Postfix mail system".to_owned(),
            "milter triggers DISCARD action; from=<ann@example.org> to=<bob@example.org> proto=ESMTP".to_owned(),
            "<>[]()\",=: é\\".to_owned(),
        ];
        let count = 1 + self.roll(3);
        (0..count)
            .map(|_| pieces[self.roll(pieces.len())].as_str())
            .collect::<Vec<_>>()
            .join(self.pick(&["", " ", ": "]))
    }

    /// Returns a local part as Postfix logs it.
    fn local_part(&mut self) -> String {
        match self.roll(2) {
            0 => "bob".to_owned(),
            _ => format!("\"{}\"", self.text().replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }
}

/// The inode numbers in the queue ids differ, since all these messages are in the queue together.
fn our_id(n: usize) -> String {
    format!("A00001{n}")
}

fn their_id(n: usize) -> String {
    format!("B00002{n}")
}

fn filtered_id(n: usize) -> String {
    format!("C00003{n}")
}

fn requeued_id(n: usize) -> String {
    format!("D00004{n}")
}

fn message_id(n: usize) -> String {
    format!("67e55044-10b1-426f-9247-bb680e5fe0c{n}")
}

/// Lines in order, with the expected events.
#[derive(Default)]
struct Case {
    begun: Vec<String>,
    /// For each message, the lines after its first ones.
    rest: Vec<Vec<String>>,
    /// Queue id, recipient, outcome and response of the expected deliveries; whether the next hop named a queue id.
    earned: HashMap<[String; 4], bool>,
    accepted: usize,
    marked_as_spam: usize,
    has_their_failure: bool,
}

/// The state of a stranger's message.
struct Theirs {
    id: String,
    headers: Vec<String>,
    from: String,
    helo: String,
    /// The text of a spam filter's header, which cleanup(8) logs each time that it reads the message.
    mark: Option<String>,
}

impl Theirs {
    /// Returns the end of the listener's lines.
    fn envelope(&self) -> String {
        let Self { from, helo, .. } = self;
        format!("from mx.evil.example[203.0.113.7]; from=<{from}> to=<bob@example.org> proto=ESMTP helo=<{helo}>")
    }

    /// Returns a milter's decision at the end of the message.
    fn by_milter(&self, action: &str, reply: &str) -> String {
        let Self { id, from, helo, .. } = self;
        let at = format!("{id}: {action}: END-OF-MESSAGE from mx.evil.example[203.0.113.7]: {reply}");
        line("postfix/cleanup", &format!("{at}; from=<{from}> to=<bob@example.org> proto=ESMTP helo=<{helo}>"))
    }

    /// Returns the lines with which it enters the queue under its current id.
    fn queued(&self) -> Vec<String> {
        let Self { id, headers, from, .. } = self;
        let named = headers.iter().map(|header| line("postfix/cleanup", &format!("{id}: message-id={header}")));
        let header = self.mark.as_ref().map(|text| format!("header X-Spam-Flag: YES {text} {}", self.envelope()));
        let mark = header.map(|header| line("postfix/cleanup", &format!("{id}: warning: {header}")));
        let queued = line("postfix/qmgr", &format!("{id}: from=<{from}>, size=1, nrcpt=1 (queue active)"));
        named.chain(mark).chain([queued]).collect()
    }

    fn delivery(&self, status: &str, response: &str) -> String {
        let to = format!("{}: to=<bob@example.org>, relay=d[/l], delay=1, delays=1/0/0/0, dsn=2.0.0", self.id);
        line("postfix/lmtp", &format!("{to}, status={status} ({response})"))
    }
}

/// Rewrites a line in the form of another logger.
fn in_form(form: usize, line: &str) -> String {
    let parts = line.strip_prefix("Nov 21 08:00:02 mx ").and_then(|rest| rest.split_once("[7]: "));
    let Some((tag, text)) = parts else { return line.to_owned() };
    match form {
        1 => format!("<22>1 2026-11-21T08:00:02.000000+00:00 mx {tag} 7 - - {text}"),
        2 => format!("2026-11-21T08:00:02.000000+00:00 mx {tag}[7]: {text}"),
        3 => format!("2026-11-21T08:00:02.000000000Z stdout F {line}"),
        _ => line.to_owned(),
    }
}

fn line(tag: &str, text: &str) -> String {
    format!("Nov 21 08:00:02 mx {tag}[7]: {text}\n")
}

impl Case {
    fn of(dice: &mut Dice) -> Self {
        let mut case = Self::default();
        (0..OURS).for_each(|n| case.ours(n, dice));
        (0..THEIRS).for_each(|n| case.theirs(n, dice));
        case.noise(dice);
        case
    }

    fn ours(&mut self, n: usize, dice: &mut Dice) {
        let id = our_id(n);
        self.begun.push(line("postfix/api/smtpd", &format!("{id}: client=unknown[127.0.0.1]")));
        self.begun.push(line("postfix/cleanup", &format!("{id}: message-id=<{}@example.org>", message_id(n))));
        let queued = format!("{id}: from=<ann@example.org>, size=1, nrcpt=2 (queue active)");
        self.begun.push(line("postfix/qmgr", &queued));
        let mut lines = Vec::new();
        // In the end each recipient has its own outcome, or the operator or Postfix gives both up.
        let given_up = *dice.pick(&[&None, &None, &None, &Some("expired"), &Some("bounced")]);
        for to in [format!("eve{n}@evil.example"), "bob@example.org".to_owned()] {
            let last = *dice.pick(&[&"sent", &"bounced"]);
            let tries = if given_up.is_some() { vec!["deferred"] } else { vec!["deferred", last] };
            let mut said = String::new();
            for (round, status) in tries.into_iter().enumerate() {
                // The stranger's server chooses its reply text; the local server does not.
                let is_theirs = to.starts_with("eve");
                said = if is_theirs { format!("250 {round} {}", dice.text()) } else { format!("250 {round} Saved") };
                let ours = *dice.pick(&[&"lmtp", &"virtual", &"local", &"pipe", &"error"]);
                let (daemon, relay) =
                    if is_theirs { ("smtp", "mx.evil.example[203.0.113.7]:25") } else { (ours, "d[/l]") };
                if is_theirs {
                    let host = format!("{id}: host {relay} said: 450 {} (in reply to RCPT TO command)", dice.text());
                    lines.push(line("postfix/smtp", &host));
                }
                let text =
                    format!("{id}: to=<{to}>, relay={relay}, delay=1, delays=1/0/0/0, dsn=2.0.0, status={status}");
                lines.push(line(&format!("postfix/{daemon}"), &format!("{text} ({said})")));
                let names_another = is_theirs && status == "sent" && said.contains("queued as ");
                self.earned.insert([id.clone(), to.clone(), status.to_owned(), said.clone()], names_another);
            }
            if let Some(outcome) = given_up {
                let said =
                    if outcome == "expired" { said } else { "deleted from the queue by the operator".to_owned() };
                self.earned.insert([id.clone(), to, outcome.to_owned(), said], false);
            }
        }
        match given_up {
            Some("expired") => {
                let expired = format!("{id}: from=<ann@example.org>, status=expired, returned to sender");
                lines.extend([line("postfix/qmgr", &expired), line("postfix/qmgr", &format!("{id}: removed"))]);
            }
            Some(_) => lines.push(line("postfix/postsuper", &format!("{id}: removed"))),
            None => lines.push(line("postfix/qmgr", &format!("{id}: removed"))),
        }
        self.rest.push(lines);
    }

    fn theirs(&mut self, n: usize, dice: &mut Dice) {
        let headers: Vec<String> = (0..dice.roll(3)).map(|_| dice.text()).collect();
        let from = format!("{}@evil.example", dice.local_part());
        let mark = (dice.roll(3) == 0).then(|| dice.text());
        let is_spam = mark.is_some();
        let mut message = Theirs { id: their_id(n), headers, from, helo: dice.text(), mark };
        let (id, envelope) = (message.id.clone(), message.envelope());
        let mut lines = vec![line("postfix/smtpd", &format!("{id}: client=mx.evil.example[203.0.113.7]"))];
        if dice.roll(4) == 0 {
            let to = dice.local_part();
            let reply = format!("550 5.1.1 <{to}@example.org>: {}", dice.text());
            let reject = format!("{id}: reject: RCPT from mx.evil.example[203.0.113.7]: {reply}");
            let (from, helo) = (&message.from, &message.helo);
            let envelope = format!("from=<{from}> to=<{to}@example.org> proto=ESMTP helo=<{helo}>");
            lines.push(line("postfix/smtpd", &format!("{reject}; {envelope}")));
        }
        let mut queued = message.queued();
        let active = queued.pop();
        lines.extend(queued);
        let action = dice.pick(&["warning", "info", "replace", "hold", "prepend", "redirect", "filter"]);
        lines.push(line("postfix/cleanup", &format!("{id}: {action}: header Subject: {} {envelope}", dice.text())));
        if let Some(end) = Self::rejected_on_arrival(&message, dice) {
            self.has_their_failure |= [": removed", "discard: "].iter().any(|mark| end.contains(mark));
            lines.push(end);
            return self.rest.push(lines);
        }
        lines.extend(active);
        if dice.roll(2) == 0 {
            Self::filter(&mut message, filtered_id(n), &mut lines);
        }
        if dice.roll(4) == 0 {
            Self::requeue(&mut message, requeued_id(n), &mut lines);
        }
        let is_delivered = Self::end(&message, dice, &mut lines);
        self.accepted += usize::from(is_delivered && !is_spam);
        self.marked_as_spam += usize::from(is_delivered && is_spam);
        self.has_their_failure |= !is_delivered;
        self.rest.push(lines);
    }

    /// Returns the last line of a message that never enters the queue, or leaves it unsent.
    fn rejected_on_arrival(message: &Theirs, dice: &mut Dice) -> Option<String> {
        let (id, envelope) = (&message.id, message.envelope());
        let of_header = |action: &str, text: &str, reply: &str| {
            Some(line("postfix/cleanup", &format!("{id}: {action}: header Subject: {text} {envelope}: {reply}")))
        };
        match dice.roll(20) {
            0 => of_header("discard", &dice.text(), &format!("no {id}")),
            1 => of_header("reject", &dice.text(), &format!("5.7.1 {}", dice.text())),
            2 => Some(message.by_milter("milter-discard", "milter triggers DISCARD action")),
            3 => Some(message.by_milter("milter-reject", &format!("5.7.1 {}", dice.text()))),
            4 => {
                let hold = message.by_milter("milter-hold", "milter triggers HOLD action");
                Some(hold + &line("postfix/postsuper", &format!("{id}: removed")))
            }
            5 => {
                let hold = line("postfix/postsuper", &format!("{id}: placed on hold"));
                Some(hold + &line("postfix/postsuper", &format!("{id}: removed")))
            }
            _ => None,
        }
    }

    /// A content filter returns the message under another id.
    fn filter(message: &mut Theirs, next: String, lines: &mut Vec<String>) {
        let id = std::mem::replace(&mut message.id, next);
        lines.push(line("postfix/smtpd", &format!("{}: client=localhost[127.0.0.1]", message.id)));
        lines.extend(message.queued());
        let submitted_ids = "relay=127.0.0.1[127.0.0.1]:10024, delay=1, delays=1/0/0/0, dsn=2.0.0";
        let said = format!("250 2.0.0 Ok: queued as {}", message.id);
        lines.push(line("postfix/smtp", &format!("{id}: to=<bob@example.org>, {submitted_ids}, status=sent ({said})")));
        lines.push(line("postfix/qmgr", &format!("{id}: removed")));
    }

    /// The operator requeues the message.
    fn requeue(message: &mut Theirs, next: String, lines: &mut Vec<String>) {
        let id = std::mem::replace(&mut message.id, next);
        lines.push(line("postfix/postsuper", &format!("{id}: requeued")));
        let picked_up = format!("{}: uid=102 from=<{}> orig_id={id}", message.id, message.from);
        lines.push(line("postfix/pickup", &picked_up));
        lines.extend(message.queued());
        // The attempt under the former id ends.
        let missing = "No such file or directory";
        lines.push(line("postfix/smtp", &format!("warning: open active {id}: {missing}")));
        let gone = format!("warning: qmgr_active_done_3_generic: remove {id} from active: {missing}");
        lines.push(line("postfix/qmgr", &gone));
    }

    /// Delivers the message to a local mailbox. Returns whether that succeeded.
    fn end(message: &Theirs, dice: &mut Dice, lines: &mut Vec<String>) -> bool {
        let (id, from) = (&message.id, &message.from);
        let removed = |daemon| line(&format!("postfix/{daemon}"), &format!("{id}: removed"));
        let end = dice.roll(8);
        let last = match end {
            0 | 1 => [message.delivery("bounced", &dice.text()), removed("qmgr")],
            2 => [message.delivery("deferred", &dice.text()), removed("postsuper")],
            3 => {
                lines.push(message.delivery("deferred", &dice.text()));
                let expired = format!("{id}: from=<{from}>, status=expired, returned to sender");
                [line("postfix/qmgr", &expired), removed("qmgr")]
            }
            _ => [message.delivery("sent", &dice.text()), removed("qmgr")],
        };
        lines.extend(last);
        end > 3
    }

    /// Adds lines about no message.
    fn noise(&mut self, dice: &mut Dice) {
        let mut lines = Vec::new();
        for _ in 0..dice.roll(6) {
            let (text, to) = (dice.text(), dice.local_part());
            let reject = format!(
                "reject: RCPT from unknown[203.0.113.7]: 550 5.1.1 <{to}@example.org>: {text}; from=<{to}@x.example>"
            );
            let envelope = format!("from=<{to}@x.example> to=<{to}@example.org> proto=ESMTP helo=<{text}>");
            lines.push(match dice.roll(10) {
                0 => {
                    line("postfix/smtpd", &format!("NOQUEUE: {reject} to=<{to}@example.org> proto=ESMTP helo=<{text}>"))
                }
                1 => line("postfix/smtpd", &format!("warning: non-SMTP command from unknown[203.0.113.7]: {text}")),
                2 => line(
                    "postfix/smtpd",
                    &format!("warning: unknown[203.0.113.7]: SASL LOGIN authentication failed: {text}"),
                ),
                3 => line("dovecot", &format!("imap-login: Login aborted: user=<{text}>, rip=203.0.113.7")),
                4 => format!("Nov 21 08:00:02 mx dovecot: imap-login: user=<{text}>\n"),
                // A stranger chooses where the rest of a long line begins.
                5 => line("dovecot", &format!("imap-login: user=<{}{text}>", "x".repeat(LONG - dice.roll(120)))),
                6 => line("postfix/postscreen", &format!("NOQUEUE: {reject}, to=<{to}@example.org>, helo=<{text}>")),
                7 => {
                    let refused =
                        format!("milter-reject: RCPT from unknown[203.0.113.7]: 550 5.7.1 {text}; {envelope}");
                    line("postfix/smtpd", &format!("NOQUEUE: {refused}"))
                }
                8 => line(
                    "postfix/smtpd",
                    &format!("improper command pipelining after EHLO from x[203.0.113.7]: {text}"),
                ),
                _ => line("nginx", &format!("203.0.113.7 GET /{}\u{0}{text}", "x".repeat(LONG + dice.roll(300)))),
            });
        }
        self.rest.push(lines);
    }

    /// Returns all lines in random order, keeping the order within each message.
    fn mixed(&self, dice: &mut Dice) -> Vec<String> {
        let form = dice.roll(4);
        let mut lines = self.begun.clone();
        let mut rest: Vec<_> = self.rest.iter().map(|lines| lines.iter()).collect();
        while !rest.is_empty() {
            let from = dice.roll(rest.len());
            match rest[from].next() {
                Some(line) => lines.push(line.clone()),
                None => drop(rest.remove(from)),
            }
        }
        lines.into_iter().map(|line| line.split_inclusive('\n').map(|line| in_form(form, line)).collect()).collect()
    }
}

fn key(event: &DeliveryEvent) -> [String; 4] {
    let outcome = event.outcome.as_str().to_owned();
    [event.queue_id.0.clone(), event.recipient.as_str().to_owned(), outcome, event.response.clone()]
}

/// Reads the lines of a case and compares the events with the expected ones. The reader restarts `restarts` times.
fn compare(seed: u64, restarts: usize) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed);
    let case = Case::of(&mut dice);
    let lines = case.mixed(&mut dice);
    let mut log = TestLog::new();
    log.settings.max_line_bytes = LONG;
    log.settings.save_every_bytes = 1;
    let mut reader = Reader::new(&log);
    for part in lines.chunks(lines.len() / (restarts + 1) + 1) {
        log.append(&part.concat());
        reader.read_all();
        reader.restart(&log);
    }
    let shown = || format!("seed {seed}\n{}\n{:#?}", lines.concat(), reader.events);
    let mut left = case.earned.clone();
    for event in reader.events.iter().filter(|event| event.message_id.is_some_and(is_ours)) {
        prop_assert!(left.remove(&key(event)).is_some(), "{:?} was not earned: {}", key(event), shown());
    }
    // An acceptance by a next hop that names a failed message can be neither proved nor refuted.
    left.retain(|_, names_another| !(*names_another && case.has_their_failure));
    prop_assert!(left.is_empty(), "{left:?} is missing: {}", shown());
    prop_assert!(reader.discarded.is_empty(), "{:?}: {}", reader.discarded, shown());
    prop_assert!(reader.gaps().is_empty(), "{:?}: {}", reader.gaps(), shown());
    let count = |outcome| reader.inbound.iter().filter(|event| event.outcome == outcome).count();
    let inbound = (count(InboundOutcome::Accepted), count(InboundOutcome::Spam));
    prop_assert_eq!(inbound, (case.accepted, case.marked_as_spam), "{}", shown());
    Ok(())
}

proptest! {
    #[test]
    fn no_text_of_a_stranger_makes_an_event(seed in 1..u64::MAX, restarts in 0..3_usize) {
        compare(seed, restarts)?;
    }
}

/// A next hop names a message that the operator has requeued meanwhile.
#[test]
fn an_acceptance_that_names_a_requeued_message_counts() {
    for restarts in 0..3 {
        compare(3_045_341_702_813_993_472, restarts).unwrap();
    }
}

fn is_ours(id: mailapi_model::MessageId) -> bool {
    (0..OURS).any(|n| id.to_string() == message_id(n))
}

/// Returns the name of a fact in [`FORMS`]. A new kind of fact needs lines above, and an entry there.
const fn kind(fact: &Fact<'_>) -> &'static str {
    match fact {
        Fact::Begins { authenticated: true, .. } => "begins, logged in",
        Fact::Begins { loopback: true, .. } => "begins, on this machine",
        Fact::Begins { .. } => "begins",
        Fact::PickedUp { former: Some(_) } => "picked up, requeued",
        Fact::PickedUp { former: None } => "picked up",
        Fact::MessageId(_) => "Message-ID",
        Fact::Queued { .. } => "queued",
        Fact::Delivery(_) => "delivery",
        Fact::Expired => "expired",
        Fact::Removed => "removed",
        Fact::Deleted => "deleted",
        Fact::FileGone => "file gone",
        Fact::Unopened => "unopened",
        Fact::Rejected(rejection) if rejection.of_recipient => "recipient rejected",
        Fact::Rejected(_) => "rejected",
        Fact::Discarded { .. } => "discarded",
        Fact::Held => "held",
        Fact::MarkedAsSpam => "marked as spam",
    }
}

/// Each daemon with the facts that are parsed from it. Two are missing because no stranger can cause them: a login,
/// and mail by sendmail(1).
const FORMS: [(&str, &[&str]); 12] = [
    ("smtpd", &["begins", "begins, on this machine", "recipient rejected"]),
    ("postscreen", &["recipient rejected"]),
    ("pickup", &["picked up, requeued"]),
    ("cleanup", &["Message-ID", "rejected", "discarded", "held", "marked as spam"]),
    ("qmgr", &["queued", "expired", "removed", "file gone"]),
    ("postsuper", &["deleted", "held"]),
    ("smtp", &["delivery", "unopened"]),
    ("lmtp", &["delivery"]),
    ("virtual", &["delivery"]),
    ("local", &["delivery"]),
    ("pipe", &["delivery"]),
    ("error", &["delivery"]),
];

#[test]
fn the_cases_have_each_line_that_is_understood() {
    let mut times = TimeReader::new(TimeZone::UTC);
    let mut seen = BTreeSet::new();
    for seed in 1..300 {
        let mut dice = Dice(seed * 0x9E37_79B9);
        for text in Case::of(&mut dice).mixed(&mut dice).iter().flat_map(|lines| lines.lines()) {
            let now = Timestamp::from_seconds(1_795_300_000);
            let Some(line) = Line::of_file(text, "postfix", &mut times, now, None) else { continue };
            if let Some((_, fact)) = fact(&line) {
                seen.insert((line.daemon.to_owned(), kind(&fact)));
            }
        }
    }
    let forms = FORMS.iter().flat_map(|(daemon, kinds)| kinds.iter().map(|kind| ((*daemon).to_owned(), *kind)));
    assert_eq!(seen, forms.collect());
}
