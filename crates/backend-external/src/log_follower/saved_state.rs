//! The saved state: what is needed to understand the lines after a position. The file is replaced as a whole.
//!
//! The state is saved only at positions that the reader of the feed has already stored, so it is never ahead of the
//! database. After a restart, the lines between the two are replayed without reporting their events.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{
    DeliveryEvent, EmailAddress, Evidence, FeedCursor, MessageId, Outcome, QueueId, Reply, ReversePath, Timestamp,
};

use super::message::{Answer, Behind, Failed, Message, Origin, RefusedRecipient, Successor, Waiting};
use super::place::{Cursor, Place};
use super::report::{Gap, GapKind, Notes};
use super::text_record::{fields, push_line};
use super::tracked_messages::{InstanceState, Running, TrackedMessages};

/// The first line; any other one denotes another version.
const HEADER: &str = "mailapi log state 2";
const FILE: &str = "state";

/// A saved state.
pub(super) struct Saved {
    pub(super) place: Place,
    pub(super) tracked: TrackedMessages,
    pub(super) notes: Notes,
}

/// Saves a state durably, and returns its size.
pub(super) fn save(dir: &Path, place: &Place, tracked: &TrackedMessages, notes: &Notes) -> io::Result<u64> {
    let new = dir.join("state.new");
    let mut file = BufWriter::new(File::create(&new)?);
    let mut lines = 0_u64;
    let mut size = 0_u64;
    let mut write = |text: &str| -> io::Result<()> {
        lines += text.matches('\n').count() as u64;
        size += text.len() as u64;
        file.write_all(text.as_bytes())
    };
    let cursor = Cursor { place: place.clone(), told: 0 }.encode();
    let last = tracked.last_at.map_or(String::new(), millis);
    let mut text = String::new();
    push_line(&mut text, &[HEADER]);
    push_line(&mut text, &["at", &cursor.0, &last]);
    push_line(&mut text, &["forgotten", &notes.forgotten.to_string()]);
    if notes.clock_ahead != 0 {
        push_line(&mut text, &["clock", &notes.clock_ahead.to_string()]);
    }
    for gap in &notes.gaps {
        let [at, from, to] = [gap.at, gap.from, gap.to].map(millis);
        push_line(&mut text, &["gap", &at, gap.kind.as_str(), &gap.detail, &from, &to]);
    }
    if let Some(at) = notes.unnamed_at {
        push_line(&mut text, &["unnamed", &millis(at)]);
    }
    for (instance, state) in &tracked.instance_states {
        let [started_at, deleted_at] = [state.started_at, state.deleted_at].map(|at| at.map_or(String::new(), millis));
        push_line(&mut text, &["instance", instance, running_text(state.running), &started_at, &deleted_at]);
    }
    for ((instance, pid), refused) in &tracked.refused_early {
        push_line(&mut text, &["session", instance, &pid.to_string()]);
        refused.iter().for_each(|one| push_refused(&mut text, one));
    }
    let (pid, named) = tracked.postsuper;
    push_line(&mut text, &["postsuper", &pid.to_string(), &named.to_string()]);
    write(&text)?;
    for (instance, messages) in &tracked.instances {
        for (id, message) in messages {
            write(&message_text(instance, id, message))?;
        }
    }
    // The line count proves on loading that the file is complete.
    let mut end = String::new();
    push_line(&mut end, &["end", &lines.to_string()]);
    file.write_all(end.as_bytes())?;
    // Data first, then the rename, then the directory: a crash leaves the old or the new state.
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&new, dir.join(FILE))?;
    File::open(dir)?.sync_all()?;
    Ok(size)
}

