//! Bounces from outside, in addition to the results of the delivery agent.

use std::net::SocketAddr;

use mailapi_backend::{BounceKey, Provisioning, ReturnAddress};
use mailapi_model::{Alias, EmailAddress, Entropy, Evidence, MessageId, Outcome, Timestamp};
use mailapi_testkit::{SeededEntropy, SmtpSink};

use crate::mail_host::{MailHost, mail};
use crate::socket::Line;

const ZOE: &str = "zoe@far.example";

/// Submits a message from ann to zoe, as the API does.
async fn sent(host: &MailHost, entropy: &dyn Entropy) -> MessageId {
    let id = MessageId::random(Timestamp::from_millis(0), entropy);
    let message = format!("Message-ID: <{id}@here.example>\r\n{}", mail("Hi"));
    let mut outgoing = host.outgoing(&[ZOE], &message);
    outgoing.message_id = Some(id);
    host.message_store.accept(outgoing).await.unwrap();
    id
}

/// Sends a bounce about zoe. Returns the reply.
async fn submitted(smtp: SocketAddr, to: &str, id: MessageId) -> String {
    let mut line = Line::to(smtp).await;
    line.reply().await;
    for command in ["EHLO mx.far.example", "MAIL FROM:<>", &format!("RCPT TO:<{to}>")] {
        assert!(line.say(command).await.starts_with("250"), "{command}");
    }
    assert!(line.say("DATA").await.starts_with("354"));
    let notice = format!(
        "From: MAILER-DAEMON@far.example\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n\
         --b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.far.example\r\n\r\n\
         Final-Recipient: rfc822; {ZOE}\r\nAction: failed\r\nStatus: 5.2.2\r\n\
         Diagnostic-Code: smtp; 552 5.2.2 full\r\n\r\n\
         --b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: <{id}@here.example>\r\n\r\n--b--\r\n."
    );
    line.say(&notice).await
}

/// Returns the feed's events about zoe.
async fn reported(host: &MailHost) -> Vec<(Outcome, Evidence)> {
    let events = host.events().await;
    events.iter().filter(|event| event.recipient.as_str() == ZOE).map(|event| (event.outcome, event.evidence)).collect()
}

/// Opens a server whose messages have return addresses: the MX records of its domain name it.
async fn open() -> MailHost {
    let key = BounceKey::new([7; BounceKey::BYTES]);
    let host = MailHost::open_with(|_, message_store| message_store.return_key = Some(key)).await;
    host.dns.set_mx("here.example", &["mx.far.example", "MX.here.example."]);
    host
}

/// Returns the return address of a message.
fn address_of(id: MessageId) -> String {
    let key = BounceKey::new([7; BounceKey::BYTES]);
    ReturnAddress::new("bounces@here.example".parse().unwrap(), '+', &key).unwrap().of(id)
}

/// Returns the reverse-path of the sink's last message.
fn return_address(sink: &SmtpSink) -> String {
    sink.received().last().unwrap().sender.clone()
}

const ANN: &str = "ann@here.example";

#[tokio::test]
async fn who_knows_only_the_message_id_bounces_nothing() {
    let (host, sink) = (open().await, SmtpSink::start().await);
    let id = sent(&host, &SeededEntropy::new(7)).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let address = return_address(&sink);
    assert!(address.starts_with("bounces+") && address.ends_with("@here.example"), "{address}");
    assert!(submitted(host.smtp, ANN, id).await.starts_with("250"));
    assert_eq!(reported(&host).await, [SENT]);
    assert_eq!(host.inbox(ANN).await.len(), 1, "it is delivered as ordinary mail");
    let last = if address.contains("0@") { "1@" } else { "0@" };
    let at = address.find('@').unwrap();
    let other = format!("{}{last}{}", &address[..at - 1], &address[at + 1..]);
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in ["EHLO mx.far.example", "MAIL FROM:<>"] {
        line.say(command).await;
    }
    assert!(line.say(&format!("RCPT TO:<{other}>")).await.starts_with("550 5.1.1"), "{other}");
    assert!(submitted(host.smtp, &address.to_uppercase(), id).await.starts_with("250"));
    assert_eq!(reported(&host).await, [SENT, CAME_BACK]);
    assert_eq!(host.inbox(ANN).await.len(), 2);
}

const DEFERRED: (Outcome, Evidence) = (Outcome::Deferred, Evidence::MailServer);
const SENT: (Outcome, Evidence) = (Outcome::Sent, Evidence::MailServer);
const REFUSED: (Outcome, Evidence) = (Outcome::Bounced, Evidence::MailServer);
const CAME_BACK: (Outcome, Evidence) = (Outcome::Bounced, Evidence::ReturnedMail);

