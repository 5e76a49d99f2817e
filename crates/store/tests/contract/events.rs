use mailapi_events::{BrokenRecord, EventCursor, EventId, EventType, Received, TypePattern, delivery_gap, received};
use mailapi_model::{
    AccountChange, Authentication, AuthenticationResult, CheckedDomain, CheckedSignature, DeliveryEvent, EmailAddress,
    EnhancedCode, Evidence, FolderName, NewDomain, NewToken, Outcome, QueueId, ReceivedMail, RecipientKind, Reply,
    SubmittedFact, SubmittedMail, SubmittedReport, TokenId, TokenKind, TokenRecord, TokenValue,
};
use mailapi_store::{
    DomainChange, DomainDeleted, EventFilter, EventPage, EventScope, Failure, NewSent, OwnEvents, Reports, Store,
    StoreError, StoredEvent, TokenChange, WaitingMail,
};
use serde_json::{Value, json};

use crate::delivery_log::{cursor, event};
use crate::engines::{
    add_account, at, domain, email, message_id, new_account, new_domain, new_sent, on_every_engine, parse,
};

const START: EventCursor = EventCursor::after_number(0);

fn all() -> EventFilter {
    EventFilter::of(EventScope::All)
}

/// Numbers the events and returns all of them, in order.
async fn log(store: &Store) -> Vec<StoredEvent> {
    store.events().number_new().await.unwrap();
    let page = store.events().after(START, &all(), 1000).await.unwrap();
    assert!(!page.has_more && !page.truncated);
    page.events
}

async fn types(store: &Store) -> Vec<&'static str> {
    log(store).await.iter().map(|event| event.event_type.as_str()).collect()
}

fn body(event: &StoredEvent) -> Value {
    serde_json::from_str(&event.body).unwrap()
}

async fn submit(store: &Store, number: u64, refused: &[(EmailAddress, Reply)]) {
    store.sent().submitted(message_id(number), &QueueId(format!("Q{number}")), at(2), refused).await.unwrap();
}

