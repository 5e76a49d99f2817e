//! Schema of the message store.

use mailapi_store::sqlite::Migration;

/// Key of this schema's version in the file, which other components share.
pub(crate) const COMPONENT: &str = "maildrop";

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../../migrations/0001_maildrop.sql") },
    Migration { version: 2, sql: include_str!("../../migrations/0002_final_recipient.sql") },
    Migration { version: 3, sql: include_str!("../../migrations/0003_folded_in_full.sql") },
    Migration { version: 4, sql: include_str!("../../migrations/0004_quarantine.sql") },
    Migration { version: 5, sql: include_str!("../../migrations/0005_folded_widths.sql") },
    Migration { version: 6, sql: include_str!("../../migrations/0006_recent_reread_removed.sql") },
    Migration { version: 7, sql: include_str!("../../migrations/0007_received_mail.sql") },
    Migration { version: 8, sql: include_str!("../../migrations/0008_held.sql") },
    Migration { version: 9, sql: include_str!("../../migrations/0009_submitted_mail.sql") },
];
