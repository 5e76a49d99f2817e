//! Schema of the message store.

use mailapi_store::sqlite::{Migration, Schema};

/// The tables of the message store, in a file that other components share.
pub const MAIL_SCHEMA: Schema = Schema { component: "maildrop", migrations: MIGRATIONS };

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../../migrations/0001_maildrop.sql") },
    Migration { version: 2, sql: include_str!("../../migrations/0002_final_recipient.sql") },
    Migration { version: 3, sql: include_str!("../../migrations/0003_folded_in_full.sql") },
    Migration { version: 4, sql: include_str!("../../migrations/0004_quarantine.sql") },
    Migration { version: 5, sql: include_str!("../../migrations/0005_folded_widths.sql") },
    Migration { version: 6, sql: include_str!("../../migrations/0006_recent_reread_removed.sql") },
    Migration { version: 7, sql: include_str!("../../migrations/0007_received_mail.sql") },
    Migration { version: 8, sql: include_str!("../../migrations/0008_held.sql") },
    Migration { version: 9, sql: include_str!("../../migrations/0009_submitted_mail.sql") },
    Migration { version: 10, sql: include_str!("../../migrations/0010_aliases.sql") },
    Migration { version: 11, sql: include_str!("../../migrations/0011_forwarding.sql") },
    Migration { version: 12, sql: include_str!("../../migrations/0012_mail_from_outside.sql") },
    Migration { version: 13, sql: include_str!("../../migrations/0013_vanished.sql") },
    Migration { version: 14, sql: include_str!("../../migrations/0014_rules.sql") },
    Migration { version: 15, sql: include_str!("../../migrations/0015_archive.sql") },
    Migration { version: 16, sql: include_str!("../../migrations/0016_imported.sql") },
    Migration { version: 17, sql: include_str!("../../migrations/0017_saved_at.sql") },
    Migration { version: 18, sql: include_str!("../../migrations/0018_deleted.sql") },
    Migration { version: 19, sql: include_str!("../../migrations/0019_save_sent.sql") },
    Migration { version: 20, sql: include_str!("../../migrations/0020_answered_at.sql") },
    Migration { version: 21, sql: include_str!("../../migrations/0021_imports.sql") },
    Migration { version: 22, sql: include_str!("../../migrations/0022_forwarded.sql") },
    Migration { version: 23, sql: include_str!("../../migrations/0023_sts_policies.sql") },
    Migration { version: 24, sql: include_str!("../../migrations/0024_loops.sql") },
    Migration { version: 25, sql: include_str!("../../migrations/0025_sts_policies_by_end.sql") },
    Migration { version: 26, sql: include_str!("../../migrations/0026_delivered_to.sql") },
];
