use std::time::Duration;

use mailapi_model::{
    DeliveryEvent, EnhancedCode, Evidence, FeedCursor, MessageStatus, Outcome, QueueId, RecipientStatus,
};
use mailapi_store::{Appended, DeliveryLogFilter};

use crate::engines::{at, email, message_id, new_sent, on_every_engine, page};

pub(crate) fn cursor(text: &str) -> FeedCursor {
    FeedCursor(text.to_owned())
}

pub(crate) fn event(number: u64, recipient: &str, outcome: Outcome, seconds: i64) -> DeliveryEvent {
    DeliveryEvent {
        at: at(seconds),
        message_id: Some(message_id(number)),
        queue_id: QueueId(format!("Q{number}")),
        sender: Some(email("ann@example.org")),
        recipient: email(recipient),
        final_recipient: None,
        outcome,
        evidence: Evidence::MailServer,
        dsn: Some(EnhancedCode::new(if outcome == Outcome::Sent { 2 } else { 5 }, 0, 0)),
        response: format!("said at {seconds}"),
        relay: Some("mx.example.net[192.0.2.1]:25".to_owned()),
        delay: Duration::from_millis(1500),
        next_attempt_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_was_overtaken_keeps_nothing() {
    on_every_engine(async |store| {
        store.sent().begin(&new_sent(1, &["bob@example.net"])).await.unwrap();
        let log = store.delivery_log();
        let events = [event(1, "bob@example.net", Outcome::Deferred, 5)];
        assert_eq!(log.cursor("feed").await, Ok(None));
        assert!(log.append("feed", &events, &cursor("7"), &cursor("8")).await.unwrap_err().is_guard_failed());
        log.append("feed", &events, &cursor(""), &cursor("8")).await.unwrap();

        for stale in ["", "7", "9"] {
            let overtaken = log.append("feed", &events, &cursor(stale), &cursor("99")).await.unwrap_err();
            assert!(overtaken.is_guard_failed());
        }
        assert_eq!(log.cursor("feed").await, Ok(Some(cursor("8"))));
        assert_eq!(log.list(&DeliveryLogFilter::default(), page(50, 0)).await.unwrap().total, 1);
        assert_eq!(store.sent().get(message_id(1)).await.unwrap().unwrap().recipients[0].attempts, 1);

        log.append("another", &[], &cursor(""), &cursor("1")).await.unwrap();
        log.append("feed", &[], &cursor("8"), &cursor("9")).await.unwrap();
        assert_eq!(log.cursor("feed").await, Ok(Some(cursor("9"))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_move_the_messages_they_name_and_no_others() {
    on_every_engine(async |store| {
        store.sent().begin(&new_sent(1, &["bob@example.net", "eve@example.net"])).await.unwrap();
        store.sent().begin(&new_sent(2, &["bob@example.net"])).await.unwrap();
        store.sent().submitted(message_id(1), &QueueId("Q1".to_owned()), at(2), &[]).await.unwrap();
        let mut nameless = event(9, "bob@example.net", Outcome::Sent, 6);
        nameless.message_id = None;
        let mut without_sender = event(9, "stranger@example.net", Outcome::Expired, 7);
        without_sender.sender = None;
        let events = [
            event(1, "bob@example.net", Outcome::Deferred, 4),
            event(1, "bob@example.net", Outcome::Sent, 5),
            event(1, "stranger@example.net", Outcome::Bounced, 5),
            nameless,
            without_sender,
        ];
        let appended = store.delivery_log().append("feed", &events, &cursor(""), &cursor("1")).await.unwrap();
        assert_eq!(appended, Appended { entries_added: 5, messages_updated: 1, changes: vec![0, 1] });

        let one = store.sent().get(message_id(1)).await.unwrap().unwrap();
        assert_eq!(one.message.status, MessageStatus::Submitted);
        let bob = &one.recipients[0];
        assert_eq!((bob.status, bob.delivered_at, bob.attempts), (RecipientStatus::Sent, Some(at(5)), 1));
        assert_eq!((bob.smtp_response.as_deref(), bob.last_attempt_at), (None, Some(at(5))));
        assert_eq!(one.recipients[1].status, RecipientStatus::Submitted);
        let two = store.sent().get(message_id(2)).await.unwrap().unwrap();
        assert_eq!(two.recipients[0].status, RecipientStatus::Pending);
        assert_eq!(store.delivery_log().last_event_at().await, Ok(Some(at(7))));

        let rest = [event(1, "eve@example.net", Outcome::Bounced, 8)];
        store.delivery_log().append("feed", &rest, &cursor("1"), &cursor("2")).await.unwrap();
        let one = store.sent().get(message_id(1)).await.unwrap().unwrap();
        assert_eq!(one.message.status, MessageStatus::Partial);
        assert_eq!(one.recipients[1].smtp_response.as_deref(), Some("said at 8"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_mail_turns_sent_into_bounced_and_keeps_both_times() {
    on_every_engine(async |store| {
        store.sent().begin(&new_sent(1, &["bob@example.net"])).await.unwrap();
        store.sent().submitted(message_id(1), &QueueId("Q1".to_owned()), at(2), &[]).await.unwrap();
        let mut late = event(1, "bob@example.net", Outcome::Bounced, 60);
        let events = [event(1, "bob@example.net", Outcome::Sent, 5), late.clone()];
        store.delivery_log().append("feed", &events, &cursor(""), &cursor("1")).await.unwrap();
        let status = async || store.sent().get(message_id(1)).await.unwrap().unwrap();
        assert_eq!(status().await.message.status, MessageStatus::Sent, "the mail server itself cannot take it back");

        late.evidence = Evidence::ReturnedMail;
        store.delivery_log().append("feed", &[late], &cursor("1"), &cursor("2")).await.unwrap();
        let record = status().await;
        assert_eq!(record.message.status, MessageStatus::Bounced);
        let bob = &record.recipients[0];
        assert_eq!((bob.delivered_at, bob.bounced_at), (Some(at(5)), Some(at(60))));
        assert_eq!(bob.status, RecipientStatus::Bounced);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounced_alias_member_is_kept_beside_the_alias_status() {
    on_every_engine(async |store| {
        store.sent().begin(&new_sent(1, &["team@example.net"])).await.unwrap();
        store.sent().submitted(message_id(1), &QueueId("Q1".to_owned()), at(2), &[]).await.unwrap();
        let member = |name: &str, outcome, seconds| DeliveryEvent {
            final_recipient: Some(email(name)),
            ..event(1, "team@example.net", outcome, seconds)
        };
        let team = async || store.sent().get(message_id(1)).await.unwrap().unwrap().recipients.remove(0);
        let events = [member("gone@example.net", Outcome::Bounced, 5)];
        store.delivery_log().append("feed", &events, &cursor(""), &cursor("1")).await.unwrap();
        let open = team().await;
        assert_eq!((open.status, open.bounced_at, open.smtp_response), (RecipientStatus::Submitted, None, None));
        assert_eq!((open.partly_bounced_at, open.partly_bounced_response.is_some()), (Some(at(5)), true));

        let events = [member("here@example.net", Outcome::Sent, 6), member("late@example.net", Outcome::Expired, 7)];
        store.delivery_log().append("feed", &events, &cursor("1"), &cursor("2")).await.unwrap();
        let sent = team().await;
        assert_eq!((sent.status, sent.delivered_at), (RecipientStatus::Sent, Some(at(6))));
        assert_eq!(sent.partly_bounced_at, Some(at(7)));

        let earlier =
            DeliveryEvent { response: "earlier".to_owned(), ..member("gone@example.net", Outcome::Bounced, 6) };
        store.delivery_log().append("feed", &[earlier], &cursor("2"), &cursor("3")).await.unwrap();
        let reported_late = team().await;
        assert_eq!(reported_late.partly_bounced_at, Some(at(7)));
        assert_eq!(reported_late.partly_bounced_response, sent.partly_bounced_response);

        let members = store.delivery_log().members(message_id(1)).await.unwrap();
        let shown: Vec<_> = members.iter().map(|member| (member.address.as_str(), member.has_bounced)).collect();
        assert_eq!(shown, [("gone@example.net", true), ("here@example.net", false), ("late@example.net", true)]);
        assert!(members.iter().all(|member| member.of == email("team@example.net")));
        assert_eq!(store.delivery_log().members(message_id(2)).await, Ok(vec![]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_read_as_they_were_written_and_filtered() {
    on_every_engine(async |store| {
        assert_eq!(store.delivery_log().last_event_at().await, Ok(None));
        let mut returned = event(2, "eve@example.net", Outcome::Bounced, 6);
        returned.evidence = Evidence::ReturnedMail;
        returned.sender = None;
        returned.final_recipient = Some(email("eve@home.example"));
        let mut bare = event(3, "bob@example.net", Outcome::Sent, 6);
        (bare.message_id, bare.dsn, bare.relay) = (None, None, None);
        let events = [event(1, "bob@example.net", Outcome::Deferred, 5), returned, bare];
        store.delivery_log().append("feed", &events, &cursor(""), &cursor("1")).await.unwrap();

        let all = DeliveryLogFilter::default;
        let listed = store.delivery_log().list(&all(), page(50, 0)).await.unwrap();
        let read: Vec<_> = listed.items.iter().rev().map(|entry| entry.event.clone()).collect();
        assert_eq!(read, events, "newest first, the later number first at the same moment");

        let recipients = async |filter| {
            let listed = store.delivery_log().list(&filter, page(50, 0)).await.unwrap();
            assert_eq!(listed.total, u64::try_from(listed.items.len()).unwrap());
            listed.items.into_iter().map(|entry| entry.event.queue_id.0).collect::<Vec<_>>()
        };
        assert_eq!(recipients(DeliveryLogFilter { message_id: Some(message_id(2)), ..all() }).await, ["Q2"]);
        assert_eq!(recipients(DeliveryLogFilter { queue_id: Some(QueueId("Q3".to_owned())), ..all() }).await, ["Q3"]);
        assert_eq!(
            recipients(DeliveryLogFilter { sender: Some(email("ann@example.org")), ..all() }).await,
            ["Q3", "Q1"]
        );
        assert_eq!(recipients(DeliveryLogFilter { recipient: Some(email("eve@example.net")), ..all() }).await, ["Q2"]);
        assert_eq!(recipients(DeliveryLogFilter { status: Some(Outcome::Deferred), ..all() }).await, ["Q1"]);
        assert_eq!(recipients(DeliveryLogFilter { start: Some(at(6)), ..all() }).await, ["Q3", "Q2"]);
        assert_eq!(recipients(DeliveryLogFilter { end: Some(at(6)), ..all() }).await, ["Q1"]);
    })
    .await;
}