/// Stores messages with consecutive numbers, one event each.
async fn accepted(store: &Store, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        store.sent().begin(&new_sent(number, &["bob@example.net"])).await.unwrap();
        submit(store, number, &[]).await;
    }
    store.events().number_new().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_does_not_exist_has_no_events() {
    on_every_engine(async |store| {
        let queue_id = QueueId("Q".to_owned());
        assert!(store.sent().submitted(message_id(1), &queue_id, at(2), &[]).await.unwrap_err().is_guard_failed());
        assert!(store.sent().submitted_new(&new_sent(1, &["bob@example.net"]), &queue_id, at(2), &[]).await.is_err());
        let failure = Failure { reason: "no", reply: None, refused: &[] };
        assert!(store.sent().failed(message_id(1), at(2), failure).await.is_err());
        let reports = [event(1, "bob@example.net", Outcome::Sent, 5)];
        store.delivery_log().append("feed", &reports, &cursor(""), &cursor("1")).await.unwrap();
        assert_eq!(types(store).await, [""; 0]);
        assert_eq!(store.events().newest().await, Ok(START));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_accepted_once_and_the_body_says_what_was_sent() {
    on_every_engine(async |store| {
        let message = NewSent { size: Some(812), ..new_sent(1, &["bob@example.net", "eve@example.net"]) };
        store.sent().begin(&message).await.unwrap();
        let queue_id = QueueId("Q1".to_owned());
        store.sent().submitted_new(&message, &queue_id, at(2), &[]).await.unwrap();
        // Recovery after a crash may record the result again.
        store.sent().submitted_new(&message, &queue_id, at(3), &[]).await.unwrap();
        submit(store, 1, &[]).await;

        let [event] = &log(store).await[..] else { panic!("one event") };
        assert_eq!((event.number, event.event_type, event.at), (1, EventType::MessageAccepted, at(2)));
        assert_eq!((event.mailbox.as_ref(), event.subject_at), (Some(&email("ann@example.org")), at(1)));
        assert_eq!((event.domain.as_ref(), event.message_id), (Some(&domain("example.org")), Some(message_id(1))));
        assert_eq!(
            body(event),
            json!({
                "id": event.id.to_string(), "type": "message.accepted", "timestamp": at(2).to_string(),
                "data": {
                    "message_id": message_id(1).to_string(), "mailbox": "ann@example.org", "domain": "example.org",
                    "from": "ann@example.org", "tags": [], "metadata": {}, "queue_id": "Q1",
                    "recipients": [
                        {"email": "bob@example.net", "type": "to"}, {"email": "eve@example.net", "type": "to"},
                    ],
                    "size": 812,
                },
            })
        );
        assert_eq!(store.events().find(event.id).await, Ok(Some(event.clone())));
        assert_eq!(store.events().find(EventId::of_fact(at(2), &[b"other"])).await, Ok(None));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_is_one_event_and_so_is_each_failed_recipient() {
    on_every_engine(async |store| {
        let unknown = Reply::new(550, EnhancedCode::new(5, 1, 1), "no such user");
        let policy = Reply::new(554, EnhancedCode::new(5, 7, 1), "not from you");
        let later = Reply::new(450, EnhancedCode::new(4, 2, 0), "come again");
        let names = ["bob@example.net", "no@example.net", "policy@example.net", "later@example.net"];
        let refused = [(email(names[1]), unknown.clone()), (email(names[2]), policy), (email(names[3]), later)];
        for number in [1, 2, 3] {
            store.sent().begin(&new_sent(number, &names)).await.unwrap();
        }
        store.sent().begin(&new_sent(4, &names[1..2])).await.unwrap();
        let reply = Reply::new(452, EnhancedCode::new(4, 3, 1), "disk full");
        for _ in 0..2 {
            submit(store, 1, &refused).await;
            let failure = Failure { reason: "no recipient was accepted", reply: None, refused: &refused };
            store.sent().failed(message_id(2), at(2), failure).await.unwrap();
            let failure = Failure { reason: "452 4.3.1 disk full", reply: Some(&reply), refused: &[] };
            store.sent().failed(message_id(3), at(2), failure).await.unwrap();
            // The mail server has no part of this message.
            submit(store, 4, &[(email(names[1]), unknown.clone())]).await;
        }
        let stored: Vec<_> = log(store)
            .await
            .iter()
            .map(|event| {
                let data = &body(event)["data"];
                let (recipient, class) = (&data["recipient"]["email"], &data["bounce"]["class"]);
                let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
                let code = data["smtp"]["code"].as_u64().unwrap_or_default();
                format!("{} {} {} {code}", event.event_type, text(recipient), text(class))
            })
            .collect();
        let refusals = [
            "message.bounced no@example.net permanent 550",
            "message.bounced policy@example.net policy 554",
            "message.failed later@example.net - 450",
        ];
        let mut expected = vec!["message.accepted - - 0"];
        expected.extend(refusals);
        expected.extend(refusals);
        expected.push("message.failed bob@example.net - 0");
        let whole = names.map(|name| format!("message.failed {name} - 452"));
        expected.extend(whole.iter().map(String::as_str));
        expected.push("message.bounced no@example.net permanent 550");
        assert_eq!(stored, expected);
        let accepted = &body(&log(store).await[0])["data"]["recipients"];
        assert_eq!(*accepted, serde_json::json!([{ "email": "bob@example.net", "type": "to" }]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_an_event_if_it_changes_its_recipient() {
    on_every_engine(async |store| {
        let names = ["Bob@example.net", "alias@example.net", "eve@example.net"];
        let mut message = new_sent(1, &names[1..]);
        message.recipients.insert(0, (EmailAddress::as_given(names[0]).unwrap(), RecipientKind::Bcc));
        add_account(store, "eve@example.net", 0).await;
        store.events().number_new().await.unwrap();
        let before = store.events().newest().await.unwrap();
        store.sent().begin(&message).await.unwrap();
        submit(store, 1, &[]).await;

        let bob = |outcome, seconds| event(1, "bob@example.net", outcome, seconds);
        let mut nameless = bob(Outcome::Sent, 4);
        nameless.message_id = None;
        let mut member = event(1, "alias@example.net", Outcome::Bounced, 7);
        member.final_recipient = Some(email("member@example.net"));
        let mut of_member = event(1, "alias@example.net", Outcome::Sent, 8);
        of_member.final_recipient = Some(email("eve@example.net"));
        let first = [
            nameless,
            event(1, "stranger@example.net", Outcome::Sent, 4),
            bob(Outcome::Deferred, 4),
            bob(Outcome::Deferred, 5),
        ];
        let second = [
            bob(Outcome::Deferred, 6),
            member,
            of_member,
            bob(Outcome::Sent, 9),
            bob(Outcome::Sent, 10),
            bob(Outcome::Deferred, 11),
            event(1, "eve@example.net", Outcome::Sent, 12),
        ];
        let mut late = bob(Outcome::Bounced, 90);
        late.evidence = Evidence::ReturnedMail;
        let append = async |events: &[_], from, to| {
            store.delivery_log().append("feed", events, &cursor(from), &cursor(to)).await
        };
        append(&first, "", "1").await.unwrap();
        append(&second, "1", "2").await.unwrap();
        assert!(append(&second, "1", "2").await.is_err(), "another reader was faster");
        append(&[late.clone(), late], "2", "3").await.unwrap();

        let stored = log(store).await.into_iter().filter(|event| event.cursor() > before);
        let stored: Vec<_> = stored.skip(1).map(|event| body(&event)).collect();
        let shown: Vec<_> = stored.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                "message.deferred Bob@example.net 1",
                "message.deferred Bob@example.net 2",
                "message.deferred Bob@example.net 3",
                "message.delivered alias@example.net mailbox",
                "message.delivered Bob@example.net next_hop",
                "message.delivered eve@example.net mailbox",
                "message.bounced Bob@example.net returned_mail",
            ]
        );
        assert_eq!(stored[3]["data"]["recipient"]["final"], "eve@example.net");
        assert_eq!(stored[0]["timestamp"], at(4).to_string());
        let data = &stored[4]["data"];
        assert_eq!(data["recipient"], json!({"email": "Bob@example.net", "type": "bcc"}));
        assert_eq!(data["smtp"], json!({"code": null, "enhanced": "2.0.0", "response": "said at 9"}));
        assert_eq!((&data["relay"], &data["delay_ms"]), (&json!("mx.example.net[192.0.2.1]:25"), &json!(1500)));
        assert_eq!((&data["evidence"], &data["queue_id"]), (&json!("mail_server"), &json!("Q1")));
    })
    .await;
}

/// Returns the type, the recipient, and the value that only this type has.
fn shown(body: &Value) -> String {
    let data = &body["data"];
    let own = [&data["delivered_to"], &data["attempt"], &data["bounce"]["via"]];
    let own = own.into_iter().find(|value| !value.is_null()).unwrap().to_string();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{} {} {}", text(&body["type"]), text(&data["recipient"]["email"]), own.trim_matches('"'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_at_its_cursor_and_misses_nothing() {
    on_every_engine(async |store| {
        let events = store.events();
        assert_eq!(events.after(START, &all(), 10).await.unwrap(), empty(START));
        accepted(store, 1..=5).await;
        let numbers = |page: &EventPage| page.events.iter().map(|event| event.number).collect::<Vec<_>>();
        let first = events.after(START, &all(), 2).await.unwrap();
        assert_eq!((numbers(&first), first.has_more), (vec![1, 2], true));
        let second = events.after(first.cursor, &all(), 2).await.unwrap();
        assert_eq!((numbers(&second), second.has_more), (vec![3, 4], true));
        let last = events.after(second.cursor, &all(), 2).await.unwrap();
        assert_eq!((numbers(&last), last.has_more), (vec![5], false));
        assert_eq!(last.cursor, events.newest().await.unwrap());
        assert_eq!(events.after(last.cursor, &all(), 2).await.unwrap(), empty(last.cursor));

        assert!(last.cursor.names_event() && events.newest().await.unwrap().names_event());

        let of_message = EventFilter { message_id: Some(message_id(4)), ..all() };
        let page = events.after(START, &of_message, 1).await.unwrap();
        assert_eq!((numbers(&page), page.has_more), (vec![4], true));
        assert_eq!(events.after(page.cursor, &of_message, 1).await.unwrap(), empty(last.cursor));
        assert_eq!(events.of_message(message_id(4), 10).await.unwrap(), page.events);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_another_log_begins_at_the_oldest_event() {
    on_every_engine(async |store| {
        let events = store.events();
        accepted(store, 1..=5).await;
        assert_eq!(events.prune(at(3), at(100), 1).await, Ok(1));
        let kept = events.after(EventCursor::after_number(1), &all(), 9).await.unwrap().events;
        let other = EventId::of_fact(at(3), &[b"an event of another installation"]);
        // The log grew past the number after an older copy replaced it; or it did not yet.
        for foreign in [EventCursor::after(3, other), EventCursor::after(99, other), EventCursor::after_number(99)] {
            assert!(!events.contains(foreign).await.unwrap(), "{foreign}");
            let page = events.after(foreign, &all(), 9).await.unwrap();
            assert_eq!((&page.events, page.truncated, page.cursor), (&kept, true, kept[3].cursor()), "{foreign}");
            let of_message = EventFilter { message_id: Some(message_id(2)), ..all() };
            assert_eq!(events.kept_after(foreign, &of_message, 9).await.unwrap().events, kept[..1], "{foreign}");
        }
        // A cursor of an older version is a number alone. The event of the oldest position is no longer kept.
        for own in [EventCursor::after_number(3), kept[1].cursor(), EventCursor::after_number(1)] {
            assert!(events.contains(own).await.unwrap(), "{own}");
            let page = events.after(own, &all(), 9).await.unwrap();
            let later: Vec<_> = kept.iter().filter(|event| event.cursor() > own).cloned().collect();
            assert_eq!((page.events, page.truncated), (later, false), "{own}");
        }
        assert!(events.after(EventCursor::after_number(5), &all(), 9).await.unwrap().cursor.names_event());
    })
    .await;
}

fn empty(cursor: EventCursor) -> EventPage {
    EventPage { events: Vec::new(), cursor, has_more: false, truncated: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_read_examines_a_bounded_part_of_the_log() {
    const MANY: u64 = 10_050;
    on_every_engine(async |store| {
        let mut message = new_sent(1, &["bob@example.net"]);
        store.sent().begin(&message).await.unwrap();
        submit(store, 1, &[]).await;
        let reports: Vec<_> = (0..MANY).map(|_| event(1, "bob@example.net", Outcome::Deferred, 4)).collect();
        let mut from = String::new();
        for (place, batch) in reports.chunks(1000).enumerate() {
            store.delivery_log().append("feed", batch, &cursor(&from), &cursor(&place.to_string())).await.unwrap();
            from = place.to_string();
        }
        message.message_id = message_id(2);
        store.sent().begin(&message).await.unwrap();
        submit(store, 2, &[]).await;
        store.events().number_new().await.unwrap();

        let accepted = EventFilter { types: vec![TypePattern::One(EventType::MessageAccepted)], ..all() };
        let first = store.events().after(EventCursor::after_number(1), &accepted, 10).await.unwrap();
        assert_eq!((first.events.len(), first.has_more), (0, true), "not the whole log at once");
        let second = store.events().after(first.cursor, &accepted, 10).await.unwrap();
        assert_eq!((second.events.len(), second.has_more), (1, false));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_see_their_own_events_and_filters_narrow_them() {
    on_every_engine(async |store| {
        let send = async |number: u64, mailbox: Option<&str>, from: &str| {
            let message = NewSent { mailbox: mailbox.map(email), from: email(from), ..new_sent(number, &["x@y.net"]) };
            store.sent().begin(&message).await.unwrap();
            submit(store, number, &[]).await;
        };
        send(1, Some("ann@example.org"), "ann@example.org").await;
        send(2, Some("ann@example.org"), "sales@example.com").await;
        send(3, None, "bob@example.org").await;
        send(4, Some("eve@example.net"), "eve@example.net").await;
        store.events().number_new().await.unwrap();
        let seen = async |filter: &EventFilter| {
            let page = store.events().after(START, filter, 10).await.unwrap();
            page.events.into_iter().map(|event| event.number).collect::<Vec<_>>()
        };
        let own = |own| EventFilter::of(EventScope::Own(own));
        // A message is as old as its number.
        let ann = |since| OwnEvents { mailbox: Some((email("ann@example.org"), at(since))), ..OwnEvents::default() };
        let statistics = |name, since| vec![(domain(name), at(since))];
        let of_domain = |since| OwnEvents { statistics_of: statistics("example.org", since), ..OwnEvents::default() };
        let mailboxes_of = statistics("example.org", 0);
        let received = own(OwnEvents { mailboxes_of, ..OwnEvents::default() });
        assert_eq!(seen(&own(OwnEvents::default())).await, [0; 0]);
        assert_eq!(seen(&received).await, [0; 0], "sent mail is not received mail");
        assert_eq!(seen(&own(ann(0))).await, [1, 2]);
        assert_eq!(seen(&own(ann(2))).await, [2], "the first message is an earlier owner's");
        assert_eq!(seen(&own(of_domain(0))).await, [1, 3]);
        assert_eq!(seen(&own(of_domain(2))).await, [3]);
        assert_eq!(seen(&own(OwnEvents { statistics_of: statistics("example.net", 0), ..ann(0) })).await, [1, 2, 4]);

        assert_eq!(seen(&EventFilter { domain: Some(domain("example.com")), ..all() }).await, [2]);
        assert_eq!(seen(&EventFilter { mailbox: Some(email("eve@example.net")), ..all() }).await, [4]);
        assert_eq!(seen(&EventFilter { mailbox: Some(email("eve@example.net")), ..own(ann(0)) }).await, [0; 0]);
        assert_eq!(seen(&EventFilter { message_id: Some(message_id(4)), ..own(ann(0)) }).await, [0; 0]);
        let of_types = |types: [&str; 2]| EventFilter { types: types.map(parse::<TypePattern>).to_vec(), ..all() };
        assert_eq!(seen(&of_types(["domain.*", "message.bounced"])).await, [0; 0]);
        assert_eq!(seen(&of_types(["domain.*", "message.*"])).await, [1, 2, 3, 4]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_events_go_in_order_and_readers_that_need_them_are_warned() {
    on_every_engine(async |store| {
        let events = store.events();
        assert_eq!(events.prune(at(100), at(100), 10).await, Ok(0));
        accepted(store, 1..=4).await;
        assert_eq!(events.prune(at(2), at(100), 10).await, Ok(0), "they are not older than this");
        assert_eq!(events.prune(at(3), at(100), 1).await, Ok(1));
        assert_eq!(events.oldest().await, Ok(EventCursor::after_number(1)));
        let page = events.after(START, &all(), 10).await.unwrap();
        assert!(page.truncated, "the reader has missed one");
        assert_eq!(page.events.len(), 3);
        assert!(!events.after(EventCursor::after_number(1), &all(), 10).await.unwrap().truncated);

        assert_eq!(
            events.prune(at(3), at(100), 10).await,
            Ok(2),
            "the newest one stays, so that its number is not used again"
        );
        accepted(store, 5..=5).await;
        assert_eq!(events.newest().await, Ok(EventCursor::after_number(5)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_clock_that_was_ahead_do_not_stop_pruning() {
    on_every_engine(async |store| {
        let events = store.events();
        let record = async |seconds: &[i64]| {
            for seconds in seconds {
                let gap = delivery_gap("feed", at(*seconds), None, at(*seconds), "truncated");
                events.record(&gap).await.unwrap();
            }
            events.number_new().await.unwrap();
        };
        // The clock was ahead from the second to the fifth event.
        record(&[1, 5_000, 5_001, 5_002, 5_003, 6, 50]).await;
        assert_eq!(events.prune(at(10), at(100), 3).await, Ok(1), "nothing is known yet about the next ones");
        assert_eq!(events.prune(at(6), at(100), 3).await, Ok(0), "the first event after them is not old enough");
        assert_eq!(events.prune(at(10), at(100), 3).await, Ok(3), "more than one step of wrong times");
        assert_eq!(events.prune(at(10), at(100), 3).await, Ok(2));
        assert_eq!(events.prune(at(10), at(100), 3).await, Ok(0));
        assert_eq!(events.oldest().await, Ok(EventCursor::after_number(6)));

        // With a clock that is right again, they are old some day.
        record(&[9_000, 60]).await;
        assert_eq!(events.prune(at(10), at(100), 10).await, Ok(0));
        assert_eq!(events.prune(at(55), at(100), 10).await, Ok(1), "the one with the wrong time is not the last");
        assert_eq!(events.prune(at(9_500), at(9_600), 10).await, Ok(1), "the newest one stays");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_domain_is_an_event_and_no_other_call() {
    on_every_engine(async |store| {
        let (domains, name) = (store.domains(), domain("example.org"));
        let pending = NewDomain { active: false, ..new_domain("example.org", 1) };
        let off = DomainChange { active: Some(false), ..DomainChange::default() };
        let broken = [BrokenRecord {
            kind: "MX",
            name: "example.org".to_owned(),
            expected: "10 mx.example.org.".to_owned(),
            found: Vec::new(),
            status: "missing",
            hint: "Add it.".to_owned(),
        }];
        // None of these finds the domain.
        domains.approve(&name, None, at(2)).await.unwrap();
        domains.update(&name, &off, at(2)).await.unwrap();
        domains.set_verified(&name, at(2)).await.unwrap();
        domains.delete(&name, true, at(2)).await.unwrap();
        assert_eq!(types(store).await, [""; 0]);

        domains.insert(&pending, None).await.unwrap();
        domains.insert(&pending, None).await.unwrap_err();
        for _ in 0..2 {
            domains.approve(&name, None, at(3)).await.unwrap();
            domains.set_verified(&name, at(4)).await.unwrap();
        }
        for _ in 0..2 {
            domains.set_unverified(&name, &broken, at(5)).await.unwrap();
        }
        domains.update(&name, &off, at(5)).await.unwrap();
        store.accounts().insert(&new_account("ann@example.org", 6)).await.unwrap();
        assert_eq!(domains.delete(&name, false, at(7)).await, Ok(DomainDeleted::NotEmpty));
        domains.delete(&name, true, at(8)).await.unwrap();
        assert_eq!(
            types(store).await,
            [
                "domain.created",
                "domain.approved",
                "domain.verified",
                "domain.unverified",
                "domain.updated",
                "user.created",
                "domain.deleted",
            ]
        );
        let events = log(store).await;
        let found = json!({"domain": "example.org", "records": [{
            "type": "MX", "name": "example.org", "expected": "10 mx.example.org.", "found": [], "status": "missing",
            "hint": "Add it.",
        }]});
        assert_eq!(body(&events[3])["data"], found);
        let update = &events[4];
        assert_eq!(body(update)["data"], json!({"domain": "example.org", "changed": {"active": false}}));
        assert_eq!((update.domain.as_ref(), update.at), (Some(&name), at(5)));
        let own = OwnEvents { statistics_of: vec![(name.clone(), at(0))], ..OwnEvents::default() };
        let own = EventFilter { domain: Some(name), ..EventFilter::of(EventScope::Own(own)) };
        let page = store.events().after(START, &own, 10).await.unwrap();
        assert!(page.events.is_empty(), "administration is for admins");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_users_and_tokens_are_events_without_secrets() {
    on_every_engine(async |store| {
        let (accounts, tokens, ann) = (store.accounts(), store.tokens(), email("ann@example.org"));
        let token = |kind, value: &str, is_session| {
            let value = TokenValue::from_caller(value);
            NewToken {
                hash: value.hash(),
                prefix: "mapi_".to_owned(),
                kind,
                email: (kind == TokenKind::User).then(|| ann.clone()),
                name: "name".to_owned(),
                is_session,
                created_at: at(3),
                expires_at: None,
            }
        };
        assert_eq!(tokens.insert(&token(TokenKind::User, "mapi_0", false), 5).await, Err(StoreError::Reference));
        accounts.set_active(&ann, false, at(2)).await.unwrap();
        accounts.delete(&ann, at(2)).await.unwrap();
        tokens.update(TokenId(1), &TokenChange::default(), at(2)).await.unwrap();
        assert_eq!(types(store).await, [""; 0]);

        add_account(store, "ann@example.org", 1).await;
        let quota = AccountChange { quota_bytes: Some(Some(7)), ..AccountChange::default() };
        accounts.update(&ann, &quota, at(2)).await.unwrap();
        accounts.set_active(&ann, true, at(2)).await.unwrap();
        let of_ann = tokens.insert(&token(TokenKind::User, "mapi_1", false), 5).await.unwrap();
        let session = tokens.insert(&token(TokenKind::User, "mapi_2", true), 5).await.unwrap();
        let admin = tokens.insert(&token(TokenKind::Admin, "mapi_3", false), 5).await.unwrap();
        let other = tokens.insert(&token(TokenKind::Admin, "mapi_4", false), 5).await.unwrap();
        let renamed = TokenChange { name: Some("other".to_owned()), ..TokenChange::default() };
        tokens.update(of_ann.id, &renamed, at(4)).await.unwrap();
        for _ in 0..2 {
            tokens.revoke(of_ann.id, at(5)).await.unwrap();
            tokens.revoke(session.id, at(5)).await.unwrap();
            tokens.revoke_but_last_admin(admin.id, at(6)).await.unwrap();
            assert_eq!(tokens.revoke_but_last_admin(other.id, at(7)).await, Ok(false), "it is the last one");
        }
        accounts.delete(&ann, at(8)).await.unwrap();

        let events = log(store).await;
        let stored: Vec<_> =
            events.iter().map(|event| (event.event_type.as_str(), body(event)["data"].clone())).collect();
        let user = |changed| json!({"email": "ann@example.org", "changed": changed});
        let created = |record: &TokenRecord, kind, email: Option<&str>| {
            let id = record.id.0;
            let data = json!({
                "token_id": id, "prefix": "mapi_", "type": kind, "email": email, "name": "name", "expires_at": null,
            });
            ("token.created", data)
        };
        let of_token = |event_type, record: &TokenRecord| (event_type, json!({"token_id": record.id.0}));
        assert_eq!(stored[0].0, "domain.created");
        let name = new_account("ann@example.org", 1).name;
        assert_eq!(
            stored[1..],
            [
                ("user.created", json!({"email": "ann@example.org", "name": name, "quota_bytes": null})),
                ("user.updated", user(json!({"quota_bytes": 7}))),
                ("user.updated", user(json!({"active": true}))),
                created(&of_ann, "user", Some("ann@example.org")),
                created(&admin, "admin", None),
                created(&other, "admin", None),
                of_token("token.updated", &of_ann),
                of_token("token.revoked", &of_ann),
                of_token("token.revoked", &admin),
                ("user.deleted", json!({"email": "ann@example.org"})),
            ]
        );
    })
    .await;
}

fn authentication() -> Authentication {
    let named = CheckedDomain { result: AuthenticationResult::Pass, domain: Some("example.net".to_owned()) };
    let signature = CheckedSignature { result: AuthenticationResult::Fail, domain: None, selector: None };
    Authentication { spf: named.clone(), dkim: vec![signature], dmarc: named, arc: AuthenticationResult::None }
}

fn received_mail(mailbox: &str) -> ReceivedMail {
    ReceivedMail {
        at: at(5),
        mailbox: email(mailbox),
        recipient: Some(email("sales@example.org")),
        queue_id: QueueId("Q1".to_owned()),
        header_id: Some("<a@b>".to_owned()),
        place: Some((FolderName::inbox(), 7)),
        authentication: Some(authentication()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn received_mail_waits_for_exactly_one_event() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 1).await;
        let (log, mails) = (store.delivery_log(), store.waiting_mails());
        let batch =
            [received_mail("no@example.org"), received_mail("ann+lists@example.org"), received_mail("ann@example.org")];
        let reports = Reports { received: &batch, ..Reports::default() };
        let append = async |from: &str, to: &str| log.append_reports("feed", reports, &cursor(from), &cursor(to)).await;
        append("", "1").await.unwrap();
        assert!(append("", "1").await.unwrap_err().is_guard_failed(), "a batch that is read again");
        let waiting = mails.oldest(10).await.unwrap();
        let of_account = ReceivedMail { mailbox: email("ann@example.org"), ..received_mail("ann@example.org") };
        assert_eq!(waiting.iter().map(|waiting| &waiting.mail).collect::<Vec<_>>(), [&of_account, &of_account]);
        assert_ne!(waiting[0].event_id, waiting[1].event_id);
        assert_eq!(mails.oldest(1).await.unwrap(), waiting[..1]);

        let event_of = |waiting: &WaitingMail| {
            let WaitingMail { mail, .. } = waiting;
            let (recipient, authentication) = (mail.recipient.as_ref(), mail.authentication.as_ref());
            let mail = Received { mailbox: &mail.mailbox, recipient, queue_id: "Q1", authentication, message: None };
            received(mail, waiting.event_id)
        };
        let before = types(store).await;
        assert_eq!(mails.finish(&waiting[0], &event_of(&waiting[0])).await, Ok(true));
        assert_eq!(mails.finish(&waiting[0], &event_of(&waiting[0])).await, Ok(false), "another process was first");
        assert_eq!(mails.oldest(10).await.unwrap(), waiting[1..]);
        assert_eq!(mails.finish(&waiting[1], &event_of(&waiting[1])).await, Ok(true));
        assert_eq!(types(store).await[before.len()..], ["message.received"; 2]);
    })
    .await;
}

/// Returns the acceptance of a mail program's message, and its delivery.
fn submitted(queue_id: &str) -> [SubmittedReport; 2] {
    let (mailbox, queue_id) = (email("ann@example.org"), QueueId(queue_id.to_owned()));
    let mail = SubmittedMail { from: mailbox.clone(), mailbox, queue_id: queue_id.clone(), accepted_at: at(5) };
    let accepted = SubmittedFact::Accepted { recipients: vec![email("bob@example.net")], size: 7 };
    let report = DeliveryEvent { message_id: None, queue_id, ..event(1, "bob@example.net", Outcome::Sent, 5) };
    let delivered = SubmittedFact::Attempted { report: Box::new(report), attempts: 0, is_mailbox: false };
    [accepted, delivered].map(|fact| SubmittedReport { mail: mail.clone(), fact })
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_of_mail_programs_has_events_and_no_statuses() {
    on_every_engine(async |store| {
        let log = store.delivery_log();
        let reports = ["Q1", "Q2"].map(submitted).concat();
        let append = async |from: &str, to: &str| {
            let batch = Reports { submitted: &reports, ..Reports::default() };
            log.append_reports("feed", batch, &cursor(from), &cursor(to)).await
        };
        let appended = append("", "1").await.unwrap();
        assert_eq!((appended.entries_added, appended.messages_updated), (0, 0));
        assert!(append("", "1").await.unwrap_err().is_guard_failed(), "a batch that is read again");
        let events = self::log(store).await;
        let reported = events.iter().map(|event| (event.event_type.as_str(), body(event)["data"]["queue_id"].clone()));
        let expected = ["Q1", "Q2"].map(|id| ["message.accepted", "message.delivered"].map(|name| (name, json!(id))));
        assert_eq!(reported.collect::<Vec<_>>(), expected.concat());
        assert!(
            events.iter().all(|event| event.message_id.is_none() && event.mailbox == Some(email("ann@example.org")))
        );
        let ids: std::collections::HashSet<_> = events.iter().map(|event| event.id).collect();
        assert_eq!(ids.len(), events.len());
        let filter = EventFilter { mailbox: Some(email("ann@example.org")), ..all() };
        assert_eq!(store.events().after(START, &filter, 10).await.unwrap().events, events);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_changes_of_one_millisecond_have_different_ids() {
    on_every_engine(async |store| {
        add_account(store, "ann@example.org", 1).await;
        for active in [false, true, false, true] {
            store.accounts().set_active(&email("ann@example.org"), active, at(5)).await.unwrap();
        }
        let ids: std::collections::HashSet<_> = log(store).await.into_iter().map(|event| event.id).collect();
        assert_eq!(ids.len(), types(store).await.len());
    })
    .await;
}
