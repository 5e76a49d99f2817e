//! Tests that messages sent before statistics existed are counted too.

use mailapi_model::{EmailAddress, MessageId, QueueId, RecipientKind, Reply, Timestamp};

use super::{Hours, RollUpSize, SentCounts, SentScope, Span};
use crate::sqlite::{Sqlite, SqliteSettings};
use crate::store::{COMPONENT, SQLITE_MIGRATIONS};
use crate::{NewSent, Store, StoreError};

const SENT_AT: Timestamp = Timestamp::from_seconds(1_763_633_730);

fn message(id: MessageId) -> NewSent {
    let recipients: Vec<EmailAddress> =
        ["bob@example.net", "eve@example.net"].iter().map(|address| address.parse().unwrap()).collect();
    NewSent {
        message_id: id,
        token_id: None,
        mailbox: None,
        from: "ann@example.org".parse().unwrap(),
        recipients: recipients.iter().map(|address| (address.clone(), RecipientKind::To)).collect(),
        recipient_count: recipients.len(),
        to: recipients,
        subject: String::new(),
        created_at: SENT_AT,
        idempotency: None,
        node: None,
        size: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_older_than_the_journal_count_in_the_first_roll_ups() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Sqlite::open(&folder.path().join("old.db"), SqliteSettings::default()).unwrap();
    engine.migrate(COMPONENT, &SQLITE_MIGRATIONS[..2], SENT_AT).await.unwrap();
    // Storing a message and its rejections uses columns of later migrations.
    let later = ["sent_messages/node", "delivery_events/sender_given", "delivery_events/recipient_given"];
    let later = later.map(|column| column.split_once('/').unwrap());
    let alter = async |how| {
        let sql: String = later.iter().map(|(table, column)| format!("ALTER TABLE {table} {how} {column};")).collect();
        engine.write(move |connection| Ok::<_, StoreError>(connection.execute_batch(&sql)?)).await.unwrap();
    };
    alter("ADD COLUMN").await;
    let store = Store::on_sqlite(engine.clone());
    let (taken, waiting) = (
        "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap(),
        "67e55044-10b1-426f-9247-bb680e5fe0c9".parse().unwrap(),
    );
    let refused = [("eve@example.net".parse().unwrap(), Reply { code: 550, enhanced: None, text: "no".to_owned() })];
    store.sent().begin(&message(taken)).await.unwrap();
    store.sent().begin(&message(waiting)).await.unwrap();
    store.sent().submitted(taken, &QueueId("Q1".to_owned()), SENT_AT, &refused).await.unwrap();

    alter("DROP COLUMN").await;
    assert_eq!(store.migrate(SENT_AT).await, Ok(SQLITE_MIGRATIONS.len() - 2));
    store.sent().submitted(waiting, &QueueId("Q2".to_owned()), SENT_AT, &[]).await.unwrap();
    while store.stats().roll_up_once(RollUpSize { changes: 3, groups: 3 }).await.unwrap().more {}

    let hours = Hours::around(SENT_AT, Timestamp::from_seconds(1_763_633_731));
    let counts = store.stats().sent_by_time(&[SentScope::All], hours, Span::Day).await.unwrap();
    let expected = SentCounts { sent: 3, rejected: 1, ..SentCounts::default() };
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [expected]);
}
