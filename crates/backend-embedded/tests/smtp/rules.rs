//! Rules that answer, refuse and forward messages.

use std::time::Duration;

use mailapi_backend::{BounceKey, Judgement, Provisioning};
use mailapi_model::{Authentication, AuthenticationResult, CheckedDomain, RuleSet, SecurityMark};
use mailapi_testkit::{Received, SmtpSink};

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AWAY: &str = "rule\ton\taway\ndo\tvacation\t3\t\tI am away.\\nBob\trobert@here.example\n";

/// Opens a server with rules of bob.
async fn with_rules(rules: &str) -> (MailHost, SmtpSink) {
    let key = BounceKey::new([7; BounceKey::BYTES]);
    let host = MailHost::open_with(|_, message_store| message_store.return_key = Some(key)).await;
    put(&host, rules).await;
    (host, SmtpSink::start().await)
}

async fn put(host: &MailHost, rules: &str) {
    let rules = RuleSet::from_text(rules).unwrap();
    host.message_store.put_rules(&address("bob@here.example"), &rules).await.unwrap();
}

/// Sends a message from outside to bob; returns the reply to its end.
async fn arrives(host: &MailHost, sender: &str, header: &str) -> String {
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO mx.far.example").await;
    line.say(&format!("MAIL FROM:<{sender}>")).await;
    line.say("RCPT TO:<bob@here.example>").await;
    line.say("DATA").await;
    line.send(format!("From: zoe@far.example\r\n{header}\r\n\r\nHello.\r\n").as_bytes()).await;
    line.say(".").await
}

/// Delivers what is due; returns all that left so far.
async fn left(host: &MailHost, sink: &SmtpSink) -> Vec<Received> {
    host.agent_to(sink).deliver_due_once().await.unwrap();
    sink.received()
}

const TO_BOB: &str = "To: Bob <bob@here.example>\r\nSubject: Lunch?\r\nMessage-ID: <1@far.example>";

#[tokio::test]
async fn programs_lists_and_strangers_get_no_answer() {
    let (host, sink) = with_rules(AWAY).await;
    for (sender, header) in [
        ("", TO_BOB.to_owned()),
        ("mailer-daemon@far.example", TO_BOB.to_owned()),
        ("news-request@far.example", TO_BOB.to_owned()),
        ("owner-news@far.example", TO_BOB.to_owned()),
        ("bob@here.example", TO_BOB.to_owned()),
        ("robert@here.example", TO_BOB.to_owned()),
        ("zoe@far.example", format!("{TO_BOB}\r\nAuto-Submitted: auto-generated")),
        ("zoe@far.example", format!("{TO_BOB}\r\nPrecedence: bulk")),
        ("zoe@far.example", format!("{TO_BOB}\r\nList-Id: <news.far.example>")),
        ("zoe@far.example", "To: team@far.example\r\nSubject: To others".to_owned()),
    ] {
        assert!(arrives(&host, sender, &header).await.starts_with("250"), "{sender} {header}");
    }
    assert!(left(&host, &sink).await.is_empty() && host.inbox("ann@here.example").await.is_empty());
}

#[tokio::test]
async fn a_sender_whose_domain_denies_the_message_gets_no_answer() {
    let (host, sink) = with_rules(AWAY).await;
    let checked = |result| CheckedDomain { result, domain: Some("far.example".to_owned()) };
    let judge = |spf, dmarc| {
        let (spf, dmarc) = (checked(spf), checked(dmarc));
        let authentication = Authentication { spf, dkim: Vec::new(), dmarc, arc: AuthenticationResult::None };
        host.judge.set(Judgement { authentication: Some(authentication), ..Judgement::unchecked() });
    };
    judge(AuthenticationResult::Fail, AuthenticationResult::None);
    assert!(arrives(&host, "zoe@far.example", TO_BOB).await.starts_with("250"));
    assert!(left(&host, &sink).await.is_empty());
    judge(AuthenticationResult::Fail, AuthenticationResult::Pass);
    arrives(&host, "zoe@far.example", TO_BOB).await;
    assert_eq!(left(&host, &sink).await.len(), 1, "the author's domain confirms the message");
}

