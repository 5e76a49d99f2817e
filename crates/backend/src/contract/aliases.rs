//! Aliases.

use mailapi_model::{Alias, EmailAddress, FolderName, Outcome, Timestamp};

use super::story::{address, code, end_of_feed, events_of, listed, mailbox, send};
use super::{Fixture, mail};
use crate::SubmitError;

async fn put(fixture: &dyn Fixture, local: &str, members: &[&EmailAddress]) -> EmailAddress {
    let (address, created_at) = (address(fixture, local), Timestamp::from_seconds(0));
    let members = members.iter().map(|&member| member.clone()).collect();
    fixture
        .put_alias(&Alias { address: address.clone(), members, senders: Vec::new(), active: true, created_at })
        .await;
    address
}

async fn held(fixture: &dyn Fixture, mailbox: &EmailAddress) -> usize {
    listed(fixture, mailbox, &FolderName::inbox()).await.len()
}

/// A removed alias behaves like one that never existed.
pub async fn a_removed_alias_is_refused(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let team = put(fixture, "team", &[&bob]).await;
    fixture.remove_alias(&team).await;
    let answer = send(fixture, &[&team]).await.answer;
    let Err(SubmitError::NoRecipients(refused)) = answer else { panic!("{answer:?}") };
    assert_eq!(code(&refused[0]), "5.1.1");
    assert_eq!(held(fixture, &bob).await, 0);
}

/// The feed reports each member, and names the alias as the recipient.
pub async fn each_member_gets_a_copy_and_is_reported(fixture: &dyn Fixture) {
    let (bob, cid) = (mailbox(fixture, "bob").await, mailbox(fixture, "cid").await);
    let inner = put(fixture, "inner", &[&cid, &bob]).await;
    let team = put(fixture, "team", &[&bob, &inner]).await;
    let start = end_of_feed(fixture).await;
    let sent = send(fixture, &[&team]).await;
    sent.answer.expect("the message is accepted");
    assert_eq!((held(fixture, &bob).await, held(fixture, &cid).await), (1, 1));
    let mut reported = events_of(fixture, &start, sent.id).await;
    reported.sort_by(|one, other| one.final_recipient.cmp(&other.final_recipient));
    let reported: Vec<_> =
        reported.into_iter().map(|event| (event.recipient, event.final_recipient, event.outcome)).collect();
    assert_eq!(reported, [(team.clone(), Some(bob), Outcome::Sent), (team, Some(cid), Outcome::Sent)]);
}

/// A catch-all gets the mail of no mailbox and of no alias.
pub async fn a_catch_all_gets_the_mail_of_other_addresses(fixture: &dyn Fixture) {
    let (bob, cid) = (mailbox(fixture, "bob").await, mailbox(fixture, "cid").await);
    put(fixture, "*", &[&cid]).await;
    let team = put(fixture, "team", &[&bob]).await;
    for recipient in [&bob, &address(fixture, "bob+tag"), &team] {
        send(fixture, &[recipient]).await.answer.expect("the message is accepted");
    }
    assert_eq!((held(fixture, &bob).await, held(fixture, &cid).await), (3, 0));
    send(fixture, &[&address(fixture, "other")]).await.answer.expect("the message is accepted");
    assert_eq!((held(fixture, &bob).await, held(fixture, &cid).await), (3, 1));
}

/// The recipient is the address of the envelope, whatever the message says. A list and a read message agree.
pub async fn a_summary_says_to_which_address_the_message_was_sent(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let sales = put(fixture, "sales", &[&bob]).await;
    let forged = format!("Delivered-To: forged@{}\r\n", fixture.domain());
    let hop = format!("Received: from a.example by b.example for <forged@{}>; x\r\n", fixture.domain());
    let message = [forged.as_bytes(), hop.as_bytes(), &mail::plain("hidden", "x")].concat();
    let tagged = address(fixture, "bob+key");
    for recipient in [&bob, &tagged, &sales] {
        fixture.deliver(recipient, &message).await;
    }
    fixture.settle().await;
    let listed = listed(fixture, &bob, &FolderName::inbox()).await;
    let recipients: Vec<_> = listed.iter().rev().map(|message| message.recipient.as_deref()).collect();
    assert_eq!(recipients, [&bob, &tagged, &sales].map(|recipient| Some(recipient.as_str())));
    for summary in listed {
        let read = fixture.backend().mailboxes.read(&bob, &FolderName::inbox(), summary.uid).await.unwrap();
        assert_eq!(read.summary.recipient, summary.recipient);
    }
}
