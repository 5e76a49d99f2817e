//! Postfix is killed and mailapi stops: nothing is lost or duplicated.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mailapi_backend::{Accepted, Submission, SubmitError};
use mailapi_model::{MessageId, Timestamp};
use mailapi_testkit::SeededEntropy;

use crate::mail_host::{MailHost, attempt, outcomes, send};

#[tokio::test]
async fn a_killed_postfix_is_unavailable_and_its_return_is_noticed() {
    let mut host = MailHost::open(|_| {}).await;
    let (first, answer) = host.send(&["good@example.net"]).await;
    answer.unwrap();
    host.postfix.kill();
    let (_, answer) = host.send(&["good@example.net"]).await;
    assert!(matches!(answer, Err(SubmitError::Unavailable(_))), "{answer:?}");
    assert!(host.submission.check().await.is_err());
    host.postfix.restart().await;
    // The connection from before the kill is dead; it is replaced silently.
    let (second, answer) = host.send(&["good@example.net"]).await;
    answer.unwrap();
    host.read_until(|events| [first, second].iter().all(|id| outcomes(events, *id).len() == 1)).await;
    // Check the last event only: a kill between a delivery and its log line may repeat the delivery.
    for id in [first, second] {
        assert_eq!(outcomes(&host.events, id)["good@example.net"].last(), Some(&"sent"));
    }
}

#[tokio::test]
async fn the_log_is_read_on_from_where_a_stopped_follower_stood() {
    let mut host = MailHost::open(|_| {}).await;
    let mut sent = Vec::new();
    for _ in 0..5 {
        let (id, answer) = host.send(&["good@example.net"]).await;
        answer.unwrap();
        sent.push(id);
        host.read().await;
        host.restart_follower();
    }
    host.read_until(|events| sent.iter().all(|id| outcomes(events, *id).len() == 1)).await;
    assert!(sent.iter().all(|id| outcomes(&host.events, *id)["good@example.net"] == ["sent"]));
}

/// Sends messages while Postfix is killed, and returns the result of each.
async fn interrupted(host: &mut MailHost) -> Vec<(MessageId, Result<Accepted, SubmitError>)> {
    let entropy = SeededEntropy::new(7);
    let ids: Vec<MessageId> = (0..120).map(|_| MessageId::random(Timestamp::from_millis(0), &entropy)).collect();
    let (submission, postfix, answered) = (&host.submission, &mut host.postfix, AtomicUsize::new(0));
    let sends = join_all(ids.iter().map(async |id| {
        let answer = send(submission, *id, &["good@example.net"]).await;
        answered.fetch_add(1, Ordering::SeqCst);
        answer
    }));
    let kill = async {
        while answered.load(Ordering::SeqCst) < 40 {
            tokio::task::yield_now().await;
        }
        postfix.kill();
        postfix.restart().await;
    };
    let (answers, ()) = tokio::join!(sends, kill);
    answers
}

fn copies(host: &MailHost, id: MessageId) -> usize {
    let name = id.to_string();
    host.sink.received().iter().filter(|message| String::from_utf8_lossy(&message.data).contains(&name)).count()
}

#[tokio::test]
async fn after_any_kill_the_log_decides_each_message() {
    let mut host = MailHost::open(|_| {}).await;
    let answers = interrupted(&mut host).await;
    let ids: Vec<MessageId> = answers.iter().map(|(id, _)| *id).collect();
    let (mut taken, mut open) = (Vec::new(), Vec::new());
    for (id, answer) in answers {
        match answer {
            Ok(_) => taken.push(id),
            Err(SubmitError::OutcomeUnknown) => match host.submission.find(&attempt(id)).await {
                Ok(Some(_)) => taken.push(id),
                // The server's log lines may be lost, so the message is not reported as absent.
                other => {
                    assert!(matches!(other, Err(SubmitError::Unavailable(_))), "{other:?}");
                    open.push(id);
                }
            },
            Err(error) => assert!(matches!(error, SubmitError::Unavailable(_)), "{error}"),
        }
    }
    assert!(taken.len() >= 40);
    let is_sent = |outcome: Option<&Vec<&str>>| outcome.is_some_and(|outcome| outcome.last() == Some(&"sent"));
    host.read_until(|events| taken.iter().all(|id| is_sent(outcomes(events, *id).get("good@example.net")))).await;
    for id in ids {
        let copies = copies(&host, id);
        assert!(copies > 0 || !taken.contains(&id), "{id} was lost");
        assert!(
            copies == 0 || taken.contains(&id) || open.contains(&id),
            "{id} was delivered, but no send of it was accepted or left open"
        );
    }
}

#[tokio::test]
async fn with_a_separate_logger_the_queue_decides_each_message() {
    let mut host = MailHost::open(|settings| settings.separate_logger = true).await;
    let answers = interrupted(&mut host).await;
    let (mut taken, mut never) = (Vec::new(), Vec::new());
    for (id, answer) in answers {
        match answer {
            Ok(_) => taken.push(id),
            Err(SubmitError::OutcomeUnknown) => match decided(&mut host, id).await {
                Some(_) => taken.push(id),
                None => never.push(id),
            },
            Err(_) => never.push(id),
        }
    }
    let is_sent = |outcome: Option<&Vec<&str>>| outcome.is_some_and(|outcome| outcome.last() == Some(&"sent"));
    host.read_until(|events| taken.iter().all(|id| is_sent(outcomes(events, *id).get("good@example.net")))).await;
    assert!(taken.iter().all(|id| copies(&host, *id) > 0));
    assert!(never.iter().all(|id| copies(&host, *id) == 0));
}

/// Follows the log and looks up a message until the result is decided.
async fn decided(host: &mut MailHost, id: MessageId) -> Option<Accepted> {
    let mut open = None;
    let looking = async {
        loop {
            // Until the follower has read them, lines of others after the crash may be about this message.
            host.read().await;
            match host.submission.find(&attempt(id)).await {
                Ok(found) => return found,
                Err(error) => open = Some(error),
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), looking).await;
    found.unwrap_or_else(|_| panic!("{id} is still open: {open:?}\nPostfix logged:\n{}", host.postfix_log()))
}
