//! Servers whose aliases, catch-alls and rules lead to each other.
//!
//! The servers are real ones, with their listeners and delivery agents on loopback addresses. Another server takes mail for
//! the domains `back0.example` and so on, and sends it back to the same names at `s0.example` and so on.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mailapi_backend::{BounceKey, Mailboxes, Provisioning};
use mailapi_backend_embedded::delivery_agent::{DeliveryAgent, DeliveryAgentSettings};
use mailapi_model::{Alias, DeliveryEvent, EmailAddress, FolderName, Outcome, Page, RuleSet, Timestamp};
use mailapi_testkit::SmtpSink;
use proptest::prelude::*;
use tokio::runtime::Builder;

use crate::mail_host::{MailHost, address};
use crate::rewriting::Rewriting;
use crate::socket::Line;

/// Number of addresses that one message reaches through the aliases and rules of a server.
const MOST: u64 = 15;

/// How long a test watches: the number of addresses counts for a day.
const HOURS: u32 = 20;

/// Number of messages after which the other server sends nothing back any more.
const MOST_SENT_BACK: usize = 1_000;

const MAILBOXES: [&str; 3] = ["box", "away", "fwd"];

/// What a server forwards.
#[derive(Debug, Clone, Default)]
struct ServerPlan {
    /// Names of aliases, `*` among them, with their members.
    aliases: Vec<(String, Vec<String>)>,
    /// Where the rules of the mailbox fwd forward.
    forward: Vec<String>,
}

struct Servers {
    hosts: Vec<MailHost>,
    agents: Vec<DeliveryAgent>,
    /// The other server.
    peer: SmtpSink,
    rewriting: Rewriting,
    /// Number of messages that it has sent back.
    sent_back: AtomicUsize,
}

fn domain(server: usize) -> String {
    format!("s{server}.example")
}

/// Returns the domain whose mail the other server sends back to a server.
fn back_to(server: usize) -> String {
    format!("back{server}.example")
}

impl Servers {
    /// Opens servers that find each other.
    async fn open(plans: &[ServerPlan], max_reached: u64) -> Self {
        let peer = SmtpSink::start().await;
        let port = peer.address().port();
        let (mut hosts, mut agents) = (Vec::new(), Vec::new());
        let ip = |server: usize| Ipv4Addr::new(127, 0, 1, u8::try_from(server + 1).unwrap());
        for (server, plan) in plans.iter().enumerate() {
            let name = format!("mx.{}", domain(server));
            let change = |listeners: &mut mailapi_backend_embedded::ListenerSettings,
                          store: &mut mailapi_backend_embedded::MessageStoreSettings| {
                listeners.hostname.clone_from(&name);
                store.max_reached = max_reached;
                store.return_key = Some(BounceKey::new([7; BounceKey::BYTES]));
            };
            let host = MailHost::open_at(SocketAddr::from((ip(server), port)), change, |_| {}).await;
            for other in 0..plans.len() {
                let exchange = format!("mx.{}", domain(other));
                host.dns.set_mx(&domain(other), &[&exchange]);
                host.dns.set_addresses(&exchange, &[&ip(other).to_string()]);
                host.dns.set_mx(&back_to(other), &["mx.peer.example"]);
            }
            host.dns.set_addresses("mx.peer.example", &[&peer.address().ip().to_string()]);
            furnish(&host, &domain(server), plan).await;
            let settings = DeliveryAgentSettings { port, allow_loopback: true, ..DeliveryAgentSettings::default() };
            agents.push(DeliveryAgent::new(host.message_store.clone(), name, host.dns.clone(), settings).unwrap());
            hosts.push(host);
        }
        Self { hosts, agents, peer, rewriting: Rewriting::Nothing, sent_back: AtomicUsize::new(0) }
    }

    /// Sends a message from outside. Returns whether the server took it.
    async fn arrives(&self, server: usize, sender: &str, recipients: &[String], subject: &str) -> bool {
        let to = recipients.join(", ");
        let message = format!(
            "From: {sender}\r\nTo: {to}, away@s0.example\r\nSubject: {subject}\r\nMessage-ID: <{subject}@far.example>\r\n\
             Date: Fri, 20 Nov 2026 10:15:30 +0000\r\n\r\nHello.\r\n"
        );
        self.takes(server, sender, recipients, &message).await
    }

