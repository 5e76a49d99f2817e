use std::time::Duration;

use mailapi_backend::{DeliveryFeed, Provisioning, Recorded, Submission};
use mailapi_backend_embedded::accept::{AcceptError, Incoming, Relaying};
use mailapi_backend_embedded::queue::{Attempt, QueuedRecipient, RecipientResult};
use mailapi_model::{
    Alias, Clock, DeliveryEvent, EnhancedCode, Entropy, Envelope, Evidence, FeedCursor, MessageId, NoticeKind, Outcome,
    Reply,
};
use mailapi_testkit::SeededEntropy;

use super::test_store::{TestStore, address, mail};

const LEASE: Duration = Duration::from_secs(600);

/// Another server accepts the message.
fn taken() -> Attempt {
    Attempt::Delivered { reply: Reply::new(250, EnhancedCode::new(2, 0, 0), "ok"), relay: None }
}

fn refused() -> Attempt {
    Attempt::Bounced { reply: Reply::new(550, EnhancedCode::new(5, 1, 1), "unknown"), relay: None }
}

fn expired() -> Attempt {
    Attempt::Expired { reply: Reply::new(554, EnhancedCode::new(5, 4, 7), "too late"), relay: None }
}

/// The server asks for a retry in a minute.
fn put_off(test_store: &TestStore) -> Attempt {
    Attempt::Deferred {
        reply: Reply::new(451, EnhancedCode::new(4, 7, 1), "later"),
        relay: None,
        next_attempt_at: test_store.clock.now().plus(Duration::from_secs(60)),
        delay_notified: false,
    }
}

/// Records the given attempts for all due recipients.
async fn tried(test_store: &TestStore, attempts: &[Attempt]) {
    let [message] = &test_store.message_store.claim_due(100, LEASE).await.unwrap()[..] else {
        panic!("no due message")
    };
    let attempts = message.recipients.iter().zip(attempts);
    let result = |(recipient, attempt): (&QueuedRecipient, &Attempt)| RecipientResult {
        position: recipient.position,
        attempt: attempt.clone(),
        is_answered: true,
    };
    let results: Vec<_> = attempts.map(result).collect();
    assert_eq!(results.len(), message.recipients.len());
    test_store.message_store.record(message.clone(), results, Vec::new()).await.unwrap();
}

/// Accepts a message from ann to zoe, joe and bob, where only bob is local.
async fn submitted(test_store: &TestStore, entropy: &dyn Entropy) -> MessageId {
    let message_id = MessageId::random(test_store.clock.now(), entropy);
    let recipients = ["zoe@far.example", "joe@far.example", "bob@example.org"].map(address).to_vec();
    let envelope = Envelope { message_id, sender: Some(address("ann@example.org")), recipients };
    test_store.message_store.submit(envelope, mail("Hi", ".").into(), &Recorded).await.unwrap();
    message_id
}

/// Like [`submitted`]; another server then accepts the message for zoe and joe.
async fn sent(test_store: &TestStore, entropy: &dyn Entropy) -> MessageId {
    let message_id = submitted(test_store, entropy).await;
    tried(test_store, &[taken(), taken()]).await;
    message_id
}

fn notice(id: &str, action: &str, recipient: &str) -> String {
    format!(
        "From: MAILER-DAEMON@far.example\r\nContent-Type: multipart/report; report-type=\"delivery-status\";\r\n boundary=b\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\
         --b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.far.example\r\n\r\n\
         Final-Recipient: rfc822; {recipient}\r\nAction: {action}\r\nStatus: 5.1.1\r\n\
         Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n\r\n\
         --b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: <{id}@example.org>\r\n\r\n--b--\r\n"
    )
}

/// Returns an inbound bounce, sent to the return address of the message that it names (ann's).
fn from_outside(test_store: &TestStore, from: &str, to: &str, notice: &str) -> Incoming {
    let sender = (!from.is_empty()).then(|| address(from));
    let mut incoming =
        Incoming::new(sender, [address(to)], notice.to_owned(), test_store.clock.now(), Relaying::Denied);
    let named = notice.split("Message-ID: <").nth(1).and_then(|rest| rest.split('@').next());
    incoming.recipients[0].returned = named.filter(|_| to.starts_with("ann")).and_then(|id| id.parse().ok());
    incoming
}

