//! Checks by query plans that every list and filter has an index: neither totals nor pages read rows that
//! they do not show.

use mailapi_model::{EmailAddress, MessageStatus, Outcome, Page, QueueId, Timestamp, TokenId, WebhookId};

use crate::db::{Filter, List, Stmt, Value};
use crate::sent::{open, read as sent};
use crate::sqlite::{Sqlite, SqliteSettings};
use crate::stats::hours::Hours;
use crate::stats::read as stats;
use crate::{
    AccountFilter, AliasFilter, DeliveryLogFilter, DomainFilter, PermissionFilter, SentFilter, SentOwner, SentScope,
    Store, StoreError, TokenFilter, accounts, aliases, app_passwords, delivery_log, dns_changes, domains, permissions,
    tokens, webhooks,
};

async fn plan(engine: &Sqlite, statement: Stmt) -> String {
    let (sql, params) = statement.into_parts();
    let read = engine.read(|connection| {
        let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        for place in 1..=prepared.parameter_count() {
            prepared.raw_bind_parameter(place, params.get(place - 1).unwrap_or(&Value::Null))?;
        }
        let mut steps = Vec::new();
        let mut rows = prepared.raw_query();
        while let Some(row) = rows.next()? {
            steps.push(row.get::<_, String>("detail")?);
        }
        Ok::<_, StoreError>(steps.join("\n"))
    });
    read.await.unwrap()
}

fn email() -> EmailAddress {
    "ann@example.org".parse().unwrap()
}

fn sent_filters() -> Vec<Filter> {
    let at = Some(Timestamp::from_seconds(0));
    let all = || SentFilter::of(SentOwner::All);
    let of_mailbox = || SentFilter::of(SentOwner::Mailbox(email()));
    [
        all(),
        of_mailbox(),
        SentFilter::of(SentOwner::Token(TokenId(1))),
        SentFilter { status: Some(MessageStatus::Bounced), ..all() },
        SentFilter { from: Some(email()), ..all() },
        SentFilter { start: at, end: at, ..all() },
        SentFilter { start: at, end: at, ..of_mailbox() },
    ]
    .iter()
    .map(sent::conditions)
    .collect()
}