    async fn takes(&self, server: usize, sender: &str, recipients: &[String], message: &str) -> bool {
        let mut line = Line::to(self.hosts[server].smtp).await;
        line.reply().await;
        line.say("EHLO client.example").await;
        line.say(&format!("MAIL FROM:<{sender}>")).await;
        for recipient in recipients {
            line.say(&format!("RCPT TO:<{recipient}>")).await;
        }
        if !line.say("DATA").await.starts_with("354") {
            return false;
        }
        line.send(message.as_bytes()).await;
        line.say(".").await.starts_with("250")
    }

    /// Lets the other server send back what it has received since the last time. Returns whether it sent any.
    async fn send_back(&self) -> bool {
        let received = self.peer.received();
        let from = self.sent_back.swap(received.len(), Ordering::Relaxed);
        for (number, mail) in received.iter().enumerate().take(MOST_SENT_BACK).skip(from) {
            let copy = self.rewriting.copy(str::from_utf8(&mail.data).unwrap(), number);
            for recipient in &mail.recipients {
                let (name, at) = recipient.split_once('@').unwrap();
                let server = (0..self.hosts.len()).find(|server| back_to(*server) == at);
                // A return address is at another domain.
                let Some(server) = server else { continue };
                self.takes(server, "", &[format!("{name}@{}", domain(server))], &copy).await;
            }
        }
        from < received.len()
    }

    /// Delivers until all queues are empty, or the time has passed.
    async fn settle(&self) {
        for _ in 0..HOURS {
            loop {
                let mut claimed = 0;
                for agent in &self.agents {
                    claimed += agent.deliver_due_once().await.unwrap();
                }
                if !self.send_back().await && claimed == 0 {
                    break;
                }
            }
            let mut is_empty = true;
            for host in &self.hosts {
                is_empty = is_empty && host.queue_is_empty().await;
                host.clock.advance(Duration::from_secs(60 * 60));
            }
            if is_empty {
                return;
            }
        }
    }

    /// Returns how often the mailbox has a message with this subject.
    async fn held(&self, server: usize, mailbox: &str, subject: &str) -> u64 {
        let mailbox = address(&format!("{mailbox}@{}", domain(server)));
        let (mut count, mut offset) = (0, 0);
        loop {
            let page = Page::new(Page::MAX_LIMIT, offset);
            let listed = self.hosts[server].message_store.list(&mailbox, &FolderName::inbox(), page).await.unwrap();
            count += listed.items.iter().filter(|item| item.subject == subject).count() as u64;
            if listed.items.is_empty() {
                return count;
            }
            offset += listed.items.len() as u64;
        }
    }

    async fn held_by_all(&self, subject: &str) -> u64 {
        let mut count = 0;
        for server in 0..self.hosts.len() {
            for mailbox in MAILBOXES {
                count += self.held(server, mailbox, subject).await;
            }
        }
        count
    }

    /// Returns the copies that left a server: those that the next server took, and those that it refused.
    async fn copies(&self, server: usize) -> (usize, usize) {
        let events = self.hosts[server].all_events().await;
        let of = |outcome: Outcome| {
            let is_copy = |event: &&DeliveryEvent| event.final_recipient.is_some() && event.outcome == outcome;
            events
                .iter()
                .filter(is_copy)
                .filter(|event| event.relay.as_deref().is_some_and(|relay| relay != DeliveryEvent::LOCAL_RELAY))
                .count()
        };
        (of(Outcome::Sent), of(Outcome::Bounced))
    }
}

async fn furnish(host: &MailHost, domain: &str, plan: &ServerPlan) {
    let store = &host.message_store;
    store.put_domain(&domain.parse().unwrap()).await.unwrap();
    for mailbox in MAILBOXES {
        store.put_mailbox(&address(&format!("{mailbox}@{domain}")), None).await.unwrap();
    }
    for (name, members) in &plan.aliases {
        let address: EmailAddress = address(&format!("{name}@{domain}"));
        let members = members.iter().map(|member| member.parse().unwrap()).collect();
        let alias =
            Alias { address, members, senders: Vec::new(), active: true, created_at: Timestamp::from_seconds(0) };
        store.put_alias(&alias).await.unwrap();
    }
    let put = async |mailbox: &str, rules: String| {
        let rules = RuleSet::from_text(&rules).unwrap();
        store.put_rules(&address(&format!("{mailbox}@{domain}")), &rules).await.unwrap();
    };
    put("away", "rule\ton\tx\ndo\tvacation\t3\t\tAway\tany@here.example\n".to_owned()).await;
    let forward = |to: &String| format!("do\tforward\t{to}\n");
    if !plan.forward.is_empty() {
        put("fwd", format!("rule\ton\tx\n{}", plan.forward.iter().map(forward).collect::<String>())).await;
    }
}