/// Delivers a bounce. Returns the feed's events of returned mail so far.
async fn reported(test_store: &TestStore, from: &str, to: &str, notice: &str) -> Vec<DeliveryEvent> {
    test_store.message_store.accept(from_outside(test_store, from, to, notice)).await.unwrap();
    let mut events = test_store.message_store.read_after(&FeedCursor::default(), 1000).await.unwrap().events;
    events.retain(|event| event.evidence == Evidence::ReturnedMail);
    events
}

#[tokio::test]
async fn other_servers_get_the_original_recipients_of_api_messages() {
    let test_store = TestStore::new().await;
    submitted(&test_store, &SeededEntropy::new(7)).await;
    let [message] = &test_store.message_store.claim_due(100, LEASE).await.unwrap()[..] else {
        panic!("no due message")
    };
    let originals: Vec<_> = message.recipients.iter().map(|recipient| recipient.orcpt.as_deref()).collect();
    assert_eq!(originals, [Some("rfc822;zoe@far.example"), Some("rfc822;joe@far.example")]);
}

#[tokio::test]
async fn a_forged_notice_changes_nothing() {
    let test_store = TestStore::new().await;
    let id = sent(&test_store, &SeededEntropy::new(7)).await.to_string();
    let unknown = MessageId::random(test_store.clock.now(), &SeededEntropy::new(8)).to_string();
    let good = notice(&id, "failed", "zoe@far.example");
    for (from, to, notice) in [
        // To another address than the sender's, or from a person.
        ("", "bob@example.org", good.clone()),
        ("eve@far.example", "ann@example.org", good.clone()),
        // For an unknown message, for a recipient to which it was not sent, and without a failure.
        ("", "ann@example.org", notice(&unknown, "failed", "zoe@far.example")),
        ("", "ann@example.org", notice("hello", "failed", "zoe@far.example")),
        ("", "ann@example.org", notice(&id, "failed", "eve@far.example")),
        ("", "ann@example.org", notice(&id, "failed", "bob@example.org")),
        ("", "ann@example.org", notice(&id, "delayed", "zoe@far.example")),
    ] {
        assert_eq!(reported(&test_store, from, to, &notice).await, [], "{from} {to} {notice}");
    }
    // A forged bounce with the Message-ID, but without the return address.
    let mut guessed = from_outside(&test_store, "", "ann@example.org", &good);
    guessed.recipients[0].returned = None;
    test_store.message_store.accept(guessed).await.unwrap();
    assert_eq!(reported(&test_store, "", "bob@example.org", &good).await, []);
}

#[tokio::test]
async fn a_notice_of_what_has_not_left_yet_is_ordinary_mail() {
    let test_store = TestStore::new().await;
    let id = submitted(&test_store, &SeededEntropy::new(7)).await.to_string();
    let forged = notice(&id, "failed", "zoe@far.example");
    assert_eq!(reported(&test_store, "", "ann@example.org", &forged).await, [], "before the first attempt");
    tried(&test_store, &[put_off(&test_store), taken()]).await;
    assert_eq!(reported(&test_store, "", "ann@example.org", &forged).await, [], "after a deferred attempt");
    assert_eq!(reported(&test_store, "", "ann@example.org", &notice(&id, "failed", "joe@far.example")).await.len(), 1);
    test_store.advance(60);
    tried(&test_store, &[taken()]).await;
    assert_eq!(
        reported(&test_store, "", "ann@example.org", &forged).await.len(),
        2,
        "after the message was transmitted"
    );
}

#[tokio::test]
async fn a_recipient_that_no_server_accepted_cannot_bounce_later() {
    let test_store = TestStore::new().await;
    let id = submitted(&test_store, &SeededEntropy::new(7)).await.to_string();
    tried(&test_store, &[refused(), expired()]).await;
    for recipient in ["zoe@far.example", "joe@far.example"] {
        assert_eq!(
            reported(&test_store, "", "ann@example.org", &notice(&id, "failed", recipient)).await,
            [],
            "{recipient}"
        );
    }
}

