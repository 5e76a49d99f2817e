//! The log's results for each recipient.

use std::process::Command;

use mailapi_backend::Submission;
use mailapi_model::Outcome;
use mailapi_testkit::PostfixRecipients;

use crate::mail_host::{MailHost, attempt, outcomes};

#[tokio::test]
async fn a_message_to_all_kinds_of_recipients_is_followed() {
    for long_queue_ids in [true, false] {
        let mut host = MailHost::open(|settings| settings.long_queue_ids = long_queue_ids).await;
        host.sink.refuse("gone@example.net", &["550 5.1.1 User unknown"]);
        host.sink.refuse("later@example.net", &["450 4.2.0 Greylisted"]);
        let all =
            ["nobody@example.org", "good@example.net", "gone@example.net", "later@example.net", "bob@example.org"];
        let (id, answer) = host.send(&all).await;
        let accepted = answer.unwrap();
        // Postfix rejects unknown local recipients at once.
        assert_eq!(accepted.refused.len(), 1);
        assert_eq!(accepted.refused[0].recipient.as_str(), "nobody@example.org");
        assert_eq!(accepted.refused[0].reply.code, 550);
        host.read_until(|events| {
            outcomes(events, id).get("later@example.net").is_some_and(|outcome| outcome.len() == 2)
        })
        .await;
        let outcomes = outcomes(&host.events, id);
        let expected = [
            ("bob@example.org", vec!["sent"]),
            ("gone@example.net", vec!["bounced"]),
            ("good@example.net", vec!["sent"]),
            ("later@example.net", vec!["deferred", "sent"]),
        ];
        assert_eq!(outcomes.iter().map(|(who, outcome)| (who.as_str(), outcome.clone())).collect::<Vec<_>>(), expected);
        assert!(
            host.events
                .iter()
                .filter(|event| event.message_id == Some(id))
                .all(|event| { event.queue_id == accepted.queue_id && event.sender == "ann@example.org".parse().ok() })
        );
        let bounce = host.events.iter().find(|event| event.outcome == Outcome::Bounced).unwrap();
        assert_eq!(bounce.dsn, "5.1.1".parse().ok());
        assert!(bounce.response.contains("550 5.1.1 User unknown"), "{}", bounce.response);
        assert_eq!(host.postfix.delivered("bob@example.org").len(), 1);
        assert_eq!(host.submission.find(&attempt(id)).await.unwrap(), Some(accepted));
    }
}

#[tokio::test]
async fn an_alias_is_credited_to_the_recipient_that_the_sender_named() {
    let mut host = MailHost::open(|settings| {
        if let PostfixRecipients::Fixed { aliases, .. } = &mut settings.recipients {
            aliases.push(("team@example.org".to_owned(), "bob@example.org, eve@example.net".to_owned()));
        }
    })
    .await;
    let (id, answer) = host.send(&["team@example.org"]).await;
    answer.unwrap();
    host.read_until(|events| outcomes(events, id).get("team@example.org").is_some_and(|outcome| outcome.len() == 2))
        .await;
    assert_eq!(outcomes(&host.events, id).len(), 1);
}

#[tokio::test]
async fn what_cannot_be_delivered_in_time_expires() {
    let mut host = MailHost::open(|settings| settings.queue_lifetime_seconds = 2).await;
    host.sink.refuse("never@example.net", &["450 4.2.0 Greylisted"; 100]);
    let (id, answer) = host.send(&["never@example.net"]).await;
    answer.unwrap();
    let is_expired = |outcome: &Vec<&str>| outcome.last() == Some(&"expired");
    host.read_until(|events| outcomes(events, id).get("never@example.net").is_some_and(is_expired)).await;
    assert_eq!(outcomes(&host.events, id)["never@example.net"].iter().filter(|one| **one == "expired").count(), 1);
}

#[tokio::test]
async fn a_message_discarded_by_header_checks_is_reported_once() {
    let rules = ("header_checks".to_owned(), "regexp:{{/^From:/ DISCARD no adverts}}".to_owned());
    let mut host = MailHost::open(|settings| settings.parameters.push(rules)).await;
    let (id, answer) = host.send(&["good@example.net", "bob@example.org", "nobody@example.org"]).await;
    let queue_id = answer.unwrap().queue_id;
    host.postfix.logged(&[&queue_id.0, "discard: "]).await;
    host.read().await;
    assert_eq!(host.events, []);
    let reported: Vec<_> = host.discarded.iter().map(|one| (one.message_id, &one.queue_id)).collect();
    assert_eq!(reported, [(id, &queue_id)]);
    let discarded = &host.discarded[0];
    assert!(discarded.response.starts_with("discard: header From: ann@example.org from "), "{}", discarded.response);
    assert!(discarded.response.ends_with(": no adverts"), "{}", discarded.response);
}

#[tokio::test]
async fn what_the_operator_deletes_on_hold_is_reported_whole() {
    let rules = ("header_checks".to_owned(), "regexp:{{/^From:/ HOLD}}".to_owned());
    let mut host = MailHost::open(|settings| settings.parameters.push(rules)).await;
    let (id, answer) = host.send(&["good@example.net", "bob@example.org"]).await;
    let queue_id = answer.unwrap().queue_id;
    let config = host.postfix.config_dir();
    let deleted = Command::new("postsuper").arg("-c").arg(config).args(["-d", &queue_id.0]).output().unwrap();
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    host.postfix.logged(&["postsuper", &queue_id.0, "removed"]).await;
    host.read().await;
    let reported: Vec<_> = host.discarded.iter().map(|one| (one.message_id, &one.queue_id)).collect();
    assert_eq!((reported, &host.events[..]), (vec![(id, &queue_id)], &[][..]));
}

#[tokio::test]
async fn what_was_refused_and_what_was_never_sent_is_not_found() {
    let host = MailHost::open(|_| {}).await;
    let (refused, answer) = host.send(&["nobody@example.org"]).await;
    answer.unwrap_err();
    assert_eq!(host.submission.find(&attempt(refused)).await, Ok(None));
    assert_eq!(host.submission.check().await, Ok(()));
}
