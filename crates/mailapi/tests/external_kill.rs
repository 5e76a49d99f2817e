//! Any process is killed while mail is being sent. Each message that was answered with 202 was submitted once and
//! arrives, its reported status is true, and no message stays undecided.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod external_host;
mod support;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use external_host::{Client, Engine, ExternalHost};
use mailapi_model::Entropy;
use mailapi_testkit::SeededEntropy;
use serde_json::{Value, json};
use support::{ALL_ACCOUNTED_FOR, MEASURED};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Number of sends.
const SENDS: usize = 2000;
/// Number of concurrent sends.
const AT_ONCE: usize = 16;
/// Sends of each client before the next kill.
const IN_A_ROW: usize = 5;
/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);
const PAGE: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Mailapi,
    Postfix,
    Dovecot,
    MailapiWithPostfix,
}

const VICTIMS: [Victim; 4] = [Victim::Mailapi, Victim::Postfix, Victim::Dovecot, Victim::MailapiWithPostfix];

#[expect(clippy::print_stdout, reason = "the figures are a result, shown with --nocapture")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_sends_survive_random_kills() {
    let mut host = ExternalHost::open_on(Engine::Sqlite, &[MEASURED], |postfix| postfix.separate_logger = true).await;
    let chance = SeededEntropy::new(2026);
    let (numbers, mut taken, mut kills) = (Arc::new(AtomicUsize::new(0)), Vec::new(), HashMap::new());
    while numbers.load(Ordering::SeqCst) < SENDS {
        // After a failure, the servers get a moment to restart.
        host.send_when_it_works(&["ann@example.org"], PATIENCE).await;
        let victim = VICTIMS[one_of(&chance, VICTIMS.len())];
        let mut cycle = KillCycle::begin(host.client(), &numbers);
        cycle.wait_for(1 + one_of(&chance, AT_ONCE * IN_A_ROW - 1)).await;
        kill(&mut host, victim).await;
        *kills.entry(format!("{victim:?}")).or_insert(0) += 1;
        taken.extend(cycle.end().await);
    }

    let pending = async || host.get("/mail/sent?status=pending").await.expect(200)["total"] == 0;
    host.until(PATIENCE, pending).await;
    for (number, id) in &taken {
        let seen = host.watch(id, "sent", PATIENCE).await;
        assert_eq!(seen["recipients"].as_array().unwrap().len(), 2, "{number}: {seen}");
    }
    let everything = Everything::of(&host).await;
    everything.check(&taken);
    let metrics = host.metrics().await;
    assert!(metrics.contains(ALL_ACCOUNTED_FOR), "{metrics}");
    println!(
        "{kills:?}; {} sends, {} answered 202; {}",
        numbers.load(Ordering::SeqCst),
        taken.len(),
        everything.summary()
    );
}

fn one_of(chance: &SeededEntropy, count: usize) -> usize {
    let mut bytes = [0; 8];
    chance.fill(&mut bytes);
    usize::try_from(u64::from_le_bytes(bytes) % count as u64).unwrap()
}

async fn kill(host: &mut ExternalHost, victim: Victim) {
    match victim {
        Victim::Mailapi => host.kill_mailapi(),
        Victim::Dovecot => {
            host.dovecot.kill().await;
            host.dovecot.resume().await;
        }
        Victim::Postfix => {
            host.postfix.kill();
            host.postfix.restart().await;
        }
        Victim::MailapiWithPostfix => {
            host.postfix.kill();
            host.kill_mailapi();
            host.postfix.restart().await;
        }
    }
}

/// Clients that send until each has sent enough or fails.
struct KillCycle {
    senders: JoinSet<()>,
    answers: mpsc::UnboundedReceiver<(usize, String)>,
    taken: Vec<(usize, String)>,
}

impl KillCycle {
    fn begin(client: Client, numbers: &Arc<AtomicUsize>) -> Self {
        let (sender, answers) = mpsc::unbounded_channel();
        let mut senders = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (client, numbers, sender) = (client.clone(), numbers.clone(), sender.clone());
            senders.spawn(async move {
                for _ in 0..IN_A_ROW {
                    let number = numbers.fetch_add(1, Ordering::SeqCst);
                    let Some(id) = send(&client, number).await else { return };
                    sender.send((number, id)).unwrap();
                }
            });
        }
        Self { senders, answers, taken: Vec::new() }
    }

    /// Waits until `count` messages were accepted.
    async fn wait_for(&mut self, count: usize) {
        while self.taken.len() < count {
            let Some(answer) = self.answers.recv().await else { return };
            self.taken.push(answer);
        }
    }

    /// Waits for all clients; returns the messages that were answered with 202, with their numbers.
    async fn end(mut self) -> Vec<(usize, String)> {
        self.senders.join_all().await;
        while let Some(answer) = self.answers.recv().await {
            self.taken.push(answer);
        }
        self.taken
    }
}

fn remote(number: usize) -> String {
    format!("r{number}@elsewhere.example")
}

fn subject(number: usize) -> String {
    format!("number {number}")
}

/// Sends a message; returns its identifier if it was answered with 202.
async fn send(client: &Client, number: usize) -> Option<String> {
    let to = [remote(number), "bob@example.org".to_owned()];
    let message =
        json!({ "from": "ann@example.org", "to": to, "subject": subject(number), "body": { "text": "It works." } });
    let (status, answer) = client.post("/mail/send", &message).await?;
    (status == 202).then(|| answer["message_id"].as_str().unwrap().to_owned())
}

