//! Visibility of statistics by permission.

use std::time::Duration;

use mailapi_model::{EmailAddress, Page, Permission};
use mailapi_service::Caller;
use mailapi_service::stats::{DeliveryQuery, GroupBy, PeriodQuery, StatsError};
use mailapi_testkit::TestApp;

use crate::{address, busy, delivered, from_sender, owner, send};

/// Two mailboxes in the first domain and one in the second, each with one sent message.
async fn three_senders() -> TestApp {
    let app = TestApp::start().await;
    for mailbox in ["ann@one.example", "bob@one.example", "eve@two.example"] {
        app.mailbox(mailbox, None).await;
    }
    for sender in ["ann@one.example", "bob@one.example", "eve@two.example"] {
        send(&app, sender, &["ann@one.example"]).await;
    }
    app
}

#[tokio::test]
async fn a_mailbox_sees_itself_and_nothing_else() {
    let app = three_senders().await;
    let wrong = [(Permission::ManageDomains, "one.example"), (Permission::ViewStats, "two.example")];
    for ann in [owner("ann@one.example", &[]), owner("ann@one.example", &wrong)] {
        let of_bob = app.service.delivery_stats(&ann, from_sender("bob@one.example")).await;
        assert!(matches!(of_bob, Err(StatsError::Denied(_))));
        let bob = address("bob@one.example");
        let of_bob = app.service.user_stats(&ann, &bob, PeriodQuery::default(), GroupBy::Day).await;
        assert!(matches!(of_bob, Err(StatsError::Denied(_))));
        let of_one = app.service.domain_stats(&ann, &bob.domain(), PeriodQuery::default()).await;
        assert!(matches!(of_one, Err(StatsError::Denied(_))));

        let own = address("ann@one.example");
        let own = app.service.user_stats(&ann, &own, PeriodQuery::default(), GroupBy::Day).await.unwrap();
        assert_eq!(own.summary, delivered(1));
        let of_own_domain = app.service.delivery_stats(&ann, from_sender("one.example")).await.unwrap();
        assert_eq!(of_own_domain.summary, delivered(1), "of its domain it sees its own part");
    }
    let ann = owner("ann@one.example", &[]);
    assert_eq!(app.service.delivery_stats(&ann, DeliveryQuery::default()).await.unwrap().summary, delivered(1));
    let listed = app.service.domains_stats(&ann, PeriodQuery::default(), Page::default()).await.unwrap();
    assert_eq!((listed.domains.total, listed.domains.items), (0, vec![]));
}

#[tokio::test]
async fn a_delegate_sees_the_domains_where_statistics_were_delegated() {
    let app = three_senders().await;
    let eve = owner("eve@two.example", &[(Permission::ViewStats, "one.example")]);
    let summary = async |query| app.service.delivery_stats(&eve, query).await.unwrap().summary;
    assert_eq!(summary(DeliveryQuery::default()).await, delivered(3), "that domain, and the own mailbox");
    assert_eq!(summary(from_sender("one.example")).await, delivered(2));
    assert_eq!(summary(from_sender("bob@one.example")).await, delivered(1));
    let unknown = address("nobody@one.example");
    let missing = app.service.user_stats(&eve, &unknown, PeriodQuery::default(), GroupBy::Day).await;
    assert!(matches!(missing, Err(StatsError::UserNotFound)));

    let listed = app.service.domains_stats(&eve, PeriodQuery::default(), Page::default()).await.unwrap();
    let shown: Vec<_> = listed.domains.items.iter().map(|one| (one.domain.as_str(), one.counts)).collect();
    assert_eq!((listed.domains.total, shown), (1, vec![("one.example", delivered(2))]));
    let one = app.service.domain_stats(&eve, &address("bob@one.example").domain(), PeriodQuery::default()).await;
    assert_eq!(one.unwrap().outbound, delivered(2));
}