/// Returns aliases with the same members.
fn aliases(names: &[String], members: &[String]) -> ServerPlan {
    let aliases = names.iter().map(|name| (name.clone(), members.to_vec())).collect();
    ServerPlan { aliases, forward: Vec::new() }
}

fn numbered(prefix: &str, count: usize, end: &str) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}{end}")).collect()
}

#[tokio::test]
async fn two_catch_alls_multiply_a_message_once() {
    let any = ["*".to_owned()];
    let of = |other: usize| aliases(&any, &numbered("u", 6, &format!("@{}", domain(other))));
    let servers = Servers::open(&[of(1), of(0)], 10_000).await;
    assert!(servers.arrives(0, "zoe@far.example", &["first@s0.example".to_owned()], "Marked").await);
    servers.settle().await;
    assert_eq!((servers.copies(0).await, servers.copies(1).await), ((6, 0), (0, 6)), "the second time it is refused");
    assert!(servers.arrives(1, "zoe@far.example", &["box@s1.example".to_owned()], "Honest").await);
    assert_eq!(servers.held(1, "box", "Honest").await, 1);
}

#[tokio::test]
async fn many_aliases_that_lead_to_each_other_reach_few_addresses() {
    let names = numbered("a", 6, "");
    let of = |other: usize| aliases(&names, &numbered("a", 6, &format!("@{}", domain(other))));
    let servers = Servers::open(&[of(1), of(0)], MOST).await;
    assert!(servers.arrives(0, "zoe@far.example", &["a0@s0.example".to_owned()], "Marked").await);
    servers.settle().await;
    let (first, second) = (servers.copies(0).await, servers.copies(1).await);
    let all = [first.0, first.1, second.0, second.1].iter().sum::<usize>() as u64;
    assert!(first.0 >= 6 && all <= 2 * MOST, "{first:?} {second:?}");
}

#[tokio::test]
async fn rules_forward_once_for_all_addresses_of_a_catch_all() {
    let of = |server: usize, other: usize| ServerPlan {
        aliases: vec![("*".to_owned(), vec![format!("fwd@{}", domain(server))])],
        forward: numbered("u", 3, &format!("@{}", domain(other))),
    };
    let servers = Servers::open(&[of(0, 1), of(1, 0)], 10_000).await;
    assert!(servers.arrives(0, "zoe@far.example", &["first@s0.example".to_owned()], "Marked").await);
    servers.settle().await;
    // The first server gets it again three times, and forwards it no further.
    assert_eq!((servers.copies(0).await.0, servers.copies(1).await.0), (3, 3));
    assert_eq!((servers.held(0, "fwd", "Marked").await, servers.held(1, "fwd", "Marked").await), (2, 1));
}

/// Opens a server whose aliases, catch-all and rules forward to a second one, where all copies end in one mailbox.
async fn before_a_mailbox() -> Servers {
    let (far, many) = (|name: &str| numbered(name, 6, "@s1.example"), numbered("m", 6, "@s1.example"));
    let aliases = vec![("a0".to_owned(), many), ("*".to_owned(), far("u"))];
    let first = ServerPlan { aliases, forward: far("f") };
    let second = ServerPlan { aliases: vec![("*".to_owned(), vec!["box@s1.example".to_owned()])], forward: Vec::new() };
    Servers::open(&[first, second], 10_000).await
}

#[tokio::test]
async fn copies_without_trace_fields_are_forwarded_a_few_times() {
    let servers = before_a_mailbox().await;
    let (mut taken, mut held) = (0, 0);
    // Another server removes `Received` and `Delivered-To`, and keeps the identifier and the date.
    for round in 0..60 {
        let recipient = format!("u{}@s0.example", round % 30);
        taken += u64::from(servers.arrives(0, "zoe@far.example", &[recipient], "Marked").await);
        for (recipient, number) in [("a0@s0.example", 3), ("fwd@s0.example", 60)] {
            let is_taken = servers.arrives(0, "zoe@far.example", &[recipient.to_owned()], "Marked").await;
            assert_eq!(is_taken, round < number, "{recipient}, round {round}");
        }
        held = servers.held(0, "fwd", "Marked").await;
    }
    let with_tag = ["a0+t@s0.example".to_owned()];
    assert!(!servers.arrives(0, "zoe@far.example", &with_tag, "Marked").await, "a tag makes no other alias");
    assert_eq!((taken, held), (20, 60), "the catch-all forwards it 20 times, and the mailbox has each copy");
    servers.settle().await;
    assert_eq!(servers.copies(0).await, (6 * (20 + 3 + 3), 0));
    assert!(servers.arrives(0, "zoe@far.example", &["a0@s0.example".to_owned()], "Another").await);
}

