//! The status for health reports, and the notifications that wake a reader.

use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{DeliveryFeed, InboundLog};
use mailapi_model::{FeedCursor, InboundEvent, InboundRefusal, RefusalStage};

use super::support::{TestLog, line, message};
use crate::log_follower::{Gap, GapKind, LogFollower};

fn follower(log: &TestLog) -> LogFollower {
    LogFollower::new(log.settings.clone(), log.clock.clone()).unwrap()
}

#[tokio::test]
async fn a_missing_unreadable_or_gapped_log_shows_in_health() {
    let log = TestLog::new();
    let follower = follower(&log);
    follower.read_after(&FeedCursor::default(), 10).await.unwrap_err();
    assert!(follower.status().error.unwrap().contains("no log at"));
    log.append(&message(1));
    let batch = follower.read_after(&FeedCursor::default(), 10).await.unwrap();
    let status = follower.status();
    assert!(status.error.is_none() && status.last_line_at.is_some(), "{status:?}");
    // The file is still open, but nothing will ever be written to it again.
    log.remove("mail.log");
    let batch = follower.read_after(&batch.cursor, 10).await.unwrap();
    assert!(follower.status().error.unwrap().contains("no log at"));
    log.append(&message(2));
    let follower = LogFollower::new(log.settings.clone(), log.clock.clone()).unwrap();
    follower.read_after(&batch.cursor, 10).await.unwrap();
    let gaps = follower.status().gaps;
    assert_eq!(gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::FileVanished]);
    let status = follower.status();
    assert_eq!((status.losses_besides(&[]), status.losses_besides(&gaps)), (1, 0));
    let longer = [Gap { to: gaps[0].to.plus(Duration::from_secs(60)), ..gaps[0].clone() }];
    assert_eq!(status.losses_besides(&longer), 0, "a loss with a later end is the same loss");
    let of_another_clock = [Gap { at: gaps[0].at.plus(Duration::from_secs(60)), ..gaps[0].clone() }];
    assert_eq!(status.losses_besides(&of_another_clock), 1, "also if it was noticed before the known one");
}

#[tokio::test]
async fn a_line_wakes_the_reader_also_in_a_new_file() {
    let mut log = TestLog::new();
    // Rule out the poll interval: only the notification can wake the reader.
    log.settings.poll_interval = Duration::from_secs(3600);
    log.append("");
    let follower = follower(&log);
    let mut cursor = FeedCursor::default();
    for number in 1..4 {
        log.append(&message(number));
        let notified = async {
            loop {
                follower.changed().await;
                let batch = follower.read_after(&cursor, 10).await.unwrap();
                if !batch.events.is_empty() {
                    return batch;
                }
            }
        };
        let batch = tokio::time::timeout(Duration::from_secs(60), notified).await.expect("a notification");
        assert_eq!(batch.events.len(), 3);
        cursor = batch.cursor;
        log.rotate();
    }
}

#[derive(Default)]
struct Counted(std::sync::Mutex<Vec<InboundEvent>>, std::sync::Mutex<Vec<InboundRefusal>>);

impl InboundLog for Counted {
    fn note(&self, event: InboundEvent) {
        self.0.lock().unwrap().push(event);
    }

    fn refused(&self, refusal: InboundRefusal) {
        self.1.lock().unwrap().push(refusal);
    }
}

#[tokio::test]
async fn mail_from_outside_is_counted_once_and_only_after_storage() {
    let log = TestLog::new();
    let text = "NOQUEUE: reject: RCPT from x[192.0.2.1]: 550 5.1.1 <no@example.org>: unknown; from=<a@example.net> \
                to=<no@example.org> proto=ESMTP helo=<x>";
    log.append(&line(1, "smtpd", text));
    let counted = Arc::new(Counted::default());
    let follower = follower(&log).with_inbound_log(counted.clone());
    let start = FeedCursor::default();
    for _ in 0..2 {
        // The database was unavailable.
        follower.read_after(&start, 10).await.unwrap();
    }
    assert_eq!(counted.0.lock().unwrap().len(), 0);
    let batch = follower.read_after(&start, 10).await.unwrap();
    for _ in 0..2 {
        follower.forget_until(&batch.cursor).await.unwrap();
    }
    assert_eq!(counted.0.lock().unwrap().len(), 1);
    let refused = std::mem::take(&mut *counted.1.lock().unwrap());
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((refused.client, refused.stage), ("192.0.2.1".parse().ok(), RefusalStage::Recipient));
    assert_eq!(refused.sender, "a@example.net".parse().ok());
    assert_eq!((refused.recipient.as_str(), refused.reply.code), ("no@example.org", 550));
}
