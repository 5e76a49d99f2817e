//! Postfix is killed, mailapi stops: nothing is lost, nothing comes twice.

use mailapi_backend::{Submission, SubmitError};

use crate::office::{Office, fates};

#[tokio::test]
async fn a_killed_postfix_is_unavailable_and_its_return_is_noticed() {
    let mut office = Office::open(|_| {}).await;
    let (first, answer) = office.send(&["good@example.net"]).await;
    answer.unwrap();
    office.postfix.kill();
    let (_, answer) = office.send(&["good@example.net"]).await;
    assert!(matches!(answer, Err(SubmitError::Unavailable(_))), "{answer:?}");
    assert!(office.submission.check().await.is_err());
    office.postfix.restart().await;
    // The connection from before the kill is dead; nobody notices.
    let (second, answer) = office.send(&["good@example.net"]).await;
    answer.unwrap();
    office.read_until(|events| [first, second].iter().all(|id| fates(events, *id).len() == 1)).await;
    // Once by the message of each, whatever was killed: a kill between delivery and its log line may repeat one.
    for id in [first, second] {
        assert_eq!(fates(&office.events, id)["good@example.net"].last(), Some(&"sent"));
    }
}

#[tokio::test]
async fn the_log_is_read_on_from_where_a_stopped_follower_stood() {
    let mut office = Office::open(|_| {}).await;
    let mut sent = Vec::new();
    for _ in 0..5 {
        let (id, answer) = office.send(&["good@example.net"]).await;
        answer.unwrap();
        sent.push(id);
        office.read().await;
        office.restart_follower();
    }
    office.read_until(|events| sent.iter().all(|id| fates(events, *id).len() == 1)).await;
    assert!(sent.iter().all(|id| fates(&office.events, *id)["good@example.net"] == ["sent"]));
}
