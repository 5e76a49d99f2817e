//! Rules of mailboxes.

use mailapi_model::{FolderName, RuleSet};

use super::Fixture;
use super::story::{listed, mailbox};

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
