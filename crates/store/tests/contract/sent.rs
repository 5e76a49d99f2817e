use mailapi_model::{
    EmailAddress, EnhancedCode, MessageStatus, Outcome, QueueId, RecipientKind, RecipientStatus, Reply, TokenId,
};
use mailapi_store::{Begun, DeliveryLogFilter, Failure, OpenMessages, SentFilter, SentOwner, StoreError, StoredAnswer};

use crate::delivery_log::{cursor, event};
use crate::engines::{at, email, message_id, named_request, new_sent, on_every_engine, page};

fn unknown_user() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 1, 1), "no such user")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_stored_whole_or_not_at_all() {
    on_every_engine(async |store| {
        let message = new_sent(1, &["bob@example.net"]);
        assert_eq!(store.sent().begin(&message).await, Ok(Begun::New));
        let mut again = new_sent(1, &["eve@example.net"]);
        again.idempotency = Some(named_request("key", "body"));
        assert!(store.sent().begin(&again).await.unwrap_err().is_conflict());
        let recipients = store.sent().get(message_id(1)).await.unwrap().unwrap().recipients;
        assert_eq!(recipients.len(), 1);

        again.message_id = message_id(2);
        assert_eq!(store.sent().begin(&again).await, Ok(Begun::New), "a rejected change stores no key");
        assert_eq!(store.sent().get(message_id(3)).await, Ok(None));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_is_what_is_read() {
    on_every_engine(async |store| {
        let mut message = new_sent(1, &["Bob@Bücher.example", "\"odd one\"@example.net"]);
        message.token_id = Some(TokenId(7));
        message.recipients.push((email("cc@example.net"), RecipientKind::Cc));
        message.recipients.push((email("bob@bücher.example"), RecipientKind::Bcc));
        message.recipient_count = 4;
        store.sent().begin(&message).await.unwrap();

        let record = store.sent().get(message_id(1)).await.unwrap().unwrap();
        assert_eq!(record.message.to, message.to);
        assert_eq!(record.message.to[0].shown(), "bob@bücher.example");
        assert_eq!((record.message.token_id, record.message.mailbox), (message.token_id, message.mailbox));
        assert_eq!((record.message.status, record.message.created_at), (MessageStatus::Pending, at(1)));
        let recipients: Vec<_> = record.recipients.iter().map(|r| (r.email.shown(), r.kind, r.status)).collect();
        assert_eq!(
            recipients,
            [
                ("bob@bücher.example", RecipientKind::To, RecipientStatus::Pending),
                ("\"odd one\"@example.net", RecipientKind::To, RecipientStatus::Pending),
                ("cc@example.net", RecipientKind::Cc, RecipientStatus::Pending),
            ],
            "the first kind of a repeated address wins"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_answered_once() {
    on_every_engine(async |store| {
        let request = |number: u64, key: &str, body: &str| {
            let mut message = new_sent(number, &["bob@example.net", "eve@example.net"]);
            message.idempotency = Some(named_request(key, body));
            message
        };
        assert_eq!(store.sent().begin(&request(1, "key", "body")).await, Ok(Begun::New));
        assert_eq!(store.sent().begin(&request(2, "key", "other")).await, Ok(Begun::Conflict));
        assert_eq!(store.sent().begin(&request(2, "key", "body")).await, Ok(Begun::InFlight(message_id(1))));

        let queue_id = QueueId("Q1".to_owned());
        store.sent().submitted(message_id(1), &queue_id, at(2), &[]).await.unwrap();
        let answer = StoredAnswer::Submitted { message_id: message_id(1), queue_id, recipient_count: 2 };
        assert_eq!(store.sent().begin(&request(2, "key", "body")).await, Ok(Begun::Repeat(answer)));
        assert_eq!(store.sent().get(message_id(2)).await, Ok(None), "a repeat stores nothing");

        let mut of_another_token = request(3, "key", "other");
        of_another_token.idempotency.as_mut().unwrap().token_id = TokenId(2);
        assert_eq!(store.sent().begin(&of_another_token).await, Ok(Begun::New));
        let failure = Failure { reason: "not now", reply: None, refused: &[] };
        store.sent().failed(message_id(3), at(4), failure).await.unwrap();
        of_another_token.message_id = message_id(4);
        let reason = "not now".to_owned();
        let answer = StoredAnswer::Failed { message_id: message_id(3), reason, retryable: true };
        assert_eq!(store.sent().begin(&of_another_token).await, Ok(Begun::Repeat(answer)));

        let mut next_day = request(5, "key", "other");
        next_day.created_at = at(86_400);
        assert_eq!(store.sent().begin(&next_day).await, Ok(Begun::New), "the key is kept for a day");
        assert_eq!(store.sent().forget_requests(at(86_399), 9).await, Ok(0));
        let forget = async || store.sent().forget_requests(at(86_400), 1).await.unwrap();
        assert_eq!([forget().await, forget().await, forget().await], [1, 1, 0], "one at a time");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_repeats_store_one_message() {
    on_every_engine(async |store| {
        let requests = (0..20).map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut message = new_sent(number, &["bob@example.net"]);
                message.idempotency = Some(named_request("key", "body"));
                store.sent().begin(&message).await.unwrap()
            })
        });
        let mut new = 0;
        for request in requests.collect::<Vec<_>>() {
            match request.await.unwrap() {
                Begun::New => new += 1,
                Begun::InFlight(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(new, 1);
        assert_eq!(store.sent().list(&SentFilter::of(SentOwner::All), page(50, 0)).await.unwrap().total, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_recipients_bounce_at_once_and_the_others_go_on() {
    on_every_engine(async |store| {
        store.sent().begin(&new_sent(1, &["bob@example.net", "no@example.net"])).await.unwrap();
        let refused = [(email("no@example.net"), unknown_user())];
        store.sent().submitted(message_id(1), &QueueId("Q1".to_owned()), at(2), &refused).await.unwrap();

        let record = store.sent().get(message_id(1)).await.unwrap().unwrap();
        assert_eq!(record.message.status, MessageStatus::Submitted);
        assert_eq!(record.message.submitted_at, Some(at(2)));
        assert_eq!(record.recipients[0].status, RecipientStatus::Submitted);
        let gone = &record.recipients[1];
        assert_eq!((gone.status, gone.bounced_at), (RecipientStatus::Bounced, Some(at(2))));
        assert_eq!(gone.smtp_response.as_deref(), Some("550 5.1.1 no such user"));
        assert_eq!(gone.dsn, Some(EnhancedCode::new(5, 1, 1)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_enhanced_code_has_the_undefined_one() {
    on_every_engine(async |store| {
        for number in [1, 2] {
            store.sent().begin(&new_sent(number, &["bob@example.net", "no@example.net"])).await.unwrap();
        }
        let bare = Reply { code: 550, enhanced: None, text: "go away".to_owned() };
        let refused = [(email("no@example.net"), bare.clone())];
        store.sent().submitted(message_id(1), &QueueId("Q1".to_owned()), at(2), &refused).await.unwrap();
        let failure = Failure { reason: "the message was refused", reply: Some(&bare), refused: &[] };
        store.sent().failed(message_id(2), at(2), failure).await.unwrap();

        for number in [1, 2] {
            let refused = store.sent().get(message_id(number)).await.unwrap().unwrap().recipients.remove(1);
            assert_eq!(refused.smtp_response.as_deref(), Some("550 go away"));
            assert_eq!(refused.dsn, Some(EnhancedCode::new(5, 0, 0)));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_not_taken_failed_for_everybody() {
    on_every_engine(async |store| {
        store.sent().begin(&new_sent(1, &["bob@example.net", "no@example.net"])).await.unwrap();
        let refused = [(email("no@example.net"), unknown_user())];
        let failure = Failure { reason: "every recipient was refused", reply: None, refused: &refused };
        store.sent().failed(message_id(1), at(2), failure).await.unwrap();

        let record = store.sent().get(message_id(1)).await.unwrap().unwrap();
        assert_eq!(record.message.status, MessageStatus::Failed);
        let replies: Vec<_> = record.recipients.iter().map(|r| (r.status, r.smtp_response.as_deref())).collect();
        assert_eq!(
            replies,
            [
                (RecipientStatus::Failed, Some("every recipient was refused")),
                (RecipientStatus::Bounced, Some("550 5.1.1 no such user")),
            ]
        );

        let missing = store.sent().failed(message_id(9), at(2), failure).await.unwrap_err();
        assert!(missing.is_guard_failed());
        store.sent().begin(&new_sent(2, &["bob@example.net"])).await.unwrap();
        store.sent().submitted(message_id(2), &QueueId("Q2".to_owned()), at(2), &[]).await.unwrap();
        assert!(store.sent().failed(message_id(2), at(3), failure).await.unwrap_err().is_guard_failed());
        let record = store.sent().get(message_id(2)).await.unwrap().unwrap();
        assert_eq!(record.message.status, MessageStatus::Submitted, "a submitted message cannot fail any more");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_is_in_the_delivery_log_once() {
    on_every_engine(async |store| {
        let later = Reply::new(450, EnhancedCode::new(4, 2, 0), "come again");
        let refused = [(email("no@example.net"), unknown_user()), (email("later@example.net"), later)];
        let queue_id = QueueId("Q1".to_owned());
        for number in [1, 2] {
            let mut message = new_sent(number, &["bob@example.net", "no@example.net"]);
            message.recipients.push((EmailAddress::as_given("LATER@example.net").unwrap(), RecipientKind::To));
            store.sent().begin(&message).await.unwrap();
        }
        // Recovery after a crash may record the result twice.
        for seconds in [5, 6] {
            store.sent().submitted(message_id(1), &queue_id, at(seconds), &refused).await.unwrap();
            let failure = Failure { reason: "no recipient was accepted", reply: None, refused: &refused };
            store.sent().failed(message_id(2), at(seconds), failure).await.unwrap();
        }

        for (number, name) in [(1, queue_id), (2, QueueId::standing_in(message_id(2)))] {
            let filter = DeliveryLogFilter { message_id: Some(message_id(number)), ..DeliveryLogFilter::default() };
            let entries = store.delivery_log().list(&filter, page(50, 0)).await.unwrap().items;
            let shown: Vec<_> = entries.iter().map(|entry| (&entry.event.recipient, entry.event.outcome)).collect();
            assert_eq!(shown, [(&refused[1].0, Outcome::Failed), (&refused[0].0, Outcome::Bounced)]);
            let event = &entries[0].event;
            assert_eq!((event.at, &event.queue_id, &event.sender), (at(5), &name, &Some(email("ann@example.org"))));
            assert_eq!(event.recipient.shown(), "LATER@example.net", "the mail server may have named it folded");
            assert_eq!((event.dsn, event.response.as_str()), (refused[1].1.enhanced, "450 4.2.0 come again"));
        }
        let states = async |number| store.sent().get(message_id(number)).await.unwrap().unwrap().message.status;
        assert_eq!((states(1).await, states(2).await), (MessageStatus::Submitted, MessageStatus::Failed));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_behind_is_found_oldest_first() {
    on_every_engine(async |store| {
        for number in 1..=4 {
            store.sent().begin(&new_sent(number, &["bob@example.net"])).await.unwrap();
        }
        store.sent().submitted(message_id(2), &QueueId("Q2".to_owned()), at(9), &[]).await.unwrap();
        let failure = Failure { reason: "no", reply: None, refused: &[] };
        store.sent().failed(message_id(3), at(9), failure).await.unwrap();
        let left = async |after, limit| {
            let pending = store.sent().pending(after, limit).await.unwrap();
            pending.into_iter().map(|message| message.message_id).collect::<Vec<_>>()
        };
        assert_eq!(left(None, 10).await, [message_id(1), message_id(4)]);
        assert_eq!(left(None, 1).await, [message_id(1)]);
        // Pages stay complete even if the last message of a page was decided meanwhile.
        assert_eq!(left(Some(message_id(1)), 10).await, [message_id(4)]);
        assert_eq!(left(Some(message_id(2)), 10).await, [message_id(4)]);
        assert_eq!(left(Some(message_id(4)), 10).await, []);
        assert_eq!(left(Some(message_id(9)), 10).await, []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_one_owner_and_what_is_asked_for() {
    on_every_engine(async |store| {
        for number in 0..6 {
            let mut message = new_sent(number, &[if number < 3 { "bob@example.net" } else { "eve@example.net" }]);
            message.token_id = Some(TokenId(i64::from(number % 2 == 0)));
            message.mailbox = (number != 5).then(|| email("ann@example.org"));
            message.from = email(if number == 4 { "other@example.org" } else { "ann@example.org" });
            store.sent().begin(&message).await.unwrap();
        }
        store.sent().submitted(message_id(3), &QueueId("Q".to_owned()), at(9), &[]).await.unwrap();

        let shown = async |filter: SentFilter| {
            let listed = store.sent().list(&filter, page(50, 0)).await.unwrap();
            assert_eq!(listed.total, u64::try_from(listed.items.len()).unwrap());
            listed.items.into_iter().map(|message| message.subject.replace("Message ", "")).collect::<String>()
        };
        let all = || SentFilter::of(SentOwner::All);
        let ann = || SentFilter::of(SentOwner::Mailbox(email("ann@example.org")));
        assert_eq!(shown(all()).await, "543210");
        assert_eq!(shown(ann()).await, "43210");
        assert_eq!(shown(SentFilter::of(SentOwner::Mailbox(email("bob@example.net")))).await, "");
        assert_eq!(shown(SentFilter::of(SentOwner::Token(TokenId(1)))).await, "420");
        assert_eq!(shown(SentFilter { status: Some(MessageStatus::Submitted), ..all() }).await, "3");
        assert_eq!(shown(SentFilter { status: Some(MessageStatus::Pending), ..ann() }).await, "4210");
        assert_eq!(shown(SentFilter { from: Some(email("other@example.org")), ..all() }).await, "4");
        assert_eq!(shown(SentFilter { recipient: Some(email("bob@example.net")), ..ann() }).await, "210");
        assert_eq!(shown(SentFilter { start: Some(at(1)), end: Some(at(4)), ..all() }).await, "321");

        let second = store.sent().list(&all(), page(2, 2)).await.unwrap();
        let subjects: Vec<_> = second.items.iter().map(|message| message.subject.as_str()).collect();
        assert_eq!((second.total, subjects), (6, vec!["Message 3", "Message 2"]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_is_the_present_owners_on_every_page() {
    on_every_engine(async |store| {
        for number in 0..5 {
            let mut message = new_sent(number, &["bob@example.net"]);
            message.mailbox = (number != 4).then(|| email("ann@example.org"));
            store.sent().begin(&message).await.unwrap();
        }
        let again = store.sent().begin(&new_sent(3, &["bob@example.net"])).await;
        assert!(
            matches!(again, Err(StoreError::Conflict(_))),
            "a message that was not stored is not counted: {again:?}"
        );

        let total = async |filter: &SentFilter, offset| {
            let listed = store.sent().list(filter, page(2, offset)).await.unwrap();
            (listed.total, listed.items.len())
        };
        let everybody = SentFilter::of(SentOwner::All);
        let ann = SentFilter::of(SentOwner::Mailbox(email("ann@example.org")));
        let new_owner = SentFilter { owner_since: Some(at(3)), ..ann.clone() };
        let eve = SentFilter::of(SentOwner::Mailbox(email("eve@example.org")));
        for (filter, first, second) in
            [(everybody, (5, 2), (5, 2)), (ann, (4, 2), (4, 2)), (new_owner, (1, 1), (1, 0)), (eve, (0, 0), (0, 0))]
        {
            assert_eq!((total(&filter, 0).await, total(&filter, 2).await), (first, second), "{filter:?}");
            assert_eq!(total(&filter, 100_000).await, (first.0, 0), "{filter:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_messages_and_recipients_are_those_without_an_end() {
    on_every_engine(async |store| {
        let sent = store.sent();
        for number in 1..=3 {
            sent.begin(&new_sent(number, &["bob@example.net", "eve@example.net"])).await.unwrap();
        }
        for number in [1, 2] {
            let queue_id = QueueId(format!("Q{number}"));
            sent.submitted(message_id(number), &queue_id, at(10 + i64::try_from(number).unwrap()), &[]).await.unwrap();
        }
        let events = [
            event(1, "bob@example.net", Outcome::Sent, 20),
            event(1, "eve@example.net", Outcome::Deferred, 20),
            event(2, "bob@example.net", Outcome::Sent, 20),
            event(2, "eve@example.net", Outcome::Bounced, 20),
        ];
        store.delivery_log().append("feed", &events, &cursor(""), &cursor("1")).await.unwrap();

        let pending = sent.count_open(MessageStatus::Pending, 10).await.unwrap();
        assert_eq!(pending, OpenMessages { count: 1, oldest: Some(at(3)) });
        let submitted = sent.count_open(MessageStatus::Submitted, 10).await.unwrap();
        assert_eq!(submitted, OpenMessages { count: 1, oldest: Some(at(1)) });
        let open = sent.open_recipients(at(12), 10).await.unwrap();
        let shown: Vec<_> = open.iter().map(|one| (one.message_id, one.recipient.shown())).collect();
        assert_eq!(shown, [(message_id(1), "eve@example.net")]);
        assert_eq!(open[0].queue_id, Some(QueueId("Q1".to_owned())));
        assert_eq!(sent.open_recipients(at(11), 10).await, Ok(Vec::new()), "submitted at that time");
        assert_eq!(sent.open_recipients(at(12), 0).await, Ok(Vec::new()));
    })
    .await;
}
