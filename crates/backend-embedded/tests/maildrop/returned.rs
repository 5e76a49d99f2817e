use mailapi_backend::{DeliveryFeed, Submission};
use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_model::{Clock, DeliveryEvent, Entropy, Envelope, Evidence, FeedCursor, MessageId, Outcome};
use mailapi_testkit::SeededEntropy;

use super::house::{House, address, mail};

/// Sends a message of ann's to zoe, joe and bob, of whom bob is here.
async fn sent(house: &House, entropy: &dyn Entropy) -> MessageId {
    let message_id = MessageId::random(entropy);
    let recipients = ["zoe@far.example", "joe@far.example", "bob@example.org"].map(address).to_vec();
    let envelope = Envelope { message_id, sender: Some(address("ann@example.org")), recipients };
    house.maildrop.submit(envelope, mail("Hi", ".").into()).await.unwrap();
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

/// Delivers a notice; answers what the feed tells of returned mail so far.
async fn told(house: &House, from: &str, to: &str, notice: &str) -> Vec<DeliveryEvent> {
    let sender = (!from.is_empty()).then(|| address(from));
    let message = notice.to_owned();
    let incoming = Incoming::new(sender, [address(to)], message, house.clock.now(), Relaying::Denied);
    house.maildrop.accept(incoming).await.unwrap();
    let mut events = house.maildrop.read_after(&FeedCursor::default(), 1000).await.unwrap().events;
    events.retain(|event| event.evidence == Evidence::ReturnedMail);
    events
}

#[tokio::test]
async fn a_forged_notice_changes_nothing() {
    let house = House::new().await;
    let id = sent(&house, &SeededEntropy::new(7)).await.to_string();
    let unknown = MessageId::random(&SeededEntropy::new(8)).to_string();
    let good = notice(&id, "failed", "zoe@far.example");
    for (from, to, notice) in [
        // Sent to who is not the sender, or not as notices are sent.
        ("", "bob@example.org", good.clone()),
        ("eve@far.example", "ann@example.org", good.clone()),
        ("", "ann@example.org", good.replace("multipart/report", "multipart/mixed")),
        // Of a message that is not ours, of a recipient that it did not leave for, and of no failure.
        ("", "ann@example.org", notice(&unknown, "failed", "zoe@far.example")),
        ("", "ann@example.org", notice("hello", "failed", "zoe@far.example")),
        ("", "ann@example.org", notice(&id, "failed", "eve@far.example")),
        ("", "ann@example.org", notice(&id, "failed", "bob@example.org")),
        ("", "ann@example.org", notice(&id, "delayed", "zoe@far.example")),
    ] {
        assert_eq!(told(&house, from, to, &notice).await, [], "{from} {to} {notice}");
    }
}

#[tokio::test]
async fn a_message_that_comes_back_is_told_once_for_each_recipient() {
    let house = House::new().await;
    let id = sent(&house, &SeededEntropy::new(7)).await;
    house.advance(60);
    for count in [1, 1] {
        let told = told(&house, "", "ann@example.org", &notice(&id.to_string(), "failed", "ZOE@far.example")).await;
        assert_eq!(told.len(), count);
        assert_eq!((told[0].message_id, told[0].outcome), (Some(id), Outcome::Bounced));
        assert_eq!((told[0].recipient.as_str(), told[0].delay.as_secs()), ("zoe@far.example", 60));
        assert_eq!(told[0].response, "550 5.1.1 no such user");
        assert_eq!(told[0].dsn.unwrap().to_string(), "5.1.1");
    }
    let told = told(&house, "", "ann@example.org", &notice(&id.to_string(), "failed", "joe@far.example")).await;
    assert_eq!(told.len(), 2);
}

#[tokio::test]
async fn a_recipient_can_come_back_after_members_of_it_did() {
    let house = House::new().await;
    let id = sent(&house, &SeededEntropy::new(7)).await.to_string();
    let alias = "joe@far.example\r\nOriginal-Recipient: rfc822; zoe@far.example";
    let of_member = notice(&id, "failed", alias);
    let of_other = notice(&id, "failed", &alias.replace("joe", "jim"));
    let of_recipient = notice(&id, "failed", "zoe@far.example");
    for notice in [&of_member, &of_other, &of_recipient, &of_recipient] {
        told(&house, "", "ann@example.org", notice).await;
    }
    let told = told(&house, "", "ann@example.org", &of_member).await;
    let told: Vec<_> = told
        .iter()
        .map(|event| (event.recipient.as_str(), event.final_recipient.as_ref().map(|member| member.as_str())))
        .collect();
    let members = [("zoe@far.example", Some("joe@far.example")), ("zoe@far.example", Some("jim@far.example"))];
    assert_eq!(told, [members[0], members[1], ("zoe@far.example", None)], "nothing counts behind the recipient's own");
}