#[tokio::test]
async fn a_rule_files_what_the_analysis_calls_dangerous() {
    let (host, _) = with_rules("rule\ton\tfraud\nif\tfraud\tdangerous\ndo\tfolder\tLook first\n").await;
    let mark =
        |verdict: &str| SecurityMark { verdict: verdict.to_owned(), signs: vec!["macros".to_owned(), "x".to_owned()] };
    let forged = format!("{TO_BOB}\r\nX-Security-Verdict: dangerous");
    for verdict in ["clean", "suspicious", "dangerous"] {
        let (security, fields) = (Some(mark(verdict)), mark(verdict).to_string());
        let own_fields = vec![SecurityMark::FIELD];
        host.judge.set(Judgement { security, fields, own_fields, ..Judgement::unchecked() });
        assert!(arrives(&host, "zoe@far.example", &forged).await.starts_with("250"));
    }
    let folders = host.message_store.list_folders(&address("bob@here.example")).await.unwrap();
    let filled = folders.iter().filter(|folder| folder.messages > 0);
    let filled: Vec<_> = filled.map(|folder| (folder.name.to_string(), folder.messages)).collect();
    assert_eq!(filled, [("INBOX".to_owned(), 2), ("Look first".to_owned(), 1)]);
    let kept = host.inbox("bob@here.example").await.concat();
    assert!(kept.contains("X-Security-Verdict: clean (macros,\r\n x)\r\n"), "{kept}");
    assert!(!kept.contains("X-Security-Verdict: dangerous"), "a forged field is removed: {kept}");
}