/// Loads the saved state; `None` if there is none or it is damaged.
pub(super) fn load(dir: &Path) -> io::Result<Option<Saved>> {
    match fs::read_to_string(dir.join(FILE)) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

fn millis(at: Timestamp) -> String {
    at.as_millis().to_string()
}

fn sender_text(sender: Option<&ReversePath>) -> &str {
    match sender {
        None => "?",
        Some(None) => "",
        // As given: the log's later lines and the events keep the sender's letter case.
        Some(Some(address)) => address.shown(),
    }
}

fn address(text: &str) -> Option<EmailAddress> {
    EmailAddress::as_given(text).ok()
}

fn push_refused(text: &mut String, refused: &RefusedRecipient) {
    let RefusedRecipient { sender, recipient, reply } = refused;
    let enhanced = reply.enhanced.map_or(String::new(), |code| code.to_string());
    let (code, sender) = (reply.code.to_string(), sender_text(sender.as_ref()));
    push_line(text, &["refused", sender, recipient.shown(), &code, &enhanced, &reply.text]);
}

fn message_text(instance: &str, id: &str, message: &Message) -> String {
    let mut text = String::new();
    let flags: String =
        [(message.has_header, 'h'), (message.queued, 'q'), (message.held, 'w'), (message.marked_as_spam, 's')]
            .iter()
            .chain(&[(message.cut_off, 'c'), (message.is_incomplete, 'i'), (message.has_other_failure, 'f')])
            .chain(&[(message.from_outside, 'o')])
            .filter_map(|(is_set, flag)| is_set.then_some(*flag))
            .collect();
    let id_text = |id: Option<mailapi_model::MessageId>| id.map_or(String::new(), |id| id.to_string());
    push_line(
        &mut text,
        &[
            "message",
            instance,
            id,
            &millis(message.first_seen),
            &millis(message.last_seen),
            message.origin.as_str(),
            &flags,
            &id_text(message.message_id),
            &id_text(message.claims),
            sender_text(message.sender.as_ref()),
        ],
    );
    for one in &message.waiting {
        let dsn = one.dsn.map_or(String::new(), |dsn| dsn.to_string());
        let relay = one.relay.as_deref().unwrap_or_default();
        push_line(&mut text, &["waiting", &one.to, one.named.shown(), &dsn, relay, &one.response]);
    }
    for successor in &message.successors {
        push_line(&mut text, &["successor", &successor.queue_id]);
    }
    for (to, named) in &message.renamed {
        push_line(&mut text, &["renamed", to.shown(), named.shown()]);
    }
    message.refused.iter().for_each(|one| push_refused(&mut text, one));
    push_behind(&mut text, message);
    message.answers.iter().for_each(|answer| push_answer(&mut text, answer));
    text
}

fn push_answer(text: &mut String, Answer { to, event }: &Answer) {
    let [at, delay] = [event.at.as_millis().to_string(), event.delay.as_millis().to_string()];
    let dsn = event.dsn.map_or(String::new(), |dsn| dsn.to_string());
    let relay = event.relay.as_deref().unwrap_or_default();
    let (named, sender) = (event.recipient.shown(), sender_text(Some(&event.sender)));
    push_line(
        text,
        &["answer", to.shown(), named, &at, &delay, &event.queue_id.0, sender, &dsn, relay, &event.response],
    );
}

fn push_behind(text: &mut String, message: &Message) {
    if let Some(recipients) = message.recipients {
        push_line(text, &["recipients", &recipients.to_string(), &message.settled.to_string()]);
    }
    for Behind { named, got_through, failure } in &message.behind {
        if *got_through {
            push_line(text, &["reached", named.shown()]);
        }
        if let Some(Failed { outcome, dsn, relay, response }) = failure {
            let dsn = dsn.map_or(String::new(), |dsn| dsn.to_string());
            let relay = relay.as_deref().unwrap_or_default();
            push_line(text, &["failed", named.shown(), outcome.as_str(), &dsn, relay, response]);
        }
    }
}

fn parse(text: &str) -> Option<Saved> {
    let mut lines = text.lines();
    if lines.next()? != HEADER {
        return None;
    }
    let start = fields(lines.next()?);
    let ["at", cursor, last] = start.iter().map(String::as_str).collect::<Vec<_>>()[..] else { return None };
    let place = Cursor::decode(&FeedCursor(cursor.to_owned()))?.place;
    let mut loader = Loader::default();
    loader.tracked.last_at = if last.is_empty() { None } else { Some(time(last)?) };
    for (count, line) in (2_u64..).zip(lines) {
        let fields = fields(line);
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        if let ["end", expected] = fields[..] {
            loader.finish_message();
            let is_whole = expected.parse() == Ok(count);
            let Loader { tracked, notes, .. } = loader;
            return is_whole.then_some(Saved { place, tracked, notes });
        }
        loader.line(&fields)?;
    }
    None
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok().map(Timestamp::from_millis)
}

const fn running_text(running: Running) -> &'static str {
    match running {
        Running::Yes => "running",
        Running::Stopping => "stopping",
        Running::No => "stopped",
    }
}

