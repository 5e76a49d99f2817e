//! Mixed mail through a Postfix whose log is rotated, whose processes are killed, and whose operator deletes
//! messages. No recipient may end in a wrong state. If a log line was lost, the state stays open.
//!
//! The default run is small. `MAILAPI_TEST_STORM=300` sets the number of messages.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mailapi_backend::{Submission, SubmitError};
use mailapi_model::{DeliveryEvent, MessageId, Outcome};
use mailapi_testkit::{PostfixRecipients, kill_children};

use crate::mail_host::{MailHost, attempt};

/// Longer than the retry interval of this Postfix, which is 2 seconds.
const RETRY_TIME: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The stored state of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Open,
    Sent,
    Bounced,
}

/// Messages that were submitted, or may have been.
#[derive(Default)]
struct Sent {
    taken: Vec<(MessageId, String, Vec<String>)>,
    unknown: Vec<MessageId>,
    refused: Vec<MessageId>,
}

#[expect(clippy::disallowed_methods, reason = "the environment sets the length of a long run")]
fn messages() -> usize {
    std::env::var("MAILAPI_TEST_STORM").ok().and_then(|count| count.parse().ok()).unwrap_or(40)
}

/// Returns the file for the counts of a long run and its open recipients. The log goes beside it.
#[expect(clippy::disallowed_methods, reason = "the environment asks for the report of a long run")]
fn report_path() -> Option<String> {
    std::env::var("MAILAPI_TEST_STORM_REPORT").ok()
}

/// Returns recipients of all kinds: accepted, refused, deferred once, deferred until deleted, local ones, aliases.
fn recipients(n: usize) -> Vec<String> {
    let remote = |kind: &str| format!("{kind}{n}@example.net");
    let here = |name: &str| format!("{name}@example.org");
    match n % 8 {
        0 => vec![remote("good"), here("bob")],
        1 => vec![remote("gone")],
        2 => vec![remote("later"), remote("good")],
        3 => vec![here("team")],
        4 => vec![remote("good"), remote("gone"), remote("later"), here("bob")],
        5 => vec![here("nowhere"), remote("good")],
        6 => vec![remote("stuck")],
        _ => vec![remote("stuck"), remote("good"), here("bob")],
    }
}

