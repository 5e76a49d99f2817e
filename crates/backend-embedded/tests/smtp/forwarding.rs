//! Aliases with members at other servers.

use std::time::Duration;

use mailapi_backend::{BounceKey, InboundAction, Judgement, Provisioning};
use mailapi_model::{Alias, Outcome, Timestamp};
use mailapi_testkit::{Received, SmtpSink};

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SIGNED: &str = "DKIM-Signature: v=1; d=far.example; s=s1;\r\n\tb=x\r\nFrom: zoe@far.example\r\n\
                      Subject:  Two  spaces\r\n\r\n Kept.\t\r\n";

/// Opens a server with the alias team@here.example.
async fn with_team(members: &[&str]) -> (MailHost, SmtpSink) {
    let key = BounceKey::new([7; BounceKey::BYTES]);
    let host = MailHost::open_with(|_, message_store| message_store.return_key = Some(key)).await;
    let members = members.iter().map(|member| address(member)).collect();
    let (address, created_at) = (address("team@here.example"), Timestamp::from_seconds(0));
    host.message_store
        .put_alias(&Alias { address, members, senders: Vec::new(), active: true, created_at })
        .await
        .unwrap();
    (host, SmtpSink::start().await)
}

/// Sends a message from outside; returns the replies to RCPT and to the end of the message.
async fn arrives(host: &MailHost, sender: &str, recipient: &str, message: &str) -> (String, String) {
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO mx.far.example").await;
    line.say(&format!("MAIL FROM:<{sender}>")).await;
    let to_recipient = line.say(&format!("RCPT TO:<{recipient}>")).await;
    if !to_recipient.starts_with("250") {
        return (to_recipient, String::new());
    }
    line.say("DATA").await;
    line.send(message.as_bytes()).await;
    (to_recipient, line.say(".").await)
}

async fn forwarded(host: &MailHost, sink: &SmtpSink) -> Vec<Received> {
    host.agent_to(sink).deliver_due_once().await.unwrap();
    sink.received()
}

/// Returns the reports: recipient, address that was tried, outcome.
async fn reported(host: &MailHost) -> Vec<(String, String, Outcome)> {
    let tried = |event: &mailapi_model::DeliveryEvent| {
        let tried = event.final_recipient.as_ref().map_or("-", |tried| tried.as_str());
        (event.recipient.to_string(), tried.to_owned(), event.outcome)
    };
    host.events().await.iter().map(tried).collect()
}

fn team(tried: &str, outcome: Outcome) -> (String, String, Outcome) {
    ("team@here.example".to_owned(), tried.to_owned(), outcome)
}

#[tokio::test]
async fn a_forwarded_message_keeps_its_octets_and_gets_our_sender() {
    let (host, sink) = with_team(&["bob@here.example", "tim@other.example"]).await;
    let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    assert!(reply.starts_with("250"), "{reply}");
    let received = forwarded(&host, &sink).await;
    let [mail] = &received[..] else { panic!("{received:?}") };
    assert_eq!(mail.recipients, ["tim@other.example"]);
    assert!(mail.sender.starts_with("SRS0=") && mail.sender.ends_with("=far.example=zoe@here.example"));
    let text = String::from_utf8(mail.data.clone()).unwrap();
    let trace = text.strip_suffix(SIGNED).expect("the octets after the trace fields");
    let trace = trace.strip_prefix("Delivered-To: team@here.example\r\n").expect("the alias");
    assert!(trace.starts_with("Received: ") && !trace.contains("Return-Path"), "{trace}");
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
    let expected = [team("bob@here.example", Outcome::Sent), team("tim@other.example", Outcome::Sent)];
    assert_eq!(reported(&host).await, expected);
}

#[tokio::test]
async fn bounces_of_forwarded_mail_go_back_to_its_sender() {
    let (host, sink) = with_team(&["tim@other.example"]).await;
    arrives(&host, "Zoe@far.example", "team@here.example", SIGNED).await;
    let ours = forwarded(&host, &sink).await.remove(0).sender;
    let (to_recipient, reply) = arrives(&host, "", &ours, "From: <>\r\nSubject: Undeliverable\r\n\r\nx\r\n").await;
    assert!(to_recipient.starts_with("250") && reply.starts_with("250"), "{to_recipient} {reply}");
    let received = forwarded(&host, &sink).await;
    assert_eq!((received[1].sender.as_str(), &received[1].recipients[..]), ("", &["Zoe@far.example".to_owned()][..]));
}

