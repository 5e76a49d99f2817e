use mailapi_model::{Evidence, Outcome, QueueId, Reply, Timestamp};
use mailapi_store::{
    Failure, Hours, InboundCounts, InboundEvent, InboundOutcome, RollUpSize, RolledUp, SentCounts, SentScope, Span,
    Store,
};

use crate::delivery_log::{cursor, event};
use crate::engines::{at, domain, email, message_id, new_sent, on_every_engine};

const MOST: RollUpSize = changes(1000);

const fn changes(changes: usize) -> RollUpSize {
    RollUpSize { changes, groups: 1000 }
}

/// A period longer than any story.
fn always() -> Hours {
    Hours::around(at(-86_400), at(10 * 86_400))
}

async fn total(store: &Store, scope: SentScope) -> SentCounts {
    let mut total = SentCounts::default();
    for counts in store.stats().sent_by_time(&[scope], always(), Span::Day).await.unwrap().into_values() {
        total.add(counts);
    }
    total
}

async fn submit(store: &Store, number: u64, recipients: &[&str]) {
    store.sent().begin(&new_sent(number, recipients)).await.unwrap();
    store.sent().submitted(message_id(number), &QueueId(format!("Q{number}")), at(1), &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_never_submitted_is_not_counted_as_sent() {
    on_every_engine(async |store| {
        let reply = Reply { code: 550, enhanced: None, text: "no".to_owned() };
        store.sent().begin(&new_sent(1, &["bob@example.net"])).await.unwrap();
        store.sent().begin(&new_sent(2, &["bob@example.net"])).await.unwrap();
        let unreachable = Failure { reason: "no mail server", reply: None, refused: &[] };
        store.sent().failed(message_id(2), at(3), unreachable).await.unwrap();
        store.stats().roll_up_once(MOST).await.unwrap();
        assert_eq!(
            total(store, SentScope::All).await,
            SentCounts::default(),
            "pending and failed messages are not counted"
        );

        store.sent().begin(&new_sent(3, &["bob@example.net", "eve@example.net"])).await.unwrap();
        let refused = [(email("eve@example.net"), reply.clone())];
        let everybody = Failure { reason: "refused", reply: Some(&reply), refused: &refused };
        store.sent().failed(message_id(3), at(4), everybody).await.unwrap();
        store.sent().begin(&new_sent(4, &["bob@example.net", "eve@example.net"])).await.unwrap();
        store.sent().submitted(message_id(4), &QueueId("Q4".to_owned()), at(5), &refused).await.unwrap();
        store.stats().roll_up_once(MOST).await.unwrap();
        let counts = total(store, SentScope::All).await;
        assert_eq!(counts, SentCounts { sent: 1, rejected: 3, ..SentCounts::default() });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_follow_a_recipient_from_state_to_state() {
    on_every_engine(async |store| {
        submit(store, 1, &["bob@example.net"]).await;
        let (submitted, none) = (SentCounts { sent: 1, ..SentCounts::default() }, SentCounts::default());
        assert_eq!(total(store, SentScope::All).await, none, "nothing is shown before a roll-up");
        let mut late_bounce = event(1, "bob@example.net", Outcome::Bounced, 30);
        late_bounce.evidence = Evidence::ReturnedMail;
        let story = [
            (event(1, "bob@example.net", Outcome::Deferred, 10), SentCounts { deferred: 1, ..submitted }),
            (event(1, "bob@example.net", Outcome::Deferred, 15), SentCounts { deferred: 1, ..submitted }),
            (event(1, "bob@example.net", Outcome::Sent, 20), SentCounts { delivered: 1, ..submitted }),
            (late_bounce, SentCounts { bounced: 1, ..submitted }),
        ];
        for (place, (event, counts)) in story.into_iter().enumerate() {
            let from = if place == 0 { String::new() } else { place.to_string() };
            let to = cursor(&(place + 1).to_string());
            store.delivery_log().append("feed", &[event], &cursor(&from), &to).await.unwrap();
            store.stats().roll_up_once(MOST).await.unwrap();
            for scope in
                [SentScope::All, SentScope::Domain(domain("example.org")), SentScope::Address(email("ann@example.org"))]
            {
                assert_eq!(total(store, scope).await, counts);
            }
        }
        assert_eq!(
            total(store, SentScope::Domain(domain("example.net"))).await,
            none,
            "the domain only received the mail"
        );
        assert_eq!(total(store, SentScope::Address(email("bob@example.org"))).await, none);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_up_counts_each_change_once_however_many_run() {
    on_every_engine(async |store| {
        assert_eq!(store.stats().roll_up_once(MOST).await, Ok(RolledUp::default()));
        for number in 1..=20 {
            submit(store, number, &["bob@example.net", "eve@example.net"]).await;
        }
        assert_eq!(store.stats().roll_up_once(changes(10)).await, Ok(RolledUp { changes: 10, more: true }));
        let racers = (0..8).map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut counted = 0;
                loop {
                    let step = store.stats().roll_up_once(changes(7)).await.unwrap();
                    counted += step.changes;
                    if !step.more {
                        return counted;
                    }
                }
            })
        });
        let mut counted = 10;
        for racer in racers.collect::<Vec<_>>() {
            counted += racer.await.unwrap();
        }
        assert_eq!(counted, 40);
        assert_eq!(total(store, SentScope::All).await.sent, 40);
        assert_eq!(store.stats().roll_up_once(MOST).await, Ok(RolledUp::default()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hours_and_days_hold_what_was_stored_in_them() {
    on_every_engine(async |store| {
        let moment = |text: &str| Timestamp::parse_date_or_time(text).unwrap();
        let times =
            ["2026-11-19T23:59:59.999Z", "2026-11-20T00:00:00Z", "2026-11-20T10:59:59Z", "2026-11-22T10:00:00Z"];
        for (number, time) in (1..).zip(times) {
            let message = mailapi_store::NewSent { created_at: moment(time), ..new_sent(number, &["bob@example.net"]) };
            store.sent().begin(&message).await.unwrap();
            // The creation time counts, even if a crash separates it from the submission.
            let queue_id = QueueId("Q".to_owned());
            store.sent().submitted(message_id(number), &queue_id, moment("2026-12-24"), &[]).await.unwrap();
        }
        store.stats().roll_up_once(MOST).await.unwrap();

        let shown = async |start, end, span| {
            let hours = Hours::around(moment(start), moment(end));
            let counts = store.stats().sent_by_time(&[SentScope::All], hours, span).await.unwrap();
            counts
                .into_iter()
                .map(|(at, counts)| format!("{} {}", &at.to_string()[5..13], counts.sent))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown("2026-11-20", "2026-11-23", Span::Day).await, ["11-20T00 2", "11-22T00 1"]);
        assert_eq!(shown("2026-11-20T01:00:00Z", "2026-11-22T10:00:00Z", Span::Day).await, ["11-20T00 1"]);
        assert_eq!(
            shown("2026-11-19", "2026-11-22T10:00:00.001Z", Span::Hour).await,
            ["11-19T23 1", "11-20T00 1", "11-20T10 1", "11-22T10 1"]
        );
        assert_eq!(shown("2026-11-20T10:59:00Z", "2026-11-20T10:59:01Z", Span::Hour).await, ["11-20T10 1"]);
        assert_eq!(shown("2026-11-20", "2026-11-20", Span::Hour).await, [""; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipients_domains_are_ranked() {
    on_every_engine(async |store| {
        let recipients =
            ["a@one.example", "a@two.example", "b@two.example", "\"c@one.example\"@two.example", "a@three.example"];
        submit(store, 1, &recipients).await;
        submit(store, 2, &recipients[..1]).await;
        store.stats().roll_up_once(MOST).await.unwrap();

        let ranked = async |scope, most| {
            let domains = store.stats().sent_to_domains(&[scope], always(), most).await.unwrap();
            domains.into_iter().map(|(domain, counts)| (domain.to_string(), counts.sent)).collect::<Vec<_>>()
        };
        let (one, two, three) = ("one.example".to_owned(), "two.example".to_owned(), "three.example".to_owned());
        assert_eq!(ranked(SentScope::All, 2).await, [(two.clone(), 3), (one.clone(), 2)]);
        let ann = SentScope::Address(email("ann@example.org"));
        assert_eq!(ranked(ann, 9).await, [(two, 3), (one, 2), (three, 1)]);
        assert_eq!(ranked(SentScope::Domain(domain("example.net")), 9).await, []);
        assert_eq!(store.stats().sent_to_domains(&[], always(), 9).await, Ok(vec![]));

        let domains = [domain("example.org"), domain("example.net")];
        let by_domain = store.stats().sent_by_domain(&domains, always()).await.unwrap();
        assert_eq!(
            by_domain.into_iter().map(|(domain, counts)| (domain, counts.sent)).collect::<Vec<_>>(),
            [(domain("example.org"), 6)]
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inbound_mail_is_counted_by_outcome_and_sender() {
    on_every_engine(async |store| {
        let received = |sender: Option<&str>, outcome, seconds| InboundEvent {
            at: at(seconds),
            domain: domain("example.org"),
            sender_domain: sender.map(domain),
            outcome,
        };
        let ours = domain("example.org");
        store.stats().record_inbound(&[]).await.unwrap();
        let events = [
            received(Some("one.example"), InboundOutcome::Accepted, 0),
            received(Some("one.example"), InboundOutcome::Rejected, 1),
            received(Some("two.example"), InboundOutcome::Accepted, 2),
            received(Some("two.example"), InboundOutcome::Spam, 86_400),
            received(Some("evil.example"), InboundOutcome::Rejected, 4),
            received(None, InboundOutcome::Accepted, 5),
        ];
        store.stats().record_inbound(&events).await.unwrap();
        assert_eq!(store.stats().inbound(&ours, always()).await, Ok(InboundCounts::default()));
        assert_eq!(store.stats().roll_up_once(changes(4)).await, Ok(RolledUp { changes: 4, more: true }));
        assert_eq!(store.stats().roll_up_once(changes(4)).await, Ok(RolledUp { changes: 2, more: false }));

        let counts = store.stats().inbound(&ours, always()).await.unwrap();
        assert_eq!(counts, InboundCounts { accepted: 4, rejected: 2, spam: 1 });
        let first_day = Hours::around(at(0), at(3600));
        let counts = store.stats().inbound(&ours, first_day).await.unwrap();
        assert_eq!(counts, InboundCounts { accepted: 3, rejected: 2, spam: 0 });
        assert_eq!(store.stats().inbound(&domain("one.example"), always()).await, Ok(InboundCounts::default()));
        let senders = store.stats().inbound_from_domains(&ours, always(), 5).await.unwrap();
        assert_eq!(senders, [(domain("two.example"), 2), (domain("one.example"), 1)]);
        assert_eq!(store.stats().inbound_from_domains(&ours, always(), 1).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invented_sender_domains_do_not_fill_the_rankings() {
    on_every_engine(async |store| {
        let ours = domain("example.org");
        let received = |number: usize| InboundEvent {
            at: at(0),
            domain: domain("example.org"),
            sender_domain: Some(domain(&format!("s{number}.example"))),
            outcome: InboundOutcome::Spam,
        };
        let events: Vec<_> = (0..1_200).map(received).collect();
        store.stats().record_inbound(&events).await.unwrap();
        while store.stats().roll_up_once(changes(1_000)).await.unwrap().more {}
        let known = store.stats().inbound_from_domains(&ours, always(), 10_000).await.unwrap();
        assert_eq!(known.len(), 500, "sender domains of an hour");
        assert_eq!(store.stats().inbound(&ours, always()).await.unwrap().accepted, 1_200, "all mail counts");
        // Known ones are still counted.
        store.stats().record_inbound(&events[..2]).await.unwrap();
        while store.stats().roll_up_once(changes(1_000)).await.unwrap().more {}
        let ranked = store.stats().inbound_from_domains(&ours, always(), 2).await.unwrap();
        assert_eq!(ranked.iter().map(|(_, accepted)| *accepted).collect::<Vec<_>>(), [2, 2]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_up_ends_when_it_has_enough_to_write() {
    on_every_engine(async |store| {
        submit(store, 1, &["a@one.example", "b@one.example", "a@two.example", "a@three.example"]).await;
        let small = RollUpSize { changes: 1000, groups: 1 };
        for expected in [(1, true), (1, true), (1, true), (1, false)] {
            let RolledUp { changes, more } = store.stats().roll_up_once(small).await.unwrap();
            assert_eq!((changes, more), expected);
        }
        assert_eq!(total(store, SentScope::All).await.sent, 4);
    })
    .await;
}