fn log_filters() -> Vec<Filter> {
    let all = DeliveryLogFilter::default;
    let at = Some(Timestamp::from_seconds(0));
    [
        all(),
        DeliveryLogFilter { message_id: Some("67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap()), ..all() },
        DeliveryLogFilter { queue_id: Some(QueueId("Q".to_owned())), ..all() },
        DeliveryLogFilter { sender: Some(email()), ..all() },
        DeliveryLogFilter { recipient: Some(email()), start: at, end: at, ..all() },
        DeliveryLogFilter { status: Some(Outcome::Bounced), ..all() },
        DeliveryLogFilter { start: at, end: at, ..all() },
    ]
    .iter()
    .map(delivery_log::conditions)
    .collect()
}

fn account_filters() -> Vec<Filter> {
    let all = AccountFilter::default;
    let one_domain = || AccountFilter { domains: Some(vec![email().domain()]), ..all() };
    [all(), one_domain(), AccountFilter { active: Some(true), hide: vec![email()], ..one_domain() }]
        .iter()
        .map(accounts::conditions)
        .collect()
}

fn alias_filters() -> Vec<Filter> {
    let one_domain = AliasFilter { domains: Some(vec![email().domain()]), ..AliasFilter::default() };
    [AliasFilter::default(), one_domain].iter().map(aliases::conditions).collect()
}

fn lists() -> Vec<(List, Vec<Filter>)> {
    let token_filters = [TokenFilter::default(), TokenFilter { email: Some(email()) }];
    let (email, domain) = (Some(email()), Some(email().domain()));
    let permission_filters = [
        PermissionFilter::default(),
        PermissionFilter { email: email.clone(), domain: None },
        PermissionFilter { email: None, domain: domain.clone() },
    ];
    let domain_filters = [DomainFilter::default(), DomainFilter { pending: true, only: None }];
    vec![
        (sent::SENT, sent_filters()),
        (delivery_log::ENTRIES, log_filters()),
        (accounts::ACCOUNTS, account_filters()),
        (aliases::ALIASES, alias_filters()),
        (tokens::TOKENS, token_filters.iter().map(tokens::conditions).collect()),
        (app_passwords::APP_PASSWORDS, vec![app_passwords::of_mailbox(&self::email())]),
        (dns_changes::DNS_CHANGES, vec![dns_changes::of_domain(&"example.org".parse().unwrap())]),
        (permissions::PERMISSIONS, permission_filters.iter().map(permissions::conditions).collect()),
        (domains::DOMAINS, domain_filters.iter().map(domains::conditions).collect()),
        (webhooks::WEBHOOKS, vec![webhooks::conditions(None), webhooks::conditions(Some(&self::email()))]),
        (webhooks::failures::FAILURES, vec![webhooks::failures::failure_conditions(WebhookId(1))]),
    ]
}

async fn engine(folder: &tempfile::TempDir) -> Sqlite {
    let engine = Sqlite::open(&folder.path().join("plans.db"), SqliteSettings::default()).unwrap();
    Store::on_sqlite(engine.clone()).migrate(Timestamp::from_seconds(0)).await.unwrap();
    engine
}

#[tokio::test(flavor = "multi_thread")]
async fn the_narrowest_condition_leads() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let status = Some(MessageStatus::Sent);
    let of_mailbox = SentFilter { status, from: Some(email()), ..SentFilter::of(SentOwner::Mailbox(email())) };
    let of_token = SentFilter { recipient: None, ..SentFilter::of(SentOwner::Token(TokenId(1))) };
    let of_recipient = DeliveryLogFilter {
        recipient: Some(email()),
        sender: Some(email()),
        status: Some(Outcome::Sent),
        ..<_>::default()
    };
    for (list, filter, index) in [
        (sent::SENT, sent::conditions(&of_mailbox), "sent_by_mailbox"),
        (sent::SENT, sent::conditions(&of_token), "sent_by_token"),
        (delivery_log::ENTRIES, delivery_log::conditions(&of_recipient), "delivery_events_by_recipient"),
    ] {
        for statement in [list.total(&filter), list.page_keys(&filter, Page::default())] {
            let plan = plan(&engine, statement).await;
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_and_places_of_pages_are_found_in_indexes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    for (list, filters) in lists() {
        for filter in filters {
            for statement in [list.total(&filter), list.page_keys(&filter, Page::default())] {
                let shown = statement.clone().into_parts().0.into_owned();
                let plan = plan(&engine, statement).await;
                assert!(plan.contains("COVERING INDEX"), "{shown}\n{plan}");
                assert!(!plan.contains("TEMP B-TREE"), "{shown}\n{plan}");
                if shown.contains("WHERE") {
                    assert!(plan.contains("SEARCH"), "{shown}\n{plan}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_near_the_beginning_is_one_walk_along_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let since = Some(Timestamp::from_seconds(0));
    let of_mailbox = SentFilter { owner_since: since, ..SentFilter::of(SentOwner::Mailbox(email())) };
    for (filter, index) in [
        (SentFilter::of(SentOwner::All), "SCAN sent_messages USING INDEX sent_by_time"),
        (SentFilter::of(SentOwner::Mailbox(email())), "SEARCH sent_messages USING INDEX sent_by_mailbox"),
        (of_mailbox, "SEARCH sent_messages USING INDEX sent_by_mailbox"),
    ] {
        let plan = plan(&engine, sent::SENT.first_items(sent::conditions(&filter), Page::default())).await;
        assert!(plan.starts_with(index) && plan.lines().count() == 1, "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_total_of_a_sent_list_is_no_count_of_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let of_mailbox = SentFilter::of(SentOwner::Mailbox(email()));
    let since = SentFilter { owner_since: Some(Timestamp::from_seconds(0)), ..of_mailbox.clone() };
    for filter in [SentFilter::of(SentOwner::All), of_mailbox, since] {
        let plan = plan(&engine, sent::counted(&filter).unwrap()).await;
        assert!(plan.contains("sent_counts USING PRIMARY KEY (scope=?)"), "{plan}");
        // Only messages of an earlier owner are counted row by row.
        assert_eq!(plan.contains("sent_messages"), plan.contains("(mailbox=? AND created_at<?)"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_read_only_ranges_of_the_counts_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let (domain, scopes) = (email().domain(), [SentScope::Domain(email().domain()), SentScope::Address(email())]);
    // From 01:00 on a day to 03:00 two days later: hours, a day, and hours again.
    let hours = Hours::around(Timestamp::from_seconds(3600), Timestamp::from_seconds(51 * 3600));
    let statements = [
        (stats::sent_totals("start_at", &scopes, &hours.pieces()), "scope=?"),
        (stats::sent_to_domains(&scopes, hours, 10), "scope=?"),
        (stats::inbound_totals(&domain, hours), "domain=?"),
        (stats::inbound_from_domains(&domain, hours, 10), "domain=?"),
    ];
    for (statement, whose) in statements {
        let plan = plan(&engine, statement.unwrap()).await;
        let range = format!("USING PRIMARY KEY ({whose} AND span=? AND start_at>? AND start_at<?)");
        assert_eq!(plan.matches(&range).count(), 3, "{plan}");
        assert_eq!(plan.matches("SEARCH").count(), 3, "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_messages_are_found_in_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let status = plan(&engine, open::count_open(MessageStatus::Submitted, 10)).await;
    assert!(status.contains("SEARCH sent_messages USING COVERING INDEX sent_by_status (status=?)"), "{status}");
    let recipients = plan(&engine, open::open_recipients(Timestamp::from_seconds(0), 10)).await;
    assert!(recipients.contains("SEARCH sent_messages USING INDEX sent_by_status (status=?)"), "{recipients}");
    assert!(recipients.contains("SEARCH sent_recipients USING PRIMARY KEY (sent_id=?)"), "{recipients}");
}