#[tokio::test]
async fn return_addresses_relay_nothing_else() {
    let (host, sink) = with_team(&["tim@other.example"]).await;
    arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    let ours = forwarded(&host, &sink).await.remove(0).sender;
    for (sender, recipient) in [
        ("eve@far.example", ours.clone()),
        ("", ours.replace("=zoe@", "=eve@")),
        ("", ours.replace("far.example", "victim.example")),
        ("", "SRS0=aaaaaaaaaa=aa=victim.example=eve@here.example".to_owned()),
    ] {
        let (to_recipient, _) = arrives(&host, sender, &recipient, SIGNED).await;
        assert!(to_recipient.starts_with("550 5.7.1"), "{sender} {recipient}: {to_recipient}");
    }
    host.clock.advance(20 * DAY);
    let (to_recipient, _) = arrives(&host, "", &ours, SIGNED).await;
    assert_eq!(to_recipient, "550 5.7.1 the return address has expired");
    let foreign = ours.replace("@here.example", "@elsewhere.example");
    assert!(arrives(&host, "", &foreign, SIGNED).await.0.starts_with("550 5.7.1"), "no relay");
    assert!(host.queue_is_empty().await);
}

#[tokio::test]
async fn an_alias_has_failed_when_every_member_has() {
    let (host, sink) = with_team(&["tim@other.example", "joe@other.example"]).await;
    sink.refuse("tim@other.example", &["550 5.1.1 Unknown"]);
    sink.refuse("joe@other.example", &["450 4.2.1 Later", "550 5.1.1 Unknown"]);
    host.send(&["team@here.example"], &mail("Hi")).await;
    forwarded(&host, &sink).await;
    let mut expected = vec![team("tim@other.example", Outcome::Bounced), team("joe@other.example", Outcome::Deferred)];
    assert_eq!(reported(&host).await[..2], expected);
    host.wait(60);
    forwarded(&host, &sink).await;
    expected.extend([team("joe@other.example", Outcome::Bounced), team("-", Outcome::Bounced)]);
    let of_team = reported(&host).await.into_iter().filter(|(recipient, ..)| recipient == "team@here.example");
    assert_eq!(of_team.collect::<Vec<_>>(), expected);
    let notices = host.inbox("ann@here.example").await;
    assert!(notices.iter().all(|notice| notice.contains("Final-Recipient: rfc822;team@here.example\r\n")));
    assert!(!notices.concat().contains("Final-Recipient: rfc822;tim@"), "{notices:?}");
}

