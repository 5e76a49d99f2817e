//! Random messages over one connection: the client's reports must match what the server accepted.
//!
//! `PROPTEST_CASES` sets the number of connections; each carries up to 20 messages, about 10 on average.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailapi_smtp::Envelope;
use mailapi_smtp::client::{
    Cause, Client, ClientConfig, ClientStep, MessageFacts, Outcome, RecipientOutcome, TlsPolicy, TransactionStep,
};
use mailapi_testkit::{Moment, Reaction, Received, StrictRecord, StrictSmtp};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{TestCaseError, TestRunner};

/// One message and its events.
#[derive(Debug, Clone)]
struct Plan {
    reset: Reaction,
    mail: Reaction,
    rcpts: Vec<Reaction>,
    data: Reaction,
    data_without_recipients: Reaction,
    midway: Reaction,
    dot: Reaction,
    body: Vec<u8>,
    /// The message is passed in pieces of this size.
    piece: usize,
    trouble: Trouble,
    /// The server's unsolicited output after the transaction.
    late: Option<&'static str>,
}

/// An event on our side.
#[derive(Debug, Clone)]
enum Trouble {
    None,
    /// Our time-out occurs at this read.
    TimeOut(usize),
    /// This write fails after a part of it.
    BrokenWrite(usize, Index),
    /// The transaction is dropped at this read.
    Dropped(usize),
}

#[derive(Debug, Clone)]
struct Run {
    pipelining: bool,
    in_flight: usize,
    /// Replies arrive in pieces of these lengths.
    cuts: Vec<usize>,
    plans: Vec<Plan>,
}

fn reaction() -> impl Strategy<Value = Reaction> {
    prop_oneof![
        60 => Just(Reaction::Yes),
        15 => prop_oneof![Just(450_u16), Just(451), Just(550), Just(554), Just(503)].prop_map(Reaction::No),
        2 => Just(Reaction::Closing),
        2 => Just(Reaction::HangUp),
    ]
}

/// Rare events, so that a connection lasts long.
fn seldom() -> impl Strategy<Value = Reaction> {
    prop_oneof![40 => Just(Reaction::Yes), 1 => reaction()]
}

fn dot() -> impl Strategy<Value = Reaction> {
    prop_oneof![20 => reaction(), 1 => Just(Reaction::TakeAndHangUp), 1 => Just(Reaction::TakeAndMumble)]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        60 => Just(Trouble::None),
        1 => (0..8_usize).prop_map(Trouble::TimeOut),
        1 => (0..5_usize, any::<Index>()).prop_map(|(at, part)| Trouble::BrokenWrite(at, part)),
        1 => (0..5_usize).prop_map(Trouble::Dropped),
    ]
}

fn late() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![
        60 => Just(None),
        1 => proptest::sample::select(vec!["250 ok\r\n", "250-", "25", "421 bye\r\n", "550 no\r\n", "354 go\r\n"]).prop_map(Some),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let line = "\\.{0,2}[a-z]{0,6}";
    let body = proptest::collection::vec(line, 0..6).prop_map(|lines| lines.join("\r\n").into_bytes());
    let server = (
        seldom(),
        reaction(),
        proptest::collection::vec(reaction(), 1..5),
        reaction(),
        prop_oneof![6 => Just(Reaction::No(554)), 1 => reaction()],
        seldom(),
        dot(),
    );
    (server, body, prop_oneof![1..20_usize, Just(4096)], trouble(), late()).prop_map(
        |(server, body, piece, trouble, late)| {
            let (reset, mail, rcpts, data, data_without_recipients, midway, dot) = server;
            Plan { reset, mail, rcpts, data, data_without_recipients, midway, dot, body, piece, trouble, late }
        },
    )
}

fn run() -> impl Strategy<Value = Run> {
    let cuts = proptest::collection::vec(prop_oneof![1..60_usize, Just(4096)], 1..6);
    (any::<bool>(), prop_oneof![1..4_usize, Just(256)], cuts, proptest::collection::vec(plan(), 1..=20))
        .prop_map(|(pipelining, in_flight, cuts, plans)| Run { pipelining, in_flight, cuts, plans })
}

