use mailapi_backend::{Attempt, Mailboxes, Provisioning, Refusal, Submission, SubmitError};
use mailapi_backend_embedded::MaildropSettings;
use mailapi_backend_embedded::accept::{AcceptError, RecipientCheck, Relaying};
use mailapi_model::{Clock, Envelope, MessageId, Octets, Page, ReversePath, Timestamp};
use mailapi_testkit::SeededEntropy;

use super::house::{House, address, ann, bob, folder, mail, octets};

fn codes(refused: &[Refusal]) -> Vec<String> {
    refused.iter().map(|r| format!("{} {} {}", r.recipient, r.reply.code, r.reply.enhanced.unwrap())).collect()
}

fn nothing_was_written(house: &House) {
    for table in ["messages", "chunks", "entries", "queue", "queue_recipients", "feed", "accepted", "unindexed"] {
        assert_eq!(house.number(&format!("SELECT count(*) FROM drop_{table}")), 0, "{table}");
    }
}

#[tokio::test]
async fn mail_for_nobody_here_is_refused_and_leaves_nothing() {
    let house = House::new().await;
    let mut incoming = house.incoming(&["nobody@example.org", "carl@elsewhere.example"], &mail("Hi", "."));
    incoming.relaying = Relaying::Denied;
    let Err(AcceptError::NoRecipients(refused)) = house.maildrop.accept(incoming).await else { panic!() };
    assert_eq!(codes(&refused), ["nobody@example.org 550 5.1.1", "carl@elsewhere.example 550 5.7.1"]);
    nothing_was_written(&house);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_as_a_whole() {
    let house = House::with(MaildropSettings { max_message_bytes: 100, ..MaildropSettings::default() }).await;
    let refused = house.maildrop.accept(house.incoming(&["ann@example.org"], &mail("Hi", &"x".repeat(100)))).await;
    let Err(AcceptError::Refused(reply)) = refused else { panic!() };
    assert_eq!(reply.to_string(), "552 5.3.4 the message is too long");
    nothing_was_written(&house);
}

#[tokio::test]
async fn a_full_mailbox_is_refused_and_the_others_get_the_message() {
    let house = House::new().await;
    house.maildrop.put_mailbox(&ann(), Some(10)).await.unwrap();
    let taken = house
        .maildrop
        .accept(house.incoming(&["ann@example.org", "bob@example.org", "BOB@example.org"], &mail("Hi", ".")))
        .await
        .unwrap();
    assert_eq!(codes(&taken.refused), ["ann@example.org 552 5.2.2"]);
    assert_eq!(taken.delivered, [bob()]);
    assert_eq!(house.maildrop.quota(&ann()).await.unwrap().messages, 0);
    assert_eq!(house.maildrop.quota(&bob()).await.unwrap().messages, 1);
}

#[tokio::test]
async fn a_step_that_fails_leaves_nothing_of_the_message() {
    for (table, event) in [
        ("chunks", "INSERT"),
        ("entries", "INSERT"),
        ("folders", "UPDATE"),
        ("queue_recipients", "INSERT"),
        ("feed", "INSERT"),
        ("accepted", "INSERT"),
    ] {
        let house = House::new().await;
        house
            .database()
            .execute_batch(&format!(
                "CREATE TRIGGER stop AFTER {event} ON drop_{table} BEGIN SELECT RAISE(FAIL, 'stopped'); END"
            ))
            .unwrap();
        let envelope = envelope(&["ann@example.org", "carl@elsewhere.example"]);
        let submitted = house.maildrop.submit(envelope, Octets::from(mail("Hi", "."))).await;
        assert!(matches!(submitted, Err(SubmitError::Unavailable(_))), "{table}");
        nothing_was_written(&house);
    }
}

fn envelope(recipients: &[&str]) -> Envelope {
    let recipients = recipients.iter().map(|r| r.parse().unwrap()).collect();
    let sender: ReversePath = Some(bob());
    Envelope { message_id: MessageId::random(&SeededEntropy::new(7)), sender, recipients }
}

#[tokio::test]
async fn a_message_lies_once_on_disk_and_in_every_inbox() {
    let house = House::new().await;
    let message = mail("Hi", "Hello.");
    house.deliver(&["ann@example.org", "bob@example.org"], &message).await;
    assert_eq!(house.number("SELECT count(*) FROM drop_messages"), 1);
    assert_eq!(house.number("SELECT refs FROM drop_messages"), 2);
    for mailbox in [ann(), bob()] {
        let listed = house.maildrop.list(&mailbox, &folder("INBOX"), Page::default()).await.unwrap();
        assert_eq!((listed.total, listed.items[0].uid), (1, 1));
        let raw = house.maildrop.open_raw(&mailbox, &folder("INBOX"), 1).await.unwrap();
        let expected = format!("Return-Path: <eve@elsewhere.example>\r\n{message}");
        assert_eq!(raw.size, expected.len() as u64);
        assert_eq!(octets(raw.content).await.unwrap(), expected.as_bytes());
    }
}

/// What is asked after a crash while this was handed over.
fn attempt(envelope: &Envelope) -> Attempt {
    let sender = envelope.sender.clone().unwrap();
    Attempt { message_id: envelope.message_id, sender, since: Timestamp::from_seconds(0), by_this_node: true }
}

#[tokio::test]
async fn a_message_from_the_api_is_taken_over_once_and_found_again() {
    let house = House::new().await;
    let envelope = envelope(&["ann@example.org", "nobody@example.org", "carl@elsewhere.example"]);
    assert_eq!(house.maildrop.find(&attempt(&envelope)).await.unwrap(), None);
    let message = Octets::from(mail("Hi", "."));
    let first = house.maildrop.submit(envelope.clone(), message.clone()).await.unwrap();
    assert_eq!(codes(&first.refused), ["nobody@example.org 550 5.1.1"]);
    let again = house.open_again().await;
    assert_eq!(again.submit(envelope.clone(), message).await.unwrap(), first);
    assert_eq!(again.find(&attempt(&envelope)).await.unwrap(), Some(first));
    assert_eq!(house.number("SELECT count(*) FROM drop_entries"), 1);
    assert_eq!(house.number("SELECT count(*) FROM drop_queue_recipients"), 1);
    assert_eq!(house.number("SELECT count(*) FROM drop_feed"), 1);
}

#[tokio::test]
async fn what_was_taken_over_is_forgotten_when_it_is_old() {
    let house = House::new().await;
    let envelope = envelope(&["ann@example.org", "nobody@example.org"]);
    house.maildrop.submit(envelope.clone(), Octets::from(mail("Hi", "."))).await.unwrap();
    house.maildrop.keep_house_until_done().await.unwrap();
    assert!(house.maildrop.find(&attempt(&envelope)).await.unwrap().is_some());
    house.advance(31 * 24 * 60 * 60);
    house.maildrop.keep_house_until_done().await.unwrap();
    assert_eq!(house.maildrop.find(&attempt(&envelope)).await.unwrap(), None);
    assert_eq!(house.number("SELECT count(*) FROM drop_accepted_refusals"), 0);
}

#[tokio::test]
async fn a_recipient_is_judged_before_the_message_comes() {
    let house = House::new().await;
    house.maildrop.put_mailbox(&bob(), Some(1_000)).await.unwrap();
    let ask = async |recipient: &str, size, relaying| match house
        .maildrop
        .check_recipient(&address(recipient), size, relaying)
        .await
        .unwrap()
    {
        RecipientCheck::Refused(reply) => reply.code.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(ask("nobody@example.org", 0, Relaying::Allowed).await, "550");
    assert_eq!(ask("carl@elsewhere.example", 0, Relaying::Denied).await, "550");
    // Another server retries; an author here gets the refusal at once.
    assert_eq!(ask("bob@example.org", 1_001, Relaying::Denied).await, "452");
    assert_eq!(ask("bob@example.org", 1_001, Relaying::Allowed).await, "552");
    assert_eq!(ask("bob@example.org", 1_000, Relaying::Denied).await, "Local");
    assert_eq!(ask("carl@elsewhere.example", 0, Relaying::Allowed).await, "Remote");
}

#[tokio::test]
async fn mailboxes_come_back_empty_when_they_go() {
    let house = House::new().await;
    house.deliver(&["ann@example.org"], &mail("one", ".")).await;
    let before = house.maildrop.folder(&ann(), &folder("INBOX")).await.unwrap();
    for _ in 0..2 {
        house.maildrop.remove_mailbox(&ann()).await.unwrap();
    }
    assert!(house.maildrop.folder(&ann(), &folder("INBOX")).await.is_err());
    for _ in 0..2 {
        house.maildrop.put_mailbox(&ann(), None).await.unwrap();
    }
    let after = house.maildrop.folder(&ann(), &folder("INBOX")).await.unwrap();
    assert_eq!((after.messages, after.size, after.uid_next), (0, 0, 1));
    assert!(after.uid_validity > before.uid_validity);
    assert!(house.clock.now().as_seconds() > 0);
}

#[tokio::test]
async fn a_mailbox_of_a_domain_that_is_not_ours_captures_no_mail() {
    let house = House::new().await;
    let squatter = address("ceo@elsewhere.example");
    house.maildrop.put_mailbox(&squatter, None).await.unwrap();
    let mut from_outside = house.incoming(&["ceo@elsewhere.example"], &mail("Hi", "."));
    from_outside.relaying = Relaying::Denied;
    let Err(AcceptError::NoRecipients(refused)) = house.maildrop.accept(from_outside).await else { panic!() };
    assert_eq!(codes(&refused), ["ceo@elsewhere.example 550 5.7.1"]);
    let mut notice = house.incoming(&["ceo@elsewhere.example"], &mail("Undelivered", "."));
    notice.sender = None;
    for ours in [house.incoming(&["ceo@elsewhere.example"], &mail("Hi", ".")), notice] {
        let taken = house.maildrop.accept(ours).await.unwrap();
        assert_eq!((taken.delivered, taken.queued), (Vec::new(), vec![squatter.clone()]), "it goes to the real server");
    }
    assert_eq!(house.maildrop.quota(&squatter).await.unwrap().messages, 0);
    house.maildrop.put_domain(&squatter.domain()).await.unwrap();
    house.deliver(&["ceo@elsewhere.example"], &mail("Welcome", ".")).await;
    assert_eq!(house.maildrop.quota(&squatter).await.unwrap().messages, 1, "once the domain is ours");
}

#[tokio::test]
async fn mail_of_a_domain_that_went_is_no_longer_delivered_and_its_mailboxes_keep_theirs() {
    let house = House::new().await;
    house.deliver(&["ann@example.org"], &mail("one", ".")).await;
    house.maildrop.remove_domain(&"example.org".parse().unwrap()).await.unwrap();
    let taken = house.maildrop.accept(house.incoming(&["ann@example.org"], &mail("two", "."))).await.unwrap();
    assert_eq!(taken.queued, [ann()]);
    assert_eq!(house.maildrop.quota(&ann()).await.unwrap().messages, 1);
}

#[tokio::test]
async fn mail_with_a_tag_goes_to_the_mailbox_before_it() {
    let house = House::new().await;
    let tagged = ["bob+shop@example.org", "nobody+x@example.org", "+x@example.org", "bob+@example.org"];
    let taken = house.maildrop.accept(house.incoming(&tagged, &mail("Hi", "."))).await.unwrap();
    assert_eq!(codes(&taken.refused), ["nobody+x@example.org 550 5.1.1", "+x@example.org 550 5.1.1"]);
    assert_eq!(house.maildrop.quota(&bob()).await.unwrap().messages, 2);
    let check = house.maildrop.check_recipient(&address("bob+a+b@example.org"), 0, Relaying::Denied).await.unwrap();
    assert_eq!(check, RecipientCheck::Local);

    house.maildrop.put_mailbox(&address("bob+own@example.org"), None).await.unwrap();
    house.maildrop.accept(house.incoming(&["bob+own@example.org"], &mail("Hi", "."))).await.unwrap();
    assert_eq!(house.maildrop.quota(&bob()).await.unwrap().messages, 2, "a mailbox of the whole name comes first");

    let strict = House::with(MaildropSettings { recipient_delimiter: None, ..MaildropSettings::default() }).await;
    let refused = strict.maildrop.accept(strict.incoming(&["bob+shop@example.org"], &mail("Hi", "."))).await;
    assert!(matches!(refused, Err(AcceptError::NoRecipients(_))));
}