#[tokio::test]
async fn a_notice_about_a_queued_recipient_bounces_nothing() {
    let (host, sink) = (open().await, SmtpSink::start().await);
    sink.refuse(ZOE, &["451 4.7.1 Later"]);
    let id = sent(&host, &SeededEntropy::new(7)).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert!(submitted(host.smtp, &address_of(id), id).await.starts_with("250"));
    assert_eq!(reported(&host).await, [DEFERRED]);
    assert_eq!(host.inbox("ann@here.example").await.len(), 1, "it is delivered as ordinary mail");

    host.wait(60);
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(reported(&host).await, [DEFERRED, SENT]);
    for _ in 0..2 {
        assert!(submitted(host.smtp, &address_of(id), id).await.starts_with("250"));
        assert_eq!(reported(&host).await, [DEFERRED, SENT, CAME_BACK]);
    }
}

#[tokio::test]
async fn a_notice_after_our_own_bounce_adds_no_second_one() {
    let (host, sink) = (open().await, SmtpSink::start().await);
    sink.refuse(ZOE, &["550 5.1.1 Unknown"]);
    let id = sent(&host, &SeededEntropy::new(7)).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(reported(&host).await, [REFUSED]);
    assert!(host.inbox("ann@here.example").await[0].contains("Action: failed\r\n"));
    assert!(submitted(host.smtp, &address_of(id), id).await.starts_with("250"));
    assert_eq!(reported(&host).await, [REFUSED], "the message never left this server");
}

#[tokio::test]
async fn a_bounce_of_a_mail_program_s_message_is_none_of_the_api_s() {
    let (host, sink) = (open().await, SmtpSink::start().await);
    let id = sent(&host, &SeededEntropy::new(7)).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    // A mail client resends the message with its header.
    sink.refuse(ZOE, &["550 5.1.1 Unknown"]);
    host.send(&[ZOE], &format!("Message-ID: <{id}@here.example>\r\n{}", mail("Hi"))).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(reported(&host).await, [SENT, REFUSED]);
    let events = host.events().await;
    assert!(events.iter().all(|event| event.outcome != Outcome::Bounced || event.message_id.is_none()), "{events:?}");
}

#[tokio::test]
async fn bounces_go_to_the_author_where_the_mx_is_not_ours() {
    type Arrange = fn(&MailHost);
    let cases: [(&str, Arrange); 4] = [
        ("another provider's", |host| host.dns.set_mx("here.example", &["mx.far.example", "not-mx.here.example"])),
        ("none", |host| host.dns.set_mx("here.example", &[])),
        ("the null MX", |host| host.dns.set_mx("here.example", &["."])),
        ("not known", |host| host.dns.silence("here.example")),
    ];
    for (what, arrange) in cases {
        let (host, sink) = (open().await, SmtpSink::start().await);
        arrange(&host);
        sent(&host, &SeededEntropy::new(7)).await;
        host.agent_to(&sink).deliver_due_once().await.unwrap();
        assert_eq!(return_address(&sink), ANN, "{what}");
    }
}

#[tokio::test]
async fn the_reverse_path_is_the_author_s_address_as_given() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let mut outgoing = host.outgoing(&[ZOE], &mail("Hi"));
    outgoing.sender = Some(EmailAddress::as_given("Ann@here.example").unwrap());
    host.message_store.accept(outgoing).await.unwrap();
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(return_address(&sink), "Ann@here.example");
}

#[tokio::test]
async fn a_return_address_leads_nowhere_in_another_domain() {
    let (host, sink) = (open().await, SmtpSink::start().await);
    let id = sent(&host, &SeededEntropy::new(7)).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    for command in ["EHLO mx.far.example", "MAIL FROM:<>"] {
        line.say(command).await;
    }
    for (domain, answer) in [("team.example", "550 5.1.1"), ("far.example", "550 5.7.1"), ("here.example", "250")] {
        let moved = address_of(id).replace("here.example", domain);
        assert!(line.say(&format!("RCPT TO:<{moved}>")).await.starts_with(answer), "{moved}");
    }
}

#[tokio::test]
async fn a_bounce_to_an_alias_causes_no_further_one() {
    let (host, sink) = (open().await, SmtpSink::start().await);
    let address = |text: &str| text.parse::<EmailAddress>().unwrap();
    let members = vec![address("bob@here.example"), address("tim@other.example")];
    let team = Alias {
        address: address("team@here.example"),
        members,
        senders: Vec::new(),
        active: true,
        created_at: Timestamp::from_millis(0),
    };
    host.message_store.put_alias(&team).await.unwrap();
    let id = MessageId::random(Timestamp::from_millis(0), &SeededEntropy::new(1));
    let mut outgoing = host.outgoing(&[ZOE], &mail("Hi"));
    (outgoing.message_id, outgoing.sender) = (Some(id), Some(team.address));
    host.message_store.accept(outgoing).await.unwrap();
    sink.refuse("tim@other.example", &["550 5.1.1 Unknown"]);
    let agent = host.agent_to(&sink);
    agent.deliver_due_once().await.unwrap();
    assert!(submitted(host.smtp, &address_of(id), id).await.starts_with("250"));
    agent.deliver_due_once().await.unwrap();
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
    assert!(host.queue_is_empty().await && sink.received().len() == 1, "the null sender gets no notice");
}