fn running(text: &str) -> Option<Running> {
    [Running::Yes, Running::Stopping, Running::No].into_iter().find(|known| running_text(*known) == text)
}

fn sender(text: &str) -> Option<Option<ReversePath>> {
    match text {
        "?" => Some(None),
        "" => Some(Some(None)),
        text => address(text).map(|address| Some(Some(address))),
    }
}

/// Parses an optional field; empty means `None`.
fn optional<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

#[derive(Default)]
struct Loader {
    tracked: TrackedMessages,
    notes: Notes,
    session: Option<(String, u32)>,
    message: Option<(String, String, Message)>,
}

impl Loader {
    fn finish_message(&mut self) {
        if let Some((instance, id, message)) = self.message.take() {
            self.tracked.restore(&instance, &id, message);
        }
    }

    fn line(&mut self, fields: &[&str]) -> Option<()> {
        match *fields {
            ["gap", at, kind, detail, from, to] => {
                let kind = GapKind::ALL.into_iter().find(|known| known.as_str() == kind)?;
                let detail = detail.to_owned();
                self.notes.gaps.push(Gap { at: time(at)?, from: time(from)?, to: time(to)?, kind, detail });
            }
            ["forgotten", count] => self.notes.forgotten = count.parse().ok()?,
            ["clock", ahead] => self.notes.clock_ahead = ahead.parse().ok()?,
            // Older states have a longer line for each such message.
            ["unnamed", at, ..] => self.notes.unnamed_at = self.notes.unnamed_at.max(Some(time(at)?)),
            ["instance", name, state, started_at, ref deleted_at @ ..] => {
                let started_at = optional::<i64>(started_at)?.map(Timestamp::from_millis);
                // Older states lack this field.
                let deleted_at = optional::<i64>(deleted_at.first().unwrap_or(&""))?.map(Timestamp::from_millis);
                let state = InstanceState { running: running(state)?, started_at, deleted_at };
                self.tracked.instance_states.insert(name.to_owned(), state);
            }
            ["postsuper", pid, named] => self.tracked.postsuper = (pid.parse().ok()?, named.parse().ok()?),
            ["session", instance, pid] => self.session = Some((instance.to_owned(), pid.parse().ok()?)),
            ["message", ..] => {
                self.finish_message();
                self.message = Some(message(fields)?);
            }
            ["refused", from, recipient, code, enhanced, text] => {
                let reply = Reply { code: code.parse().ok()?, enhanced: optional(enhanced)?, text: text.to_owned() };
                let refused = RefusedRecipient { sender: sender(from)?, recipient: address(recipient)?, reply };
                match (&mut self.message, &self.session) {
                    (Some((_, _, message)), _) => message.refused.push(refused),
                    (None, Some(session)) => {
                        self.tracked.refused_early.entry(session.clone()).or_default().push(refused);
                    }
                    (None, None) => return None,
                }
            }
            _ => return self.part_of_message(fields),
        }
        Some(())
    }