fn postsuper(host: &MailHost, arguments: &[&str]) {
    let config = host.postfix.config_dir();
    let done = Command::new("postsuper").arg("-c").arg(config).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn rotated(log: &Path) -> std::path::PathBuf {
    for number in (1..30).rev() {
        let name = |number| log.with_file_name(format!("mail.log.{number}"));
        if name(number).exists() {
            fs::rename(name(number), name(number + 1)).unwrap();
        }
    }
    log.with_file_name("mail.log.1")
}

/// Kills a daemon of this Postfix, if one of this name is running.
fn kill_daemon(host: &MailHost, name: &str) {
    let Some(master) = host.postfix.process_id() else { return };
    kill_children(master, name);
}

/// Causes an event between two messages.
async fn disturb(host: &mut MailHost, n: usize, sent: &Sent) {
    let log = host.postfix.log();
    match n % 20 {
        2 => {
            fs::rename(&log, rotated(&log)).unwrap();
            host.postfix.reopen_log();
        }
        5 | 15 => host.restart_follower(),
        7 => {
            fs::copy(&log, rotated(&log)).unwrap();
            OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
        }
        9 => kill_daemon(host, ["smtp", "cleanup", "smtpd", "qmgr"][n / 20 % 4]),
        11 => {
            host.postfix.kill();
            host.postfix.restart().await;
        }
        // The newest message may be in its first attempt.
        13 => {
            if let Some((_, id, _)) = sent.taken.last() {
                postsuper(host, &["-h", id]);
                postsuper(host, &["-d", id]);
            }
        }
        17 => {
            postsuper(host, &["-r", "ALL"]);
            // Otherwise they stay in the queue for a minute.
            let config = host.postfix.config_dir();
            let kicked = Command::new("postkick").arg("-c").arg(config).args(["public", "pickup", "W"]).status();
            assert!(kicked.unwrap().success());
        }
        1 | 4 | 10 | 19 => host.read().await,
        _ => {}
    }
}

async fn send_all(host: &mut MailHost) -> Sent {
    let mut sent = Sent::default();
    for n in 0..messages() {
        let to = recipients(n);
        for recipient in &to {
            match recipient {
                gone if gone.starts_with("gone") => host.sink.refuse(gone, &["550 5.1.1 User unknown"; 50]),
                later if later.starts_with("later") => host.sink.refuse(later, &["450 4.2.0 Greylisted"]),
                stuck if stuck.starts_with("stuck") => host.sink.refuse(stuck, &["450 4.2.0 Full"; 5000]),
                _ => {}
            }
        }
        let (id, answer) = host.send(&to.iter().map(String::as_str).collect::<Vec<_>>()).await;
        match answer {
            Ok(accepted) => {
                let is_refused = |one: &String| accepted.refused.iter().any(|known| known.recipient.as_str() == one);
                let to = to.into_iter().filter(|one| !is_refused(one)).collect();
                sent.taken.push((id, accepted.queue_id.0, to));
            }
            Err(SubmitError::OutcomeUnknown) => sent.unknown.push(id),
            Err(_) => sent.refused.push(id),
        }
        disturb(host, n, &sent).await;
    }
    sent
}

/// Returns the states as the store keeps them: the first final event counts.
fn states(host: &MailHost, sent: &Sent) -> BTreeMap<(MessageId, String), State> {
    let mut states = BTreeMap::new();
    for (id, queue_id, to) in &sent.taken {
        for recipient in to {
            let of_it = |event: &&DeliveryEvent| event.message_id == Some(*id) && event.recipient.as_str() == recipient;
            let mut state = State::Open;
            for event in host.events.iter().filter(of_it) {
                state = match event.outcome {
                    Outcome::Sent if state == State::Open => State::Sent,
                    Outcome::Bounced | Outcome::Expired if state == State::Open && event.final_recipient.is_none() => {
                        State::Bounced
                    }
                    _ => state,
                };
            }
            let is_discarded = host.discarded.iter().any(|one| one.message_id == *id && one.queue_id.0 == *queue_id);
            if state == State::Open && is_discarded {
                state = State::Bounced;
            }
            states.insert((*id, recipient.clone()), state);
        }
    }
    states
}

/// Returns the deliveries by message and recipient. Members of the alias count for the alias.
fn received(host: &MailHost) -> HashSet<(String, String)> {
    let id_in = |data: &[u8]| {
        let text = String::from_utf8_lossy(data).into_owned();
        let (_, after) = text.split_once("Message-ID: <").unwrap();
        after.split_once('@').unwrap().0.to_owned()
    };
    let mut received = HashSet::new();
    for message in host.sink.received() {
        for recipient in &message.recipients {
            let owner = if recipient == "member@example.net" { "team@example.org" } else { recipient };
            received.insert((id_in(&message.data), owner.to_owned()));
        }
    }
    for message in host.postfix.delivered("bob@example.org") {
        // No message is for both recipients.
        for recipient in ["bob@example.org", "team@example.org"] {
            received.insert((id_in(&message), recipient.to_owned()));
        }
    }
    received
}

fn is_stuck(recipient: &str) -> bool {
    recipient.starts_with("stuck")
}

/// Reads until each recipient has a final state, or the time limit is reached. Sends a message at times, so that the
/// log grows.
async fn read_to_the_end(host: &mut MailHost, sent: &Sent, is_awaited: impl Fn(&str) -> bool, patience: Duration) {
    let reading = async {
        loop {
            host.read().await;
            let states = states(host, sent);
            if states.iter().all(|((_, recipient), state)| !is_awaited(recipient) || *state != State::Open) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            let (_, answer) = host.send(&["bob@example.org"]).await;
            drop(answer);
        }
    };
    // A recipient that stays open lost its line.
    let _ = tokio::time::timeout(patience, reading).await;
}

/// Returns a line for each open recipient, with the queue id of the submission.
fn open(sent: &Sent, states: &BTreeMap<(MessageId, String), State>) -> String {
    let open = |(id, queue_id, to): &(MessageId, String, Vec<String>)| {
        let is_open = |to: &&String| states[&(*id, (*to).clone())] == State::Open;
        to.iter().filter(is_open).map(|to| format!("{queue_id} {id} {to}\n")).collect::<String>()
    };
    sent.taken.iter().map(open).collect()
}

/// Returns the log with its rotated files, oldest first.
fn whole_log(log: &Path) -> String {
    let rotated = (1..30).rev().map(|number| log.with_file_name(format!("mail.log.{number}")));
    rotated.chain([log.to_owned()]).map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

#[tokio::test]
async fn whatever_is_rotated_killed_and_deleted_no_state_is_wrong() {
    let mut host = MailHost::open(|settings| {
        let PostfixRecipients::Fixed { aliases, .. } = &mut settings.recipients else { panic!("tables") };
        aliases.push(("team@example.org".to_owned(), "member@example.net, bob@example.org".to_owned()));
    })
    .await;
    host.retry_time = RETRY_TIME;
    host.restart_follower();
    let sent = send_all(&mut host).await;
    read_to_the_end(&mut host, &sent, |recipient| !is_stuck(recipient), Duration::from_secs(45)).await;
    postsuper(&host, &["-d", "ALL"]);
    read_to_the_end(&mut host, &sent, |_| true, RETRY_TIME + Duration::from_secs(15)).await;

    let (states, received) = (states(&host, &sent), received(&host));
    let log = || fs::read_to_string(host.postfix.log()).unwrap_or_default();
    for ((id, recipient), state) in &states {
        let got = received.contains(&(id.to_string(), recipient.clone()));
        let is_right = match state {
            State::Open => true,
            State::Sent => got,
            State::Bounced => !got,
        };
        assert!(is_right, "{id} to {recipient} is {state:?}, received: {got}\n{:?}\n{}", host.events, log());
    }
    for id in &sent.refused {
        assert!(!received.iter().any(|(of, _)| *of == id.to_string()), "{id} was refused but arrived");
    }
    for id in &sent.unknown {
        if let Ok(None) = host.submission.find(&attempt(*id)).await {
            assert!(
                !received.iter().any(|(of, _)| *of == id.to_string()),
                "{id} was reported as not accepted but arrived"
            );
        }
    }
    let count = |wanted: State| states.values().filter(|state| **state == wanted).count();
    let counts = (count(State::Sent), count(State::Bounced), count(State::Open));
    let summary = format!("sent, bounced, open: {counts:?}; gaps: {:?}", host.follower.status().gaps);
    if let Some(path) = report_path() {
        fs::write(format!("{path}.log"), whole_log(&host.postfix.log())).unwrap();
        fs::write(path, format!("{summary}\n{}", open(&sent, &states))).unwrap();
    }
    assert!(counts.0 > 0 && counts.1 > 0 && counts.2 * 5 < states.len(), "{summary}\n{states:?}\n{}", log());
}