#[tokio::test]
async fn an_alias_with_one_delivered_member_has_not_failed() {
    let (host, sink) = with_team(&["tim@other.example", "joe@other.example"]).await;
    sink.refuse("joe@other.example", &["450 4.2.1 Later", "550 5.1.1 Unknown"]);
    host.send(&["team@here.example"], &mail("Hi")).await;
    forwarded(&host, &sink).await;
    host.wait(60);
    forwarded(&host, &sink).await;
    let of_team = reported(&host).await.into_iter().filter(|(recipient, ..)| recipient == "team@here.example");
    let expected = [
        team("tim@other.example", Outcome::Sent),
        team("joe@other.example", Outcome::Deferred),
        team("joe@other.example", Outcome::Bounced),
    ];
    assert_eq!(of_team.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn an_alias_fails_with_one_notice() {
    let members = ["a@one.example", "b@one.example", "c@two.example", "d@three.example"];
    let (host, sink) = with_team(&members).await;
    for member in &members[..3] {
        sink.refuse(member, &[&format!("550 5.1.1 <{member}> is unknown here")]);
    }
    sink.refuse(members[3], &["450 4.2.1 Later", "550 5.1.1 Unknown"]);
    host.send(&["team@here.example"], &mail("Hi")).await;
    forwarded(&host, &sink).await;
    host.wait(60);
    forwarded(&host, &sink).await;
    assert!(host.queue_is_empty().await);
    let notices = host.inbox("ann@here.example").await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(notices[0].matches("Final-Recipient: rfc822;team@here.example\r\n").count(), 1);
    assert!(notices[0].contains("550 5.1.1 A member of the alias: "), "{}", notices[0]);
    let named = ["one.example", "two.example", "three.example", "Remote-MTA", "said:"];
    assert!(named.iter().all(|named| !notices[0].contains(named)), "{}", notices[0]);
}

#[tokio::test]
async fn mail_from_here_keeps_its_sender() {
    let (host, sink) = with_team(&["tim@other.example"]).await;
    host.send(&["team@here.example", "tim@other.example"], &mail("Hi")).await;
    let senders: Vec<_> = forwarded(&host, &sink).await.into_iter().map(|mail| mail.sender).collect();
    assert_eq!(senders, ["ann@here.example", "ann@here.example"]);
}

#[tokio::test]
async fn mail_from_outside_never_leaves_as_a_user_s() {
    let (host, sink) = with_team(&["tim@other.example", "joe@other.example"]).await;
    sink.refuse("joe@other.example", &["550 5.1.1 Unknown"]);
    let (_, reply) = arrives(&host, "ann@here.example", "team@here.example", SIGNED).await;
    assert!(reply.starts_with("250"), "{reply}");
    let ours = forwarded(&host, &sink).await.remove(0).sender;
    assert!(ours.starts_with("SRS0=") && ours.ends_with("=here.example=ann@here.example"), "{ours}");
    // Ann did not send it: she gets neither our notice about joe nor a bounce of tim.
    let (to_recipient, _) = arrives(&host, "", &ours, SIGNED).await;
    assert!(to_recipient.starts_with("550 5.7.1"), "{to_recipient}");
    assert!(host.inbox("ann@here.example").await.is_empty() && host.queue_is_empty().await);
}

#[tokio::test]
async fn junk_causes_no_notice_to_its_forged_sender() {
    let (host, sink) = with_team(&["tim@other.example"]).await;
    host.judge.set(Judgement { action: InboundAction::Junk, ..Judgement::unchecked() });
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO mx.far.example").await;
    for said in ["MAIL FROM:<ann@here.example>", "RCPT TO:<bob@here.example>", "RCPT TO:<team@here.example>", "DATA"] {
        line.say(said).await;
    }
    line.send(SIGNED.as_bytes()).await;
    assert!(line.say(".").await.starts_with("250"), "bob has it");
    assert!(host.inbox("ann@here.example").await.is_empty() && host.queue_is_empty().await);
    assert!(forwarded(&host, &sink).await.is_empty());
}

#[tokio::test]
async fn junk_does_not_go_back_through_a_return_address() {
    let (host, sink) = with_team(&["tim@other.example"]).await;
    arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    let ours = forwarded(&host, &sink).await.remove(0).sender;
    host.judge.set(Judgement { action: InboundAction::Junk, ..Judgement::unchecked() });
    let (_, reply) = arrives(&host, "", &ours, SIGNED).await;
    assert!(reply.starts_with("550 5.7.1"), "{reply}");
    assert!(host.queue_is_empty().await);
}

#[tokio::test]
async fn a_member_that_forwards_back_gets_the_message_once() {
    let (host, sink) = with_team(&["tim@other.example", "bob@here.example"]).await;
    arrives(&host, "ann@here.example", "team+news@here.example", SIGNED).await;
    let copy = String::from_utf8(forwarded(&host, &sink).await.remove(0).data).unwrap();
    let (_, reply) = arrives(&host, "tim@other.example", "team@here.example", &copy).await;
    assert!(reply.starts_with("550 5.4.6"), "{reply}");
    // Beside another recipient the loop is refused without a notice.
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO mx.other.example").await;
    for said in ["MAIL FROM:<ann@here.example>", "RCPT TO:<bob@here.example>", "RCPT TO:<team@here.example>", "DATA"] {
        line.say(said).await;
    }
    line.send(copy.as_bytes()).await;
    assert!(line.say(".").await.starts_with("250"));
    assert_eq!(host.inbox("bob@here.example").await.len(), 2);
    assert!(host.inbox("ann@here.example").await.is_empty() && host.queue_is_empty().await);
}

#[tokio::test]
async fn junk_and_loops_are_not_forwarded() {
    let (host, sink) = with_team(&["tim@other.example"]).await;
    let looping = format!("{}{SIGNED}", "Received: x\r\n".repeat(200));
    let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", &looping).await;
    assert!(reply.starts_with("554 5."), "{reply}");
    host.judge.set(Judgement { action: InboundAction::Junk, ..Judgement::unchecked() });
    let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    assert!(reply.starts_with("550 5.7.1"), "{reply}");
    assert!(forwarded(&host, &sink).await.is_empty() && host.queue_is_empty().await);
}

async fn add(host: &MailHost, name: &str, members: &[&str]) {
    let members = members.iter().map(|member| address(member)).collect();
    let (address, created_at) = (address(name), Timestamp::from_seconds(0));
    host.message_store
        .put_alias(&Alias { address, members, senders: Vec::new(), active: true, created_at })
        .await
        .unwrap();
}

/// Returns the fields Delivered-To of a message.
fn named(data: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(data).into_owned();
    text.lines().filter_map(|line| line.strip_prefix("Delivered-To: ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_copy_names_what_was_expanded() {
    let (host, sink) = with_team(&["tim@other.example"]).await;
    add(&host, "*@here.example", &["team@here.example", "joe@other.example", "bob@here.example"]).await;
    let (_, reply) = arrives(&host, "zoe@far.example", "any@here.example", SIGNED).await;
    assert!(reply.starts_with("250"), "{reply}");
    let mut received = forwarded(&host, &sink).await;
    received.sort_by(|one, other| one.recipients.cmp(&other.recipients));
    let [to_joe, to_tim] = &received[..] else { panic!("{received:?}") };
    assert_eq!(named(&to_joe.data), ["*@here.example", "any@here.example"]);
    assert_eq!(named(&to_tim.data), ["team@here.example", "*@here.example", "any@here.example"]);
    // It comes back to the catch-all by another address, and to the alias among its members.
    let again = |recipient: &'static str, data: &[u8]| {
        let (data, host) = (String::from_utf8(data.to_vec()).unwrap(), &host);
        async move { arrives(host, "joe@other.example", recipient, &data).await.1 }
    };
    assert!(again("other@here.example", &to_joe.data).await.starts_with("550 5.4.6"));
    assert!(again("team@here.example", &to_tim.data).await.starts_with("550 5.4.6"));
    assert!(again("team@here.example", &to_joe.data).await.starts_with("250"), "joe sends it to the team");
    // An alias that is new to it leads to one that is not.
    add(&host, "all@here.example", &["team@here.example", "ann@here.example"]).await;
    assert!(again("all@here.example", &to_tim.data).await.starts_with("250"));
    assert_eq!(host.inbox("ann@here.example").await.len(), 1, "she has it, and gets no notice");
    assert_eq!(forwarded(&host, &sink).await.len(), 3, "to the team by joe");
}

#[tokio::test]
async fn an_alias_forwards_no_message_that_passed_twice_before() {
    let (host, _) = with_team(&["tim@other.example"]).await;
    let passed = "Received: from a by mx.here.example; x\r\nReceived: from b by mx.other.example; x\r\n";
    for (times, code) in [(1, "250"), (2, "550 5.4.6")] {
        let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", &(passed.repeat(times) + SIGNED)).await;
        assert!(reply.starts_with(code), "{times}: {reply}");
    }
    // An author here sends an old message again.
    let again = host.outgoing(&["team@here.example"], &(passed.repeat(3) + &mail("Hi")));
    assert_eq!(host.message_store.accept(again).await.unwrap().refused, []);
}

#[tokio::test]
async fn an_alias_forwards_so_much_in_an_hour() {
    let (host, _) = with_team(&["tim@other.example", "joe@other.example"]).await;
    arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    let count = "UPDATE drop_hourly SET number = 49997 WHERE name = 'copies team@here.example' AND number = 2";
    assert_eq!(host.database().execute(count, []).unwrap(), 1);
    let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    assert!(reply.starts_with("250"), "{reply}");
    let (to_recipient, _) = arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    assert!(to_recipient.starts_with("452 4.4.5"), "{to_recipient}");
    let outgoing = host.outgoing(&["team@here.example", "bob@here.example"], &mail("Hi"));
    let taken = host.message_store.accept(outgoing).await.unwrap();
    assert_eq!((taken.refused[0].reply.code, taken.delivered), (452, vec![address("bob@here.example")]));
    host.wait(60);
    let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    assert!(reply.starts_with("250"), "{reply}");
    let count = "UPDATE drop_hourly SET number = 99999 WHERE name = 'copies @here.example' AND number = 2";
    assert_eq!(host.database().execute(count, []).unwrap(), 1);
    let (to_recipient, _) = arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    assert!(to_recipient.starts_with("452 4.4.5"), "{to_recipient}");
}

#[tokio::test]
async fn one_message_reaches_a_bounded_number_of_addresses() {
    let host = MailHost::open_with(|_, message_store| message_store.max_reached = 5).await;
    add(&host, "team@here.example", &["tim@other.example", "ann@here.example"]).await;
    let message = format!("Message-ID: <1@far.example>\r\n{SIGNED}");
    for expected in ["250", "250", "452 4.5.3"] {
        let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", &message).await;
        assert!(reply.starts_with(expected), "{reply}");
    }
    let back = format!("Received: from a by mx.here.example; x\r\n{message}");
    for (expected, held) in [("250", 3), ("550 5.4.6", 3)] {
        let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", &back).await;
        assert!(reply.starts_with(expected), "{reply}");
        assert_eq!(host.inbox("ann@here.example").await.len(), held, "room for the member here alone");
    }
    let (_, reply) = arrives(&host, "zoe@far.example", "bob@here.example", &message).await;
    assert!(reply.starts_with("250"), "a mailbox is no alias: {reply}");
    let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", SIGNED).await;
    assert!(reply.starts_with("250"), "another message: {reply}");
    host.clock.advance(DAY);
    let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", &message).await;
    assert!(reply.starts_with("250"), "{reply}");
}

#[tokio::test]
async fn addresses_that_lead_to_the_same_members_send_one_copy() {
    let (host, sink) = with_team(&["tim@other.example", "ann@here.example"]).await;
    add(&host, "*@here.example", &["tim@other.example", "joe@other.example", "ann@here.example"]).await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO mx.far.example").await;
    line.say("MAIL FROM:<zoe@far.example>").await;
    for recipient in ["x1@here.example", "x2@here.example", "x3@here.example", "team@here.example"] {
        assert!(line.say(&format!("RCPT TO:<{recipient}>")).await.starts_with("250"));
    }
    line.say("DATA").await;
    line.send(SIGNED.as_bytes()).await;
    assert!(line.say(".").await.starts_with("250"));
    let received = forwarded(&host, &sink).await;
    let mut recipients: Vec<_> = received.iter().flat_map(|received| received.recipients.clone()).collect();
    recipients.sort_unstable();
    assert_eq!(recipients, ["joe@other.example", "tim@other.example"]);
    assert_eq!(host.inbox("ann@here.example").await.len(), 1);
    // An author sees what became of each recipient.
    let outgoing = host.outgoing(&["x1@here.example", "x2@here.example"], &mail("Hi"));
    host.message_store.accept(outgoing).await.unwrap();
    let received = forwarded(&host, &sink).await;
    assert_eq!(received.iter().map(|received| received.recipients.len()).sum::<usize>(), 2 + 2 * 2);
    assert_eq!(host.inbox("ann@here.example").await.len(), 2);
}

#[tokio::test]
async fn alarms_without_an_identifier_are_different_messages() {
    let (host, _) = with_team(&["tim@other.example"]).await;
    for _ in 0..5 {
        let (_, reply) = arrives(&host, "ups@far.example", "team@here.example", SIGNED).await;
        assert!(reply.starts_with("250"), "{reply}");
    }
    let message = format!("Message-ID: <1@far.example>\r\n{SIGNED}");
    for expected in ["250", "250", "250", "550 5.4.6"] {
        let (_, reply) = arrives(&host, "zoe@far.example", "team@here.example", &message).await;
        assert!(reply.starts_with(expected), "{reply}");
    }
    let (outgoing, author) = (host.outgoing(&["team@here.example"], &message), "an author may send old mail again");
    assert_eq!(host.message_store.accept(outgoing).await.unwrap().refused, [], "{author}");
}