    fn part_of_message(&mut self, fields: &[&str]) -> Option<()> {
        let (_, _, message) = self.message.as_mut()?;
        match *fields {
            ["waiting", to, named, dsn, relay, response] => message.waiting.push(Waiting {
                to: to.to_owned(),
                named: address(named)?,
                dsn: optional(dsn)?,
                relay: (!relay.is_empty()).then(|| Arc::from(relay)),
                response: Arc::from(response),
            }),
            ["successor", id] => {
                message.successors.push(Successor::new(id));
            }
            ["answer", ..] => message.answers.push(answer(fields, message.message_id)?),
            ["recipients", recipients, settled] => {
                (message.recipients, message.settled) = (Some(recipients.parse().ok()?), settled.parse().ok()?);
            }
            ["reached", named] => message.note_behind(&address(named)?, None),
            ["failed", named, outcome, dsn, relay, response] => {
                let failure = Failed {
                    outcome: outcome.parse().ok()?,
                    dsn: optional(dsn)?,
                    relay: (!relay.is_empty()).then(|| Arc::from(relay)),
                    response: Arc::from(response),
                };
                message.note_behind(&address(named)?, Some(failure));
            }
            ["renamed", to, named] => message.renamed.push((address(to)?, address(named)?)),
            _ => return None,
        }
        Some(())
    }
}

fn message(fields: &[&str]) -> Option<(String, String, Message)> {
    let [_, instance, id, first, last, origin, flags, message_id, claims, from] = *fields else { return None };
    let origin = Origin::ALL.into_iter().find(|known| known.as_str() == origin)?;
    let mut message = Message::new(time(first)?, origin);
    message.last_seen = time(last)?;
    message.has_header = flags.contains('h');
    message.queued = flags.contains('q');
    message.held = flags.contains('w');
    message.marked_as_spam = flags.contains('s');
    message.cut_off = flags.contains('c');
    message.is_incomplete = flags.contains('i');
    message.has_other_failure = flags.contains('f');
    // Older states lack this flag.
    message.from_outside |= flags.contains('o');
    message.message_id = optional(message_id)?;
    message.claims = optional(claims)?;
    message.sender = sender(from)?;
    Some((instance.to_owned(), id.to_owned(), message))
}

