//! Tests that messages sent before statistics existed are counted too.

use mailapi_model::{QueueId, Timestamp};

use super::{Hours, RollUpSize, SentCounts, SentScope, Span};
use crate::sqlite::{Sqlite, SqliteSettings};
use crate::store::{COMPONENT, SQLITE_MIGRATIONS};
use crate::{Store, StoreError};

const SENT_AT: Timestamp = Timestamp::from_seconds(1_763_633_730);
const WAITING: &str = "67e55044-10b1-426f-9247-bb680e5fe0c9";

/// Two messages as the second migration stores them. The first is submitted, and one of its recipients was refused.
const STORED: &str = "
    INSERT INTO sent_messages (id, message_id, sender, to_list, subject, recipient_count, status, queue_id, created_at,
        submitted_at)
    VALUES (1, '67e55044-10b1-426f-9247-bb680e5fe0c8', 'ann@example.org', 'bob@example.net', '', 2, 'submitted', 'Q1',
            1763633730000, 1763633730000),
        (2, '67e55044-10b1-426f-9247-bb680e5fe0c9', 'ann@example.org', 'bob@example.net', '', 2, 'pending', NULL,
            1763633730000, NULL);
    INSERT INTO sent_recipients (sent_id, email, position, kind, status, refused, dsn, smtp_response, bounced_at, attempts)
    VALUES (1, 'bob@example.net', 0, 'to', 'submitted', FALSE, NULL, NULL, NULL, 0),
        (1, 'eve@example.net', 1, 'to', 'bounced', TRUE, '5.0.0', '550 no', 1763633730000, 0),
        (2, 'bob@example.net', 0, 'to', 'pending', FALSE, NULL, NULL, NULL, 0),
        (2, 'eve@example.net', 1, 'to', 'pending', FALSE, NULL, NULL, NULL, 0);
";

#[tokio::test(flavor = "multi_thread")]
async fn rows_older_than_the_journal_count_in_the_first_roll_ups() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Sqlite::open(&folder.path().join("old.db"), SqliteSettings::default()).unwrap();
    engine.migrate(COMPONENT, &SQLITE_MIGRATIONS[..2], SENT_AT).await.unwrap();
    engine.write(|connection| Ok::<_, StoreError>(connection.execute_batch(STORED)?)).await.unwrap();

    let store = Store::on_sqlite(engine);
    assert_eq!(store.migrate(SENT_AT).await, Ok(SQLITE_MIGRATIONS.len() - 2));
    store.sent().submitted(WAITING.parse().unwrap(), &QueueId("Q2".to_owned()), SENT_AT, &[]).await.unwrap();
    while store.stats().roll_up_once(RollUpSize { changes: 3, groups: 3 }).await.unwrap().more {}

    let hours = Hours::around(SENT_AT, Timestamp::from_seconds(1_763_633_731));
    let counts = store.stats().sent_by_time(&[SentScope::All], hours, Span::Day).await.unwrap();
    let expected = SentCounts { sent: 3, rejected: 1, ..SentCounts::default() };
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [expected]);
}