#[tokio::test]
async fn a_message_that_comes_on_several_ways_is_forwarded() {
    let servers = before_a_mailbox().await;
    for recipient in ["x1", "x2", "x3", "x4", "a0", "a0+list", "box"].map(|name| format!("{name}@s0.example")) {
        assert!(servers.arrives(0, "zoe@far.example", &[recipient], "Marked").await);
    }
    servers.settle().await;
    assert_eq!((servers.copies(0).await, servers.held(0, "box", "Marked").await), ((6 * 6, 0), 1));
}

#[tokio::test]
async fn a_server_that_rewrites_the_header_gets_a_message_a_few_times() {
    let names = ["a0".to_owned(), "a1".to_owned()];
    let members = ["a0@back0.example", "a1@back0.example", "box@s0.example"].map(str::to_owned);
    for rewriting in Rewriting::ALL {
        let mut servers = Servers::open(&[aliases(&names, &members)], 10_000).await;
        servers.rewriting = rewriting;
        assert!(servers.arrives(0, "zoe@far.example", &["a0@s0.example".to_owned()], "Marked").await);
        servers.settle().await;
        let (copies, held) = (servers.copies(0).await, servers.held(0, "box", "Marked").await);
        assert!((2..=2 * 3 * 2).contains(&copies.0) && copies.1 == 0, "{rewriting:?}: {copies:?}");
        assert_eq!(held, 1 + copies.0 as u64, "the mailbox has each copy that came back ({rewriting:?})");
    }
}

#[tokio::test]
async fn rules_forward_a_rewritten_message_a_few_times() {
    let forward = vec!["fwd@back0.example".to_owned(), "fwd+t@back0.example".to_owned()];
    for rewriting in Rewriting::ALL {
        let plan = ServerPlan { aliases: Vec::new(), forward: forward.clone() };
        let mut servers = Servers::open(&[plan], 10_000).await;
        servers.rewriting = rewriting;
        assert!(servers.arrives(0, "zoe@far.example", &["fwd@s0.example".to_owned()], "Marked").await);
        servers.settle().await;
        let (copies, held) = (servers.copies(0).await, servers.held(0, "fwd", "Marked").await);
        assert!((2..=2 * 3).contains(&copies.0) && copies.1 == 0, "{rewriting:?}: {copies:?}");
        assert_eq!(held, 1 + copies.0 as u64, "{rewriting:?}");
    }
}

/// Returns an alarm of a device that gives all its messages one identifier, and no date.
fn alarm(text: &str) -> String {
    format!("From: ups@far.example\r\nSubject: Alarm\r\nMessage-ID: <ups@far.example>\r\n\r\n{text}\r\n")
}

#[tokio::test]
async fn a_device_with_one_identifier_reaches_everybody() {
    let members = ["box@s0.example", "u1@s1.example"].map(str::to_owned);
    let first = aliases(&["team".to_owned()], &members);
    let second = aliases(&["*".to_owned()], &["box@s1.example".to_owned()]);
    let servers = Servers::open(&[first, second], 10_000).await;
    let team = ["team@s0.example".to_owned()];
    for number in 0..5 {
        assert!(servers.takes(0, "ups@far.example", &team, &alarm(&format!("Alarm {number}"))).await);
    }
    servers.settle().await;
    assert_eq!([servers.held(0, "box", "Alarm").await, servers.held(1, "box", "Alarm").await], [5, 5]);
    // The same text could be a copy that came back, so other servers get it a few times.
    for _ in 0..5 {
        assert!(servers.takes(0, "ups@far.example", &team, &alarm("No power")).await);
    }
    servers.settle().await;
    assert_eq!([servers.held(0, "box", "Alarm").await, servers.held(1, "box", "Alarm").await], [10, 8]);
    let failed = servers.hosts[0].all_events().await.into_iter().filter(|event| event.outcome == Outcome::Bounced);
    let failed: Vec<_> = failed.map(|event| (event.recipient.to_string(), event.final_recipient)).collect();
    assert_eq!(failed, vec![(team[0].clone(), Some(address(&team[0]))); 2], "the log has it, without a notice");
}

