//! What the log says of each recipient.

use std::process::Command;

use mailapi_backend::Submission;
use mailapi_model::Outcome;
use mailapi_testkit::PostfixRecipients;

use crate::office::{Office, attempt, fates};

#[tokio::test]
async fn one_message_to_all_kinds_of_recipients_is_followed_to_its_end() {
    for long_queue_ids in [true, false] {
        let mut office = Office::open(|settings| settings.long_queue_ids = long_queue_ids).await;
        office.sink.refuse("gone@example.net", &["550 5.1.1 User unknown"]);
        office.sink.refuse("later@example.net", &["450 4.2.0 Greylisted"]);
        let all =
            ["nobody@example.org", "good@example.net", "gone@example.net", "later@example.net", "bob@example.org"];
        let (id, answer) = office.send(&all).await;
        let accepted = answer.unwrap();
        // Postfix knows its own recipients.
        assert_eq!(accepted.refused.len(), 1);
        assert_eq!(accepted.refused[0].recipient.as_str(), "nobody@example.org");
        assert_eq!(accepted.refused[0].reply.code, 550);
        office
            .read_until(|events| fates(events, id).get("later@example.net").is_some_and(|fate| fate.len() == 2))
            .await;
        let fates = fates(&office.events, id);
        let expected = [
            ("bob@example.org", vec!["sent"]),
            ("gone@example.net", vec!["bounced"]),
            ("good@example.net", vec!["sent"]),
            ("later@example.net", vec!["deferred", "sent"]),
        ];
        assert_eq!(fates.iter().map(|(who, fate)| (who.as_str(), fate.clone())).collect::<Vec<_>>(), expected);
        assert!(
            office
                .events
                .iter()
                .filter(|event| event.message_id == Some(id))
                .all(|event| { event.queue_id == accepted.queue_id && event.sender == "ann@example.org".parse().ok() })
        );
        let bounce = office.events.iter().find(|event| event.outcome == Outcome::Bounced).unwrap();
        assert_eq!(bounce.dsn, "5.1.1".parse().ok());
        assert!(bounce.response.contains("550 5.1.1 User unknown"), "{}", bounce.response);
        assert_eq!(office.postfix.delivered("bob@example.org").len(), 1);
        assert_eq!(office.submission.find(&attempt(id)).await.unwrap(), Some(accepted));
    }
}

#[tokio::test]
async fn an_alias_is_credited_to_the_recipient_that_the_sender_named() {
    let mut office = Office::open(|settings| {
        if let PostfixRecipients::Fixed { aliases, .. } = &mut settings.recipients {
            aliases.push(("team@example.org".to_owned(), "bob@example.org, eve@example.net".to_owned()));
        }
    })
    .await;
    let (id, answer) = office.send(&["team@example.org"]).await;
    answer.unwrap();
    office.read_until(|events| fates(events, id).get("team@example.org").is_some_and(|fate| fate.len() == 2)).await;
    assert_eq!(fates(&office.events, id).len(), 1);
}

#[tokio::test]
async fn what_cannot_be_delivered_in_time_expires() {
    let mut office = Office::open(|settings| settings.queue_lifetime_seconds = 2).await;
    office.sink.refuse("never@example.net", &["450 4.2.0 Greylisted"; 100]);
    let (id, answer) = office.send(&["never@example.net"]).await;
    answer.unwrap();
    let is_expired = |fate: &Vec<&str>| fate.last() == Some(&"expired");
    office.read_until(|events| fates(events, id).get("never@example.net").is_some_and(is_expired)).await;
    assert_eq!(fates(&office.events, id)["never@example.net"].iter().filter(|one| **one == "expired").count(), 1);
}

#[tokio::test]
async fn what_a_rule_of_postfix_discards_is_told_whole() {
    let rules = ("header_checks".to_owned(), "regexp:{{/^From:/ DISCARD no adverts}}".to_owned());
    let mut office = Office::open(|settings| settings.parameters.push(rules)).await;
    let (id, answer) = office.send(&["good@example.net", "bob@example.org", "nobody@example.org"]).await;
    let queue_id = answer.unwrap().queue_id;
    office.postfix.logged(&[&queue_id.0, "discard: "]).await;
    office.read().await;
    assert_eq!(office.events, []);
    let told: Vec<_> = office.discarded.iter().map(|one| (one.message_id, &one.queue_id)).collect();
    assert_eq!(told, [(id, &queue_id)]);
    let discarded = &office.discarded[0];
    assert!(discarded.response.starts_with("discard: header From: ann@example.org from "), "{}", discarded.response);
    assert!(discarded.response.ends_with(": no adverts"), "{}", discarded.response);
}

#[tokio::test]
async fn what_the_operator_deletes_on_hold_is_reported_whole() {
    let rules = ("header_checks".to_owned(), "regexp:{{/^From:/ HOLD}}".to_owned());
    let mut office = Office::open(|settings| settings.parameters.push(rules)).await;
    let (id, answer) = office.send(&["good@example.net", "bob@example.org"]).await;
    let queue_id = answer.unwrap().queue_id;
    let config = office.postfix.config_dir();
    let deleted = Command::new("postsuper").arg("-c").arg(config).args(["-d", &queue_id.0]).output().unwrap();
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    office.postfix.logged(&["postsuper", &queue_id.0, "removed"]).await;
    office.read().await;
    let told: Vec<_> = office.discarded.iter().map(|one| (one.message_id, &one.queue_id)).collect();
    assert_eq!((told, &office.events[..]), (vec![(id, &queue_id)], &[][..]));
}

#[tokio::test]
async fn what_was_refused_and_what_was_never_sent_is_not_found() {
    let office = Office::open(|_| {}).await;
    let (refused, answer) = office.send(&["nobody@example.org"]).await;
    answer.unwrap_err();
    assert_eq!(office.submission.find(&attempt(refused)).await, Ok(None));
    assert_eq!(office.submission.check().await, Ok(()));
}