#[tokio::test]
async fn a_recreated_address_does_not_see_earlier_mail() {
    let app = three_senders().await;
    let ann = address("ann@one.example");
    app.service.delete_user(&Caller::operator(), &ann).await.unwrap();
    app.clock.advance(Duration::from_hours(1));
    app.mailbox("ann@one.example", None).await;
    let new_ann = owner("ann@one.example", &[]);
    let grouped = |group_by| DeliveryQuery { group_by, ..from_sender("ann@one.example") };
    for group_by in GroupBy::ALL {
        let seen = app.service.delivery_stats(&new_ann, grouped(group_by)).await.unwrap();
        assert_eq!(busy(&seen).0, [], "{group_by}");
        assert_eq!(seen.summary, delivered(0));
    }
    send(&app, "ann@one.example", &["bob@one.example"]).await;
    let own = app.service.user_stats(&new_ann, &ann, PeriodQuery::default(), GroupBy::Day).await.unwrap();
    assert_eq!(own.summary, delivered(1));
    let everything = app.service.user_stats(&Caller::operator(), &ann, PeriodQuery::default(), GroupBy::Day).await;
    assert_eq!(everything.unwrap().summary, delivered(2), "an admin sees both");
    let of_the_domain = owner("bob@one.example", &[(Permission::ViewStats, "one.example")]);
    let seen = app.service.delivery_stats(&of_the_domain, DeliveryQuery::default()).await.unwrap();
    assert_eq!(seen.summary, delivered(3), "the domain is the same");

    let two = ann_of("two.example");
    app.service.delete_domain(&Caller::operator(), &two.domain(), true).await.unwrap();
    app.clock.advance(Duration::from_hours(1));
    app.domain("two.example").await;
    app.mailbox(two.as_str(), None).await;
    send(&app, two.as_str(), &["bob@one.example"]).await;
    let both =
        owner("bob@one.example", &[(Permission::ViewStats, "one.example"), (Permission::ViewStats, "two.example")]);
    let seen = app.service.delivery_stats(&both, DeliveryQuery::default()).await.unwrap();
    assert_eq!(seen.summary, delivered(3 + 1));
    let to_domains = DeliveryQuery { group_by: GroupBy::Domain, ..DeliveryQuery::default() };
    let seen = app.service.delivery_stats(&both, to_domains).await.unwrap();
    assert_eq!(busy(&seen).0, [("one.example".to_owned(), delivered(3 + 1))]);
    let one_by_one = app.service.domains_stats(&both, PeriodQuery::default(), Page::default()).await.unwrap();
    let counts: Vec<_> = one_by_one.domains.items.iter().map(|one| (one.domain.as_str(), one.counts.sent)).collect();
    assert_eq!(counts, [("two.example", 1), ("one.example", 3)]);
    let of_two = app.service.domain_stats(&both, &two.domain(), PeriodQuery::default()).await.unwrap();
    assert_eq!((of_two.outbound, of_two.top_recipients.len()), (delivered(1), 1));
}

#[tokio::test]
async fn the_hour_in_which_a_name_changes_its_owner_is_neithers() {
    let app = three_senders().await;
    let (ann, operator) = (address("ann@one.example"), Caller::operator());
    let new_ann = owner("ann@one.example", &[]);
    let seen = async || {
        let seen = app.service.user_stats(&new_ann, &ann, PeriodQuery::default(), GroupBy::Hour).await;
        seen.unwrap().summary
    };
    assert_eq!(seen().await, delivered(1), "a first owner sees the first hour");
    app.service.delete_user(&operator, &ann).await.unwrap();
    app.mailbox("ann@one.example", None).await;
    assert_eq!(seen().await, delivered(0));
    send(&app, "ann@one.example", &["bob@one.example"]).await;
    assert_eq!(seen().await, delivered(0), "mail of the same hour may be the earlier owner's");
    app.clock.advance(Duration::from_hours(1));
    send(&app, "ann@one.example", &["bob@one.example"]).await;
    assert_eq!(seen().await, delivered(1));

    let two = ann_of("two.example");
    app.service.delete_domain(&operator, &two.domain(), true).await.unwrap();
    app.domain("two.example").await;
    let delegate = owner("bob@one.example", &[(Permission::ViewStats, "two.example")]);
    let of_two = app.service.domain_stats(&delegate, &two.domain(), PeriodQuery::default()).await.unwrap();
    assert_eq!((of_two.outbound, of_two.top_recipients.len()), (delivered(0), 0));
    let listed = app.service.domains_stats(&delegate, PeriodQuery::default(), Page::default()).await.unwrap();
    assert_eq!(listed.domains.items[0].counts.sent, 0);
    app.mailbox(two.as_str(), None).await;
    let again = app.service.user_stats(&owner(two.as_str(), &[]), &two, PeriodQuery::default(), GroupBy::Hour).await;
    assert_eq!(again.unwrap().summary, delivered(0), "an address that went with its domain");
}

fn ann_of(domain: &str) -> EmailAddress {
    address(&format!("ann@{domain}"))
}

#[tokio::test]
async fn an_admin_sees_everything_that_exists() {
    let app = three_senders().await;
    app.domain("quiet.example").await;
    let admin = Caller::operator();
    let all = app.service.delivery_stats(&admin, DeliveryQuery::default()).await.unwrap();
    assert_eq!(all.summary, delivered(3));
    let nowhere = "nowhere.example".parse().unwrap();
    let missing = app.service.domain_stats(&admin, &nowhere, PeriodQuery::default()).await;
    assert!(matches!(missing, Err(StatsError::DomainNotFound)));

    let listed = app.service.domains_stats(&admin, PeriodQuery::default(), Page::default()).await.unwrap();
    let mut shown: Vec<_> = listed.domains.items.iter().map(|one| (one.domain.as_str(), one.counts.sent)).collect();
    shown.sort_unstable();
    assert_eq!((listed.domains.total, shown), (3, vec![("one.example", 2), ("quiet.example", 0), ("two.example", 1)]));
    let second = app.service.domains_stats(&admin, PeriodQuery::default(), Page::new(1, 1)).await.unwrap();
    assert_eq!((second.domains.total, second.domains.items.len()), (3, 1));
}
