//! Every log line contains text that strangers choose: client names, Message-IDs, subjects, addresses, server replies,
//! log-in names. A model that ignores such text computes the expected events for each message.
//!
//! The ordinary run is short. `PROPTEST_CASES=100000` makes a long one.

use std::collections::HashMap;

use proptest::prelude::*;

use super::support::{Reader, Scene};
use mailapi_model::{DeliveryEvent, InboundOutcome};

/// Number of our messages in a case, and of strangers' messages.
const OURS: usize = 2;
const THEIRS: usize = 3;
/// Longer than the limit for a line.
const LONG: usize = 2000;

/// Random choices.
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

    /// Text that a stranger writes: parts of lines about messages that the stranger has seen.
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
            "<>[]()\",=: é\\".to_owned(),
        ];
        let count = 1 + self.roll(3);
        (0..count)
            .map(|_| pieces[self.roll(pieces.len())].as_str())
            .collect::<Vec<_>>()
            .join(self.pick(&["", " ", ": "]))
    }

    /// A local part as Postfix logs it.
    fn local_part(&mut self) -> String {
        match self.roll(2) {
            0 => "bob".to_owned(),
            _ => format!("\"{}\"", self.text().replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }
}

fn our_id(n: usize) -> String {
    format!("A0000{n}")
}

fn their_id(n: usize) -> String {
    format!("B0000{n}")
}

fn filtered_id(n: usize) -> String {
    format!("C0000{n}")
}

fn message_id(n: usize) -> String {
    format!("67e55044-10b1-426f-9247-bb680e5fe0c{n}")
}

/// Lines in order, with the expected events.
#[derive(Default)]
struct Case {
    begun: Vec<String>,
    /// For each message, from then on.
    rest: Vec<Vec<String>>,
    /// Queue id, recipient, outcome and response of our deliveries; whether the next hop named a queue id.
    earned: HashMap<[String; 4], bool>,
    accepted: usize,
    has_their_failure: bool,
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
        for to in [format!("eve{n}@evil.example"), "bob@example.org".to_owned()] {
            for (round, status) in ["deferred", *dice.pick(&[&"sent", &"bounced"])].into_iter().enumerate() {
                // Their server chooses its reply text; our server does not.
                let is_theirs = to.starts_with("eve");
                let said =
                    if is_theirs { format!("250 {round} {}", dice.text()) } else { format!("250 {round} Saved") };
                let (daemon, relay) =
                    if is_theirs { ("smtp", "mx.evil.example[203.0.113.7]:25") } else { ("lmtp", "d[/l]") };
                let text =
                    format!("{id}: to=<{to}>, relay={relay}, delay=1, delays=1/0/0/0, dsn=2.0.0, status={status}");
                lines.push(line(&format!("postfix/{daemon}"), &format!("{text} ({said})")));
                let names_another = is_theirs && status == "sent" && said.contains("queued as ");
                self.earned.insert([id.clone(), to.clone(), status.to_owned(), said], names_another);
            }
        }
        lines.push(line("postfix/qmgr", &format!("{id}: removed")));
        self.rest.push(lines);
    }

    fn theirs(&mut self, n: usize, dice: &mut Dice) {
        let id = their_id(n);
        let headers: Vec<String> = (0..dice.roll(3)).map(|_| dice.text()).collect();
        let from = format!("{}@evil.example", dice.local_part());
        let mut lines = vec![line("postfix/smtpd", &format!("{id}: client=mx.evil.example[203.0.113.7]"))];
        for header in &headers {
            lines.push(line("postfix/cleanup", &format!("{id}: message-id={header}")));
        }
        let helo = dice.text();
        let envelope =
            format!("from mx.evil.example[203.0.113.7]; from=<{from}> to=<bob@example.org> proto=ESMTP helo=<{helo}>");
        let action = dice.pick(&["warning", "info", "replace", "hold"]);
        lines.push(line("postfix/cleanup", &format!("{id}: {action}: header Subject: {} {envelope}", dice.text())));
        if dice.roll(4) == 0 {
            let discard = format!("{id}: discard: header Subject: {} {envelope}: no {id}", dice.text());
            lines.push(line("postfix/cleanup", &discard));
            return self.rest.push(lines);
        }
        let is_filtered = dice.roll(2) == 0;
        let last = if is_filtered { filtered_id(n) } else { id.clone() };
        lines.push(line("postfix/qmgr", &format!("{id}: from=<{from}>, size=1, nrcpt=1 (queue active)")));
        if is_filtered {
            lines.push(line("postfix/smtpd", &format!("{last}: client=localhost[127.0.0.1]")));
            for header in &headers {
                lines.push(line("postfix/cleanup", &format!("{last}: message-id={header}")));
            }
            lines.push(line("postfix/qmgr", &format!("{last}: from=<{from}>, size=1, nrcpt=1 (queue active)")));
            let handed = "relay=127.0.0.1[127.0.0.1]:10024, delay=1, delays=1/0/0/0, dsn=2.0.0";
            let handed = format!("{id}: to=<bob@example.org>, {handed}, status=sent (250 2.0.0 Ok: queued as {last})");
            lines.push(line("postfix/smtp", &handed));
            lines.push(line("postfix/qmgr", &format!("{id}: removed")));
        }
        let status = *dice.pick(&[&"sent", &"sent", &"bounced"]);
        let to = format!("{last}: to=<bob@example.org>, relay=d[/l], delay=1, delays=1/0/0/0, dsn=2.0.0");
        lines.push(line("postfix/lmtp", &format!("{to}, status={status} (250 Saved)")));
        lines.push(line("postfix/qmgr", &format!("{last}: removed")));
        self.accepted += usize::from(status == "sent");
        self.has_their_failure |= status != "sent";
        self.rest.push(lines);
    }

    /// Lines about no message.
    fn noise(&mut self, dice: &mut Dice) {
        let mut lines = Vec::new();
        for _ in 0..dice.roll(6) {
            let (text, to) = (dice.text(), dice.local_part());
            let reject = format!(
                "reject: RCPT from unknown[203.0.113.7]: 550 5.1.1 <{to}@example.org>: {text}; from=<{to}@x.example>"
            );
            lines.push(match dice.roll(7) {
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
                _ => line("nginx", &format!("203.0.113.7 GET /{}\u{0}{text}", "x".repeat(LONG + dice.roll(300)))),
            });
        }
        self.rest.push(lines);
    }

    /// All lines, mixed.
    fn mixed(&self, dice: &mut Dice) -> Vec<String> {
        let mut lines = self.begun.clone();
        let mut rest: Vec<_> = self.rest.iter().map(|lines| lines.iter()).collect();
        while !rest.is_empty() {
            let from = dice.roll(rest.len());
            match rest[from].next() {
                Some(line) => lines.push(line.clone()),
                None => drop(rest.remove(from)),
            }
        }
        lines
    }
}

fn key(event: &DeliveryEvent) -> [String; 4] {
    let outcome = event.outcome.as_str().to_owned();
    [event.queue_id.0.clone(), event.recipient.as_str().to_owned(), outcome, event.response.clone()]
}

proptest! {
    #[test]
    fn no_text_of_a_stranger_makes_an_event(seed in 1..u64::MAX, restarts in 0..3_usize) {
        let mut dice = Dice(seed);
        let case = Case::of(&mut dice);
        let lines = case.mixed(&mut dice);
        let mut scene = Scene::new();
        scene.settings.max_line_octets = LONG;
        scene.settings.save_every_octets = 1;
        let mut reader = Reader::new(&scene);
        for part in lines.chunks(lines.len() / (restarts + 1) + 1) {
            scene.append(&part.concat());
            reader.read_all();
            reader.restart(&scene);
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
        let accepted = reader.inbound.iter().filter(|event| event.outcome == InboundOutcome::Accepted).count();
        prop_assert_eq!(accepted, case.accepted, "{}", shown());
    }
}

fn is_ours(id: mailapi_model::MessageId) -> bool {
    (0..OURS).any(|n| id.to_string() == message_id(n))
}