#[tokio::test]
async fn a_notice_during_submission_gets_a_temporary_failure() {
    let test_store = TestStore::new().await;
    let id = submitted(&test_store, &SeededEntropy::new(7)).await.to_string();
    let early = notice(&id, "failed", "zoe@far.example");
    let [message] = &test_store.message_store.claim_due(100, LEASE).await.unwrap()[..] else {
        panic!("no due message")
    };
    // The other server may have accepted the message, which is not recorded here yet.
    let AcceptError::Refused(reply) =
        test_store.message_store.accept(from_outside(&test_store, "", "ann@example.org", &early)).await.unwrap_err()
    else {
        panic!("the whole message must be refused")
    };
    assert_eq!(reply.code, 451);
    // To all other mailboxes it is an ordinary message.
    assert_eq!(reported(&test_store, "", "bob@example.org", &early).await, []);
    assert_eq!(reported(&test_store, "", "ann@example.org", &notice(&id, "failed", "eve@far.example")).await, []);
    assert_eq!(test_store.number("SELECT messages FROM drop_mailboxes WHERE address = 'ann@example.org'"), 1);

    let results = [0, 1].map(|position| RecipientResult { position, attempt: taken(), is_answered: true }).to_vec();
    test_store.message_store.record(message.clone(), results, Vec::new()).await.unwrap();
    assert_eq!(reported(&test_store, "", "ann@example.org", &early).await.len(), 1);
}

#[tokio::test]
async fn our_own_notices_are_no_returned_mail() {
    let test_store = TestStore::new().await;
    let id = sent(&test_store, &SeededEntropy::new(7)).await.to_string();
    // As if a mail client resent a bounce with its original identifier.
    let mut own = from_outside(&test_store, "", "ann@example.org", &notice(&id, "failed", "zoe@far.example"));
    own.relaying = Relaying::Allowed;
    test_store.message_store.accept(own).await.unwrap();
    assert_eq!(reported(&test_store, "", "ann@example.org", &notice(&id, "delayed", "zoe@far.example")).await, []);
}

/// Returns a notice that has only a text.
fn text_notice(id: &str, subject: &str, text: &str) -> String {
    format!("Subject: {subject}\r\n\r\n{text}\r\n\r\n--- Below is a copy.\r\n\r\nMessage-ID: <{id}@example.org>\r\n")
}

#[tokio::test]
async fn the_form_of_a_notice_does_not_matter() {
    let mixed = |id: &str| {
        let notice = notice(id, "failed (gave up)", "zoe@far.example (Zoe)");
        notice.replace("multipart/report; report-type=\"delivery-status\"", "multipart/mixed")
    };
    let text = |id: &str| text_notice(id, "failure notice", "<Zoe@far.example>: 550 5.1.1 no such user");
    let forms: [&dyn Fn(&str) -> String; 2] = [&mixed, &text];
    for form in forms {
        let test_store = TestStore::new().await;
        let id = sent(&test_store, &SeededEntropy::new(7)).await.to_string();
        let reported = reported(&test_store, "", "ann@example.org", &form(&id)).await;
        let shown: Vec<_> =
            reported.iter().map(|event| (event.recipient.as_str(), event.final_recipient.is_none())).collect();
        assert_eq!(shown, [("zoe@far.example", true)], "{}", form(&id));
        assert_eq!(reported[0].dsn.unwrap().to_string(), "5.1.1");
    }
}

#[tokio::test]
async fn a_text_about_others_or_a_delay_changes_nothing() {
    let test_store = TestStore::new().await;
    let id = sent(&test_store, &SeededEntropy::new(7)).await.to_string();
    for (subject, text) in [
        ("failure notice", "eve@far.example: 550 5.1.1 no"),
        ("failure notice", "bob@example.org: 550 5.1.1 no"),
        ("Warning", "zoe@far.example: 450 4.2.0 busy"),
        ("notice", "zoe@far.example: 550 x\r\n\r\nIt will be retried."),
        ("notice", "It was delivered: zoe@far.example: earlier 550"),
    ] {
        let notice = text_notice(&id, subject, text);
        assert_eq!(reported(&test_store, "", "ann@example.org", &notice).await, [], "{text}");
    }
}