/// Outcome of all numbered messages, from each source.
struct Everything {
    /// Identifier and status from the API, by subject.
    listed: HashMap<String, (String, String)>,
    /// Copies that the remote server received, by recipient.
    remote: HashMap<String, usize>,
    /// Copies in the local mailbox, by subject.
    local: HashMap<String, usize>,
    log: Log,
}

impl Everything {
    async fn of(host: &ExternalHost) -> Self {
        let listed = pages(host, "/mail/sent?", "messages").await;
        let text = |message: &Value, field: &str| message[field].as_str().unwrap_or_default().to_owned();
        let listed = listed.iter().map(|one| (text(one, "subject"), (text(one, "message_id"), text(one, "status"))));
        let listed = listed.filter(|(subject, _)| subject.starts_with("number ")).collect();
        let local = pages(host, "/mailbox/bob@example.org/messages?", "messages").await;
        let mut remote = HashMap::new();
        for recipient in host.sink.received().into_iter().flat_map(|mail| mail.recipients) {
            *remote.entry(recipient).or_insert(0) += 1;
        }
        let log = Log::read(&fs::read_to_string(&host.log).unwrap());
        Self { listed, remote, local: counted(local.iter().map(|one| text(one, "subject"))), log }
    }

    fn check(&self, taken: &[(usize, String)]) {
        for (number, id) in taken {
            assert_eq!(self.listed[&subject(*number)], (id.clone(), "sent".to_owned()));
        }
        for (subject, (id, status)) in &self.listed {
            let (_, number) = subject.split_once(' ').unwrap();
            let copies =
                (self.copies(&self.remote, &remote(number.parse().unwrap())), self.copies(&self.local, subject));
            let queue_ids = self.log.entered.get(id).map_or(&[][..], Vec::as_slice);
            match status.as_str() {
                "failed" => assert_eq!(copies, (0, 0), "{subject} ({id}) is `failed`, but was delivered"),
                "sent" => {
                    assert_eq!(queue_ids.len(), 1, "{subject} ({id}) was submitted as {queue_ids:?}");
                    let may_repeat = self.log.may_repeat(&queue_ids[0]);
                    let is_right = |count: usize| count == 1 || count > 1 && may_repeat;
                    assert!(is_right(copies.0) && is_right(copies.1), "{subject} ({id}) has {copies:?} copies");
                }
                other => panic!("{subject} ({id}) is {other}"),
            }
        }
    }

    fn copies(&self, counts: &HashMap<String, usize>, key: &str) -> usize {
        counts.get(key).copied().unwrap_or_default()
    }

    fn summary(&self) -> String {
        let repeated = |counts: &HashMap<String, usize>| counts.values().filter(|count| **count > 1).count();
        let with = |status: &str| self.listed.values().filter(|(_, is)| is == status).count();
        let (sent, failed) = (with("sent"), with("failed"));
        let (remote, local) = (repeated(&self.remote), repeated(&self.local));
        format!("sent {sent}, failed {failed}; repeated by Postfix: {remote} remote, {local} local")
    }
}

/// Contents of Postfix's log, read independently of mailapi.
struct Log {
    /// Queue ids under which each of our identifiers entered.
    entered: HashMap<String, Vec<String>>,
    /// Queue ids that were in the queue during a kill, or whose LMTP delivery was cut off.
    troubled: HashSet<String>,
}

impl Log {
    fn read(log: &str) -> Self {
        let (mut entered, mut troubled) = (HashMap::<String, Vec<String>>::new(), HashSet::<String>::new());
        let mut present = HashSet::<String>::new();
        for line in log.lines() {
            let text = line.split_once("]: ").map_or("", |(_, text)| text);
            if text.starts_with("daemon started") {
                troubled.extend(present.iter().cloned());
            }
            let Some((id, said)) = text.split_once(": ") else { continue };
            if let Some(header) = said.strip_prefix("message-id=<") {
                let ours = header.split('@').next().unwrap().to_owned();
                entered.entry(ours).or_default().push(id.to_owned());
                present.insert(id.to_owned());
            }
            if said == "removed" {
                present.remove(id);
            }
            if line.contains("/lmtp[") && said.contains("status=deferred") {
                troubled.insert(id.to_owned());
            }
        }
        Self { entered, troubled }
    }

    /// Postfix repeats a delivery when it is killed between the next hop's response and its own record of it. It
    /// also repeats one when the next hop is killed before its response. SMTP cannot promise more (RFC 1047).
    fn may_repeat(&self, queue_id: &str) -> bool {
        self.troubled.contains(queue_id)
    }
}

fn counted(keys: impl Iterator<Item = String>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    keys.for_each(|key| *counts.entry(key).or_insert(0) += 1);
    counts
}

/// Returns all entries of a list.
async fn pages(host: &ExternalHost, path: &str, name: &str) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let page = host.get(&format!("{path}limit={PAGE}&offset={}", all.len())).await.expect(200);
        let entries = page[name].as_array().unwrap();
        all.extend(entries.iter().cloned());
        if entries.len() < PAGE {
            return all;
        }
    }
}
