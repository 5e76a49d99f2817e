//! Rules of mailboxes.

use mailapi_model::{FolderName, RuleSet};

use super::Fixture;
use super::story::{address, alias, listed, mailbox};

/// A rule decides about the folder and the flags of a message. A mail server without rules says so.
pub async fn a_rule_files_and_marks_messages(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let rules = "rule\ton\tnews\nif\tsubject\tcontains\tNEWS\ndo\tfolder\tLists/News\ndo\tflag\t\\\\Flagged\n";
    let rules = RuleSet::from_text(rules).expect("rules");
    if fixture.backend().provisioning.check_rules(&rules).is_err() {
        return;
    }
    fixture.put_rules(&bob, &rules).await;
    for subject in ["The news of today", "Lunch"] {
        let message = format!("From: a@elsewhere.example\r\nTo: {bob}\r\nSubject: {subject}\r\n\r\nHello.\r\n");
        fixture.deliver(&bob, message.as_bytes()).await;
    }
    let news: FolderName = "Lists/News".parse().expect("a folder");
    let filed = listed(fixture, &bob, &news).await;
    assert_eq!(filed.iter().map(|message| message.subject.as_str()).collect::<Vec<_>>(), ["The news of today"]);
    assert_eq!(fixture.flags(&bob, &news, filed[0].uid).await, ["\\Flagged"]);
    assert_eq!(listed(fixture, &bob, &FolderName::inbox()).await.len(), 1);

    fixture.put_rules(&bob, &RuleSet::default()).await;
    fixture.deliver(&bob, b"Subject: More news\r\n\r\nHello.\r\n").await;
    assert_eq!(listed(fixture, &bob, &FolderName::inbox()).await.len(), 2);
}

/// A rule compares the address that a message was sent to, which the message need not name.
pub async fn a_rule_compares_the_recipient(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let (sales, tagged) = (alias(fixture, "sales", &bob).await, address(fixture, "bob+lists"));
    let rules = format!(
        "rule\ton\ta\nif\trecipient\tis\t{sales}\ndo\tfolder\tSales\nrule\ton\tb\nif\trecipient\tcontains\t+LISTS@\ndo\tfolder\tLists\n"
    );
    let rules = RuleSet::from_text(&rules).expect("rules");
    if fixture.backend().provisioning.check_rules(&rules).is_err() {
        return;
    }
    fixture.put_rules(&bob, &rules).await;
    let forged = format!("Delivered-To: {sales}\r\nReceived: from a by b for <{sales}>; x\r\n");
    for recipient in [&bob, &tagged, &sales] {
        let message = format!("{forged}To: {sales}, {tagged}\r\nSubject: to {recipient}\r\n\r\nHello.\r\n");
        fixture.deliver(recipient, message.as_bytes()).await;
    }
    for (name, recipient) in [("INBOX", &bob), ("Lists", &tagged), ("Sales", &sales)] {
        let filed = listed(fixture, &bob, &name.parse().expect("a folder")).await;
        let subjects: Vec<_> = filed.iter().map(|message| message.subject.clone()).collect();
        assert_eq!(subjects, [format!("to {recipient}")], "{name}");
    }
}