#[tokio::test]
async fn what_changes_no_status_is_a_notice() {
    let test_store = TestStore::new().await;
    let id = sent(&test_store, &SeededEntropy::new(7)).await;
    let delay = notice(&id.to_string(), "delayed", "zoe@far.example");
    let unknown = text_notice(&id.to_string(), "failure notice", "eve@far.example: 550 5.1.1 no");
    let failure = notice(&id.to_string(), "failed", "zoe@far.example");
    let person = ("eve@far.example", &delay);
    for (from, notice) in [("", &delay), ("", &unknown), ("", &failure), person] {
        reported(&test_store, from, "ann@example.org", notice).await;
    }
    let notices = test_store.message_store.read_after(&FeedCursor::default(), 1000).await.unwrap().notices;
    let shown: Vec<_> = notices.iter().map(|notice| (notice.kind, notice.text.as_str(), notice.failed.len())).collect();
    assert_eq!(shown, [(NoticeKind::Delayed, "Sorry.", 0), (NoticeKind::Other, "eve@far.example: 550 5.1.1 no", 1)]);
    assert!(notices.iter().all(|notice| notice.message_id == id));
    assert_eq!(notices[0].server, "far.example".parse().ok());
    // Whether recipients wait for a report does not depend on notices.
    assert_eq!(test_store.message_store.are_awaited(&[]).await.unwrap(), [false; 0]);
}

#[tokio::test]
async fn a_foreign_original_recipient_is_left_to_the_service() {
    let test_store = TestStore::new().await;
    let id = sent(&test_store, &SeededEntropy::new(7)).await.to_string();
    for original in ["relay@other.example", "bob@example.org"] {
        let notice = notice(&id, "failed", &format!("zoe@far.example\r\nOriginal-Recipient: rfc822; {original}"));
        let reported = reported(&test_store, "", "ann@example.org", &notice).await;
        let last = reported.last().unwrap();
        assert_eq!(last.recipient.as_str(), original);
        assert_eq!(last.final_recipient.as_ref().unwrap().as_str(), "zoe@far.example");
    }
}

#[tokio::test]
async fn a_returned_message_is_one_event_for_each_recipient() {
    let test_store = TestStore::new().await;
    let id = sent(&test_store, &SeededEntropy::new(7)).await;
    test_store.advance(60);
    for count in [1, 1] {
        let reported =
            reported(&test_store, "", "ann@example.org", &notice(&id.to_string(), "failed", "ZOE@far.example")).await;
        assert_eq!(reported.len(), count);
        assert_eq!((reported[0].message_id, reported[0].outcome), (Some(id), Outcome::Bounced));
        assert_eq!((reported[0].recipient.as_str(), reported[0].delay.as_secs()), ("zoe@far.example", 60));
        assert_eq!(reported[0].response, "550 5.1.1 no such user");
        assert_eq!(reported[0].dsn.unwrap().to_string(), "5.1.1");
    }
    let reported =
        reported(&test_store, "", "ann@example.org", &notice(&id.to_string(), "failed", "joe@far.example")).await;
    assert_eq!(reported.len(), 2);
}

/// Accepts a message to an alias and perhaps to others. Returns its id and the store.
async fn to_team(members: &[&str], recipients: &[&str]) -> (TestStore, String) {
    let test_store = TestStore::new().await;
    let members = members.iter().map(|member| address(member)).collect();
    let team = Alias {
        address: address(TEAM),
        members,
        senders: Vec::new(),
        active: true,
        created_at: test_store.clock.now(),
    };
    test_store.message_store.put_alias(&team).await.unwrap();
    let message_id = MessageId::random(test_store.clock.now(), &SeededEntropy::new(7));
    let recipients = recipients.iter().map(|recipient| address(recipient)).collect();
    let envelope = Envelope { message_id, sender: Some(address("ann@example.org")), recipients };
    test_store.message_store.submit(envelope, mail("Hi", ".").into(), &Recorded).await.unwrap();
    (test_store, message_id.to_string())
}

const TEAM: &str = "team@example.org";

/// Returns the recipients and members whose bounces were reported.
async fn bounced(test_store: &TestStore, notice: &str) -> Vec<(String, String)> {
    let shown = |event: DeliveryEvent| {
        let member = event.final_recipient.map_or("-".to_owned(), |member| member.to_string());
        (event.recipient.to_string(), member)
    };
    reported(test_store, "", "ann@example.org", notice).await.into_iter().map(shown).collect()
}