#[tokio::test]
async fn each_sender_gets_one_answer_in_some_days() {
    let (host, sink) = with_rules(AWAY).await;
    for header in [TO_BOB, "Cc: Robert@here.example\r\nSubject: Again\r\nAuto-Submitted: no"] {
        arrives(&host, "Zoe@far.example", header).await;
    }
    let answers = left(&host, &sink).await;
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((answer.sender.as_str(), &answer.recipients[..]), ("", &["Zoe@far.example".to_owned()][..]));
    let text = String::from_utf8(answer.data.clone()).unwrap();
    for expected in [
        "From: <bob@here.example>\r\n",
        "To: <Zoe@far.example>\r\n",
        "Subject: Auto: Lunch?\r\n",
        "In-Reply-To: <1@far.example>\r\n",
        "References: <1@far.example>\r\n",
        "Auto-Submitted: auto-replied\r\n",
        "I am away.\r\nBob",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    host.clock.advance(3 * DAY);
    arrives(&host, "zoe@far.example", TO_BOB).await;
    assert_eq!(left(&host, &sink).await.len(), 2);
    host.clock.advance(3 * DAY);
    host.message_store.maintain_until_done().await.unwrap();
    let answered: i64 = host.database().query_row("SELECT count(*) FROM drop_answered", [], |row| row.get(0)).unwrap();
    assert_eq!(answered, 0, "old ones are forgotten");
}

#[tokio::test]
async fn senders_here_get_an_answer_too_and_other_rules_answer_again() {
    let (host, sink) = with_rules(AWAY).await;
    host.send(&["bob@here.example"], &mail("Hi").replace("To: ", "X-To: ")).await;
    left(&host, &sink).await;
    assert!(host.inbox("ann@here.example").await.is_empty(), "the message does not name bob");
    let to_bob = "From: ann@here.example\r\nTo: bob@here.example\r\nSubject: Hi\r\n\r\n.\r\n";
    for _ in 0..2 {
        host.send(&["bob@here.example"], to_bob).await;
        left(&host, &sink).await;
    }
    assert_eq!(host.inbox("ann@here.example").await.len(), 1);
    put(&host, &AWAY.replace("away.", "still away.")).await;
    host.send(&["bob@here.example"], to_bob).await;
    left(&host, &sink).await;
    assert_eq!(host.inbox("ann@here.example").await.len(), 2);
    assert_eq!(host.inbox("bob@here.example").await.len(), 4, "the messages are kept");
}

#[tokio::test]
async fn a_mailbox_sends_a_hundred_answers_in_an_hour() {
    let (host, sink) = with_rules(AWAY).await;
    let answered = async |senders: std::ops::Range<u32>| {
        for number in senders {
            assert!(arrives(&host, &format!("z{number}@far.example"), TO_BOB).await.starts_with("250"));
        }
        left(&host, &sink).await.len()
    };
    assert_eq!(answered(0..101).await, 100);
    put(&host, &AWAY.replace("away.", "still away.")).await;
    put(&host, "").await;
    put(&host, AWAY).await;
    assert_eq!(answered(200..202).await, 100, "other rules answer within the same limit");
    host.message_store.maintain_until_done().await.unwrap();
    assert_eq!(answered(300..301).await, 100);
    host.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(answered(0..2).await, 102, "other rules answer the same senders again");
}

#[tokio::test]
async fn a_rule_refuses_a_message_at_its_end() {
    let (host, sink) = with_rules("rule\ton\tx\nif\tsubject\tis\tlunch?\ndo\treject\tNo lunch\n").await;
    assert_eq!(arrives(&host, "zoe@far.example", TO_BOB).await, "550 5.7.1 No lunch");
    assert!(host.inbox("bob@here.example").await.is_empty());
    assert!(left(&host, &sink).await.is_empty(), "the other server has the reply");
}

#[tokio::test]
async fn a_sender_without_a_valid_address_does_not_evade_refusal() {
    let (host, sink) = with_rules("rule\ton\tx\nif\tsubject\tis\tlunch?\ndo\treject\tNo lunch\n").await;
    assert_eq!(arrives(&host, "u@[192.0.2.1]", TO_BOB).await, "550 5.7.1 No lunch");
    assert!(arrives(&host, "", TO_BOB).await.starts_with("250 "), "notices are never refused");
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
    assert!(left(&host, &sink).await.is_empty());
}

#[tokio::test]
async fn a_rule_forwards_a_message_with_our_sender() {
    let (host, sink) = with_rules("rule\ton\tx\ndo\tforward\ttim@other.example\n").await;
    sink.refuse("tim@other.example", &["450 4.2.1 Later", "550 5.1.1 Unknown"]);
    assert!(arrives(&host, "ann@here.example", TO_BOB).await.starts_with("250"));
    left(&host, &sink).await;
    host.wait(60);
    left(&host, &sink).await;
    let tried = |event: &mailapi_model::DeliveryEvent| {
        (event.final_recipient.as_ref().map_or("-", |tried| tried.as_str()).to_owned(), event.outcome.as_str())
    };
    let events = host.events().await;
    assert!(events.iter().all(|event| event.recipient.as_str() == "bob@here.example"));
    let tim = "tim@other.example".to_owned();
    let expected = [("-".to_owned(), "sent"), (tim.clone(), "deferred"), (tim, "bounced")];
    assert_eq!(events.iter().map(tried).collect::<Vec<_>>(), expected);
    assert!(host.inbox("ann@here.example").await.is_empty(), "the sender gets no notice: bob has the message");

    assert!(arrives(&host, "zoe@far.example", TO_BOB).await.starts_with("250"));
    let received = left(&host, &sink).await;
    let [mail] = &received[..] else { panic!("{received:?}") };
    assert_eq!(mail.recipients, ["tim@other.example"]);
    assert!(mail.sender.starts_with("SRS0=") && mail.sender.ends_with("=far.example=zoe@here.example"));
}

#[tokio::test]
async fn the_rules_of_a_mailbox_forward_a_thousand_copies_in_an_hour() {
    let forwards = |rule: u32| {
        let actions: String = (0..5).map(|n| format!("do\tforward\tu{rule}{n}@other.example\n")).collect();
        format!("rule\ton\tx{rule}\n{actions}")
    };
    let (host, _) = with_rules(&(forwards(1) + &forwards(2))).await;
    let copies = || -> u64 {
        let sql = "SELECT count(*) FROM drop_queue_recipients WHERE recipient LIKE '%@other.example'";
        host.database().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let mut number = 0;
    let mut another = || {
        number += 1;
        format!("Message-ID: <{number}@far.example>\r\nTo: bob@here.example\r\nSubject: Hi\r\n\r\nHello.\r\n")
    };
    for _ in 0..101 {
        assert!(arrives(&host, "zoe@far.example", &another()).await.starts_with("250"));
    }
    assert_eq!((copies(), host.inbox("bob@here.example").await.len()), (1000, 101), "the mailbox gets every message");
    put(&host, &forwards(3)).await;
    assert!(arrives(&host, "zoe@far.example", &another()).await.starts_with("250"));
    assert_eq!(copies(), 1000, "other rules forward within the same limit");
    host.clock.advance(Duration::from_secs(60 * 60));
    assert!(arrives(&host, "zoe@far.example", &another()).await.starts_with("250"));
    assert_eq!(copies(), 1005);
}