#[tokio::test]
async fn members_here_get_a_message_that_has_passed_too_often() {
    let members = ["box@s0.example", "u1@s1.example"].map(str::to_owned);
    let names = ["team", "far"].map(str::to_owned);
    let mut plan = aliases(&names[..1], &members);
    plan.aliases.extend(aliases(&names[1..], &members[1..]).aliases);
    let servers = Servers::open(&[plan], 10_000).await;
    let message = "Received: from a by mx.s0.example; x\r\n".repeat(2) + "Subject: Marked\r\n\r\nx\r\n";
    assert!(servers.takes(0, "zoe@far.example", &["team@s0.example".to_owned()], &message).await);
    assert!(!servers.takes(0, "zoe@far.example", &["far@s0.example".to_owned()], &message).await);
    assert_eq!((servers.held(0, "box", "Marked").await, servers.hosts[0].queue_is_empty().await), (1, true));
}

/// An address of one of these servers: a mailbox, an alias, one with a tag, or one of the catch-all. Mail for some goes
/// through the other server.
fn any_address(servers: usize) -> impl Strategy<Value = String> {
    const NAMES: &[&str] = &["box", "away", "fwd", "a0", "a1", "a2", "a0+t", "fwd+t", "x1", "x2", "x3"];
    let is_sent_back = prop::bool::weighted(0.3);
    (prop::sample::select(NAMES), 0..servers, is_sent_back).prop_map(|(name, server, is_sent_back)| {
        format!("{name}@{}", if is_sent_back { back_to(server) } else { domain(server) })
    })
}

fn any_plan(servers: usize) -> impl Strategy<Value = ServerPlan> {
    let members = || prop::collection::btree_set(any_address(servers), 1..6);
    let aliases = ["a0", "a1", "a2", "*"].map(|name| {
        let members = members().prop_map(|members| members.into_iter().collect::<Vec<_>>());
        prop::option::weighted(0.8, members).prop_map(move |members| members.map(|members| (name.to_owned(), members)))
    });
    let forward = prop::collection::btree_set(any_address(servers), 0..4);
    (aliases, forward).prop_map(|(aliases, forward)| ServerPlan {
        aliases: aliases.into_iter().flatten().collect(),
        forward: forward.into_iter().collect(),
    })
}

type Sent = (Vec<ServerPlan>, Vec<String>, String, Rewriting);

fn any_message() -> impl Strategy<Value = Sent> {
    (2_usize..=4).prop_flat_map(|servers| {
        let recipient = any_address(1).prop_map(|address| address.replace(&back_to(0), &domain(0)));
        let recipients = prop::collection::btree_set(recipient, 1..4).prop_map(|set| set.into_iter().collect());
        let sender = prop_oneof![Just("zoe@far.example".to_owned()), any_address(servers)];
        (prop::collection::vec(any_plan(servers), servers), recipients, sender, Rewriting::any())
    })
}

async fn check((plans, recipients, sender, rewriting): Sent) {
    let mut plans = plans;
    let last = plans.len() - 1;
    plans[0].aliases.push(("quiet".to_owned(), vec![format!("box@{}", domain(last))]));
    let mut servers = Servers::open(&plans, MOST).await;
    servers.rewriting = rewriting;
    servers.arrives(0, &sender, &recipients, "Marked").await;
    servers.settle().await;
    let (held, most) = (servers.held_by_all("Marked").await, recipients.len() as u64 + MOST * plans.len() as u64);
    assert!(held <= most, "{held} deliveries, at most {most}");
    // The others have no less.
    let honest = ["box@s0.example", "quiet@s0.example"].map(str::to_owned);
    assert!(servers.arrives(0, "zoe@far.example", &honest, "Honest").await);
    servers.settle().await;
    assert_eq!([servers.held(0, "box", "Honest").await, servers.held(last, "box", "Honest").await], [1, 1]);
}

proptest! {
    // A case opens up to four servers.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_message_makes_a_bounded_number_of_deliveries(sent in any_message()) {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(check(sent));
    }
}