fn of_alias(id: &str, member: &str) -> String {
    notice(id, "failed", &format!("{member}\r\nOriginal-Recipient: rfc822; {TEAM}"))
}

#[tokio::test]
async fn a_member_bounces_while_another_one_waits() {
    let (test_store, id) = to_team(&["a@far.example", "b@far.example"], &[TEAM]).await;
    tried(&test_store, &[taken(), put_off(&test_store)]).await;
    assert_eq!(bounced(&test_store, &of_alias(&id, "b@far.example")).await, [], "b is still in the queue");
    let expected = [(TEAM.to_owned(), "a@far.example".to_owned())];
    assert_eq!(bounced(&test_store, &of_alias(&id, "a@far.example")).await, expected);
}

#[tokio::test]
async fn a_notice_that_names_only_the_member_is_the_alias_s() {
    let (test_store, id) = to_team(&["a@far.example", "b@far.example"], &[TEAM]).await;
    tried(&test_store, &[taken(), taken()]).await;
    let bare = notice(&id, "failed", "A@far.example");
    let expected = [(TEAM.to_owned(), "a@far.example".to_owned())];
    assert_eq!(bounced(&test_store, &bare).await, expected);
    assert_eq!(bounced(&test_store, &bare).await, expected, "each member bounces once");
}

#[tokio::test]
async fn no_notice_overturns_the_delivery_to_members() {
    let (test_store, id) = to_team(&["a@far.example", "ann@example.org"], &[TEAM]).await;
    tried(&test_store, &[taken()]).await;
    assert_eq!(bounced(&test_store, &of_alias(&id, TEAM)).await, []);
    assert_eq!(bounced(&test_store, &notice(&id, "failed", TEAM)).await, []);
    let unreadable = format!("not an address\r\nOriginal-Recipient: rfc822; {TEAM}");
    assert_eq!(bounced(&test_store, &notice(&id, "failed", &unreadable)).await, []);
}

#[tokio::test]
async fn a_member_that_no_server_accepted_cannot_bounce() {
    let (test_store, id) = to_team(&["a@far.example", "b@far.example"], &[TEAM]).await;
    tried(&test_store, &[refused(), expired()]).await;
    for notice in [of_alias(&id, "a@far.example"), of_alias(&id, "eve@far.example"), of_alias(&id, "b@far.example")] {
        assert_eq!(bounced(&test_store, &notice).await, []);
    }
}

#[tokio::test]
async fn a_refused_member_leaves_the_direct_copy_alone() {
    let (test_store, id) = to_team(&["x@far.example"], &["x@far.example", TEAM]).await;
    tried(&test_store, &[taken(), refused()]).await;
    let expected = [("x@far.example".to_owned(), "-".to_owned())];
    assert_eq!(bounced(&test_store, &notice(&id, "failed", "x@far.example")).await, expected);
}

#[tokio::test]
async fn a_recipient_can_come_back_after_members_of_it_did() {
    let test_store = TestStore::new().await;
    let id = sent(&test_store, &SeededEntropy::new(7)).await.to_string();
    let alias = "jon@far.example\r\nOriginal-Recipient: rfc822; zoe@far.example";
    let of_member = notice(&id, "failed", alias);
    let of_other = notice(&id, "failed", &alias.replace("jon", "jim"));
    let of_recipient = notice(&id, "failed", "zoe@far.example");
    for notice in [&of_member, &of_other, &of_recipient, &of_recipient] {
        reported(&test_store, "", "ann@example.org", notice).await;
    }
    let reported = reported(&test_store, "", "ann@example.org", &of_member).await;
    let reported: Vec<_> = reported
        .iter()
        .map(|event| (event.recipient.as_str(), event.final_recipient.as_ref().map(|member| member.as_str())))
        .collect();
    let members = [("zoe@far.example", Some("jon@far.example")), ("zoe@far.example", Some("jim@far.example"))];
    assert_eq!(
        reported,
        [members[0], members[1], ("zoe@far.example", None)],
        "nothing counts after the recipient's own bounce"
    );
}