fn answer(fields: &[&str], message_id: Option<MessageId>) -> Option<Answer> {
    let ["answer", to, named, at, delay, queue_id, from, dsn, relay, response] = *fields else { return None };
    let (to, recipient) = (address(to)?, address(named)?);
    let event = DeliveryEvent {
        at: time(at)?,
        message_id,
        queue_id: QueueId(queue_id.to_owned()),
        sender: sender(from)??,
        final_recipient: Some(to.clone()).filter(|to| *to != recipient),
        recipient,
        outcome: Outcome::Sent,
        evidence: Evidence::MailServer,
        dsn: optional(dsn)?,
        response: response.to_owned(),
        relay: (!relay.is_empty()).then(|| relay.to_owned()),
        delay: Duration::from_millis(delay.parse().ok()?),
    };
    Some(Answer { to, event })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn line() -> impl Strategy<Value = String> {
        let known = select(vec![
            "gap\t1\ttruncated\tx\t-5\t99999999999999999",
            "forgotten\t3",
            "clock\t-7200000",
            "unnamed\t7\tmore",
            "instance\tpostfix\trunning\t",
            "instance\tpostfix\tstopped\t-1",
            "instance\tpostfix\trunning\t5\t6",
            "postsuper\t17\t1",
            "session\tpostfix\t17",
            "message\tpostfix\t4jWk1\t1\t2\tsubmitted\thq\t\t\tann@example.org",
            "message\tpostfix\t4jWk2\t1\t2\tpicked-up\twsci\t\t\t?",
            "waiting\tbob@example.net\tbob@example.net\t4.1.1\tmx\tnot\\tnow",
            "successor\t4jWk2",
            "recipients\t2\t9",
            "reached\tbob@example.net",
            "failed\tbob@example.net\tbounced\t5.1.1\t\tgone",
            "renamed\ta@example.net\tb@example.net",
            "answer\ta@example.net\tb@example.net\t1\t2\t4jWk1\t\t2.0.0\tmx\tOk",
            "refused\t\tbob@example.net\t550\t5.1.1\tno",
        ])
        .prop_map(str::to_owned);
        let named = known.clone().prop_map(|line| line.replacen("\t\t\t", &format!("\t{ID}\t{ID}\t"), 1));
        let changed =
            (known.clone(), any::<prop::sample::Index>(), "[-\\\\\t0-9a-z]{0,3}").prop_map(|(line, at, text)| {
                let at = at.index(line.len() + 1);
                line[..at].to_owned() + &text + &line[at..]
            });
        prop_oneof![8 => known, 2 => named, 1 => changed, 1 => "\\PC{0,20}"]
    }

    #[test]
    fn a_state_keeps_each_field_as_it_was_given() {
        let start = Cursor { place: Place::Beginning, told: 0 }.encode().0;
        let lines = [
            HEADER,
            &format!("at\t{start}\t5"),
            "forgotten\t3",
            "clock\t-7200000",
            "gap\t1\ttruncated\tx\t-5\t9",
            "unnamed\t7",
            "instance\tpostfix\trunning\t5\t6",
            "session\tpostfix\t17",
            "refused\tAnn@Example.org\tBob@Bücher.example\t550\t5.1.1\tno",
            "postsuper\t17\t1",
            &format!("message\tpostfix\t4jWk1\t1\t2\tsubmitted\thqwscifo\t{ID}\t{ID}\tSRS0=AbCd=2K@Fwd.example"),
            "waiting\tBob@Example.net\tBob@example.net\t4.1.1\tmx\tnot now",
            "successor\t4jWk2",
            "renamed\tA.B@example.net\tC.D@example.net",
            "refused\t\tEve@example.net\t550\t5.1.1\tno",
            "recipients\t2\t9",
            "reached\tTeam@example.net",
            "failed\tTeam@example.net\tbounced\t5.1.1\t\tgone",
            "answer\tX.Y@example.net\tV.W@example.net\t1\t2\t4jWk1\tAnn@example.org\t2.0.0\tmx\tOk",
            "end\t19",
        ];
        let Saved { place, tracked, notes } = parse(&(lines.join("\n") + "\n")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &place, &tracked, &notes).unwrap();
        let saved = fs::read_to_string(dir.path().join(FILE)).unwrap();
        // The domain of an address is stored in lower case.
        let expected =
            lines.map(|line| line.replace("Example.", "example.").replace("Fwd.", "fwd.").replace("Bücher", "bücher"));
        let shown = saved.lines().map(|line| line.replace("Example.", "example.")).collect::<Vec<_>>();
        assert_eq!(shown, expected);
    }

    proptest! {
        #[test]
        fn any_file_is_a_state_or_none_and_a_state_stays_one(
            lines in prop::collection::vec(line(), 0..8),
            at in "([0-9]{1,12}[.:/ ]?){1,4}|-|\\PC{0,10}",
            is_whole in any::<bool>(),
        ) {
            let start = Cursor { place: Place::Beginning, told: 0 }.encode().0;
            parse(&format!("{HEADER}\nat\t{at}\t\nend\t2\n"));
            let mut text = String::new();
            push_line(&mut text, &[HEADER]);
            push_line(&mut text, &["at", &start, "5"]);
            let end = lines.len() + if is_whole { 2 } else { 3 };
            text += &lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            text += &format!("end\t{end}\n");
            let saved = parse(&text);
            prop_assert!(is_whole || saved.is_none());
            if let Some(Saved { place, tracked, notes }) = saved {
                let dir = tempfile::tempdir().unwrap();
                save(dir.path(), &place, &tracked, &notes).unwrap();
                prop_assert!(load(dir.path()).unwrap().is_some());
            }
        }
    }
}