fn sender(message: usize) -> String {
    format!("s{message}@a.example")
}

fn recipient(message: usize, at: usize) -> String {
    format!("r{message}-{at}@b.example")
}

/// The number of a message, from an address of its envelope.
fn number(address: &str) -> usize {
    address[1..].split(['@', '-']).next().and_then(|number| number.parse().ok()).expect("an address of a plan")
}

/// The plan for a moment. RSET and commands without an address belong to the current message.
fn decided(plans: &[Plan], now: &Mutex<usize>, moment: &Moment) -> Reaction {
    let plan = &plans[*now.lock().unwrap()];
    match moment {
        Moment::Mail(sender) => plans[number(sender)].mail,
        Moment::Rcpt(recipient) => {
            let at: usize = recipient.split(['-', '@']).nth(1).and_then(|at| at.parse().ok()).expect("a recipient");
            plans[number(recipient)].rcpts[at]
        }
        Moment::Data => plan.data,
        Moment::DataWithoutRecipients => plan.data_without_recipients,
        Moment::Midway => plan.midway,
        Moment::Dot => plan.dot,
        Moment::Reset => plan.reset,
    }
}

/// A server, and the client's end of the connection.
struct Wire {
    server: StrictSmtp,
    client: Client,
    /// Blob from the server that have not arrived yet.
    coming: VecDeque<u8>,
    cuts: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl Wire {
    fn open(run: &Run, now: &Arc<Mutex<usize>>, record: &Arc<Mutex<StrictRecord>>) -> Self {
        let (plans, now) = (run.plans.clone(), now.clone());
        let config = ClientConfig {
            tls: TlsPolicy::Never,
            max_commands_in_flight: run.in_flight,
            ..ClientConfig::new("mail.example")
        };
        let mut wire = Self {
            server: StrictSmtp::new(record.clone(), run.pipelining, move |moment| decided(&plans, &now, moment)),
            client: Client::new(config),
            coming: VecDeque::new(),
            cuts: run.cuts.clone().into_iter().cycle(),
        };
        loop {
            match wire.client.step().expect("the connection must succeed") {
                ClientStep::Write(bytes) => wire.server.push(&bytes),
                ClientStep::Ready => return wire,
                ClientStep::Read => {
                    let said = wire.server.output();
                    wire.client.push(&said);
                }
                ClientStep::StartTls => unreachable!("it is not offered"),
            }
        }
    }

    /// Sends message `index`. Returns `None` if the transaction was dropped.
    fn send(&mut self, index: usize, plan: &Plan) -> Result<Option<Outcome>, TestCaseError> {
        let Self { server, client, coming, cuts } = self;
        let envelope = Envelope::new(sender(index), (0..plan.rcpts.len()).map(|at| recipient(index, at)));
        let mut pieces = plan.body.chunks(plan.piece).peekable();
        let mut transaction = client.transaction(&envelope, MessageFacts::of(&plan.body));
        let (mut reads, mut writes) = (0, 0);
        loop {
            match transaction.step() {
                TransactionStep::Done => return Ok(Some(transaction.finish())),
                TransactionStep::Message => {
                    let piece = pieces.next().unwrap_or_default();
                    transaction.give(piece, pieces.peek().is_none());
                }
                TransactionStep::Write(bytes) | TransactionStep::WriteEnd(bytes) => {
                    if let Trouble::BrokenWrite(at, part) = plan.trouble
                        && at == writes
                    {
                        server.push(&bytes[..part.index(bytes.len() + 1)]);
                        coming.extend(server.output());
                        let said: Vec<u8> = coming.drain(..).collect();
                        return Ok(Some(transaction.broke_off(&said, Cause::Closed)));
                    }
                    writes += 1;
                    if server.is_closed() {
                        let said: Vec<u8> = coming.drain(..).collect();
                        return Ok(Some(transaction.broke_off(&said, Cause::Closed)));
                    }
                    server.push(&bytes);
                    coming.extend(server.output());
                }
                TransactionStep::Read => {
                    match plan.trouble {
                        Trouble::TimeOut(at) if at == reads => {
                            return Ok(Some(transaction.abandon(Cause::TimedOut(Duration::ZERO))));
                        }
                        Trouble::Dropped(at) if at == reads => return Ok(None),
                        _ => reads += 1,
                    }
                    let cut = cuts.next().unwrap_or(1).min(coming.len());
                    if cut == 0 {
                        prop_assert!(server.is_closed(), "message {} waits for a reply that will never come", index);
                        return Ok(Some(transaction.abandon(Cause::Closed)));
                    }
                    let piece: Vec<u8> = coming.drain(..cut).collect();
                    transaction.push(&piece);
                }
            }
        }
    }
}

/// The client's reports, by kind.
#[derive(Default)]
struct Counts {
    messages: Cell<usize>,
    on_a_kept_connection: Cell<usize>,
    accepted: Cell<usize>,
    refused: Cell<usize>,
    unknown: Cell<usize>,
}

fn count(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

/// Checks the report on one message against what the server accepted of it.
fn compare(
    index: usize,
    plan: &Plan,
    outcome: Option<&Outcome>,
    taken: &[Received],
    counts: &Counts,
) -> Result<(), TestCaseError> {
    let mut expected_data = plan.body.clone();
    if !expected_data.is_empty() && !expected_data.ends_with(b"\r\n") {
        expected_data.extend_from_slice(b"\r\n");
    }
    let taken: Vec<&Received> = taken.iter().filter(|one| one.sender == sender(index)).collect();
    prop_assert!(taken.len() <= 1, "message {} was taken twice", index);
    for one in &taken {
        prop_assert!(one.recipients.iter().all(|address| number(address) == index), "{} goes to others", index);
        prop_assert_eq!(&one.data, &expected_data, "message {}", index);
    }
    let Some(outcome) = outcome else { return Ok(()) };
    let got = |at| taken.iter().any(|one| one.recipients.contains(&recipient(index, at)));
    for (at, recipient_outcome) in outcome.recipient_outcomes().enumerate() {
        match recipient_outcome {
            RecipientOutcome::Accepted(_) => {
                count(&counts.accepted);
                prop_assert!(got(at), "message {} is reported as taken", index);
            }
            RecipientOutcome::Unknown(_) => count(&counts.unknown),
            RecipientOutcome::Refused(reply) => {
                count(&counts.refused);
                prop_assert!(!got(at), "message {} is reported as refused", index);
                let own = [sender(index), recipient(index, at)];
                prop_assert!(own.iter().any(|own| reply.text.contains(own.as_str())), "{}: {:?}", index, reply);
            }
            RecipientOutcome::Failed(_) => prop_assert!(!got(at), "message {} is reported as not taken", index),
        }
    }
    Ok(())
}

fn play(run: &Run, counts: &Counts) -> Result<(), TestCaseError> {
    let (now, record) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(StrictRecord::default())));
    let mut wire = Wire::open(run, &now, &record);
    let mut outcomes = Vec::new();
    for (index, plan) in run.plans.iter().enumerate() {
        *now.lock().unwrap() = index;
        count(&counts.messages);
        if wire.client.is_ready() && index > 0 {
            count(&counts.on_a_kept_connection);
        } else {
            wire = Wire::open(run, &now, &record);
        }
        outcomes.push(wire.send(index, plan)?);
        if let Some(late) = plan.late {
            wire.client.push(late.as_bytes());
        }
    }
    drop(wire);
    let record = record.lock().unwrap();
    prop_assert_eq!(&record.faults, &Vec::<String>::new());
    for (index, (plan, outcome)) in run.plans.iter().zip(&outcomes).enumerate() {
        compare(index, plan, outcome.as_ref(), &record.taken, counts)?;
    }
    Ok(())
}

#[test]
fn what_the_server_took_is_what_we_report() {
    let counts = Counts::default();
    let mut runner = TestRunner::new(ProptestConfig::default());
    if let Err(error) = runner.run(&run(), |run| play(&run, &counts)) {
        panic!("{error}");
    }
    let Counts { messages, on_a_kept_connection, accepted, refused, unknown } = counts;
    assert!(on_a_kept_connection.get() > messages.get() / 2, "few messages met a kept connection");
    assert!(accepted.get() > 0 && refused.get() > 0 && unknown.get() > 0, "not every kind of outcome was met");
}
