//! Effect on sends while a table is pruned from twice its maximum number of rows.

use std::path::Path;

use rusqlite::{Connection, params};

use super::{http_clients, ordinary_sends};
use crate::load::{Load, Sample};
use crate::mail_site::{MailSite, database};
use crate::measure::figures;
use crate::outcome::{Failure, Outcome};
use crate::report::{Row, Unit};
use crate::scale::Scale;
use crate::server::Product;

/// Maximum factor by which sends may become slower.
const MOST: f64 = 3.0;

/// A table with rows that expire: a statement that adds rows, and the part of the largest table that it gets.
struct Expiring {
    table: &'static str,
    add: &'static str,
    part: usize,
}

/// Each statement selects from `n`, the numbers from 1 to the number of rows. All rows expired long ago.
const TABLES: [Expiring; 6] = [
    Expiring {
        table: "greylist",
        add: "INSERT INTO greylist (key, network, first_seen, last_seen, passed) \
              SELECT lower(hex(randomblob(16))), '10.' || (i % 250) || '.0.0/24', i, i, i % 5 <> 0 FROM n",
        part: 1,
    },
    Expiring {
        table: "events",
        add: "INSERT INTO events (number, id, type, at, domain, subject_at, body) \
              SELECT i, lower(hex(randomblob(16))), 'message.rejected', i, 'bench.test', 0, hex(randomblob(300)) FROM n",
        part: 4,
    },
    Expiring {
        table: "webhook_failures",
        add: "INSERT INTO webhook_failures (webhook_id, number, event_id, event_type, attempts, created_at) \
              SELECT 1 + i % 100, i, lower(hex(randomblob(16))), 'message.rejected', 9, i FROM n",
        part: 4,
    },
    Expiring {
        table: "idempotency",
        add: "INSERT INTO idempotency (token_id, key, body_hash, message_id, expires_at) \
              SELECT 1 + i % 100, hex(randomblob(16)), randomblob(32), hex(randomblob(16)), i FROM n",
        part: 4,
    },
    Expiring {
        table: "tokens",
        add: "INSERT INTO tokens (hash, prefix, kind, email, name, is_active, is_session, is_removed, is_revoked, \
              created_at, expires_at) \
              SELECT randomblob(32), 'old', 'user', 'u' || i || '@bench.test', 'old', FALSE, TRUE, FALSE, FALSE, i, i FROM n",
        part: 4,
    },
    Expiring {
        table: "drop_answered",
        add: "INSERT INTO drop_answered (mailbox_id, sender, until, answered_at) \
              SELECT 1 + i % 100, hex(randomblob(16)), i, i FROM n",
        part: 4,
    },
];

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for expiring in &TABLES {
        rows.push(of_table(expiring, product, scale).await?);
    }
    Ok(rows)
}

async fn of_table(expiring: &Expiring, product: &Product, scale: &Scale) -> Outcome<Row> {
    let site = MailSite::with_people(product).await?;
    let calm = figures(&sends(&site, scale).await?);
    let directory = site.stop().await?;
    let file = database(directory.path());
    let added = scale.pruned / expiring.part;
    fill(&file, expiring, added)?;

    // A start begins with the removal of what has expired.
    let site = MailSite::on(product, directory).await?;
    let busy = figures(&sends(&site, scale).await?);
    let left = count(&file, expiring)?;
    if left >= added {
        return Err(Failure::new(format!("none of {left} expired rows of {} was removed", expiring.table)));
    }
    site.stop().await?;
    let case = format!(
        "POST /mail/send while {} of {added} expired rows of `{}` are removed: p99 {:.2} ms, at rest {:.2} ms",
        added - left,
        expiring.table,
        busy.p99.as_secs_f64() * 1e3,
        calm.p99.as_secs_f64() * 1e3
    );
    Ok(Row::at_most(&case, Unit::Times, busy.p99.as_secs_f64() / calm.p99.as_secs_f64(), MOST))
}

async fn sends(site: &MailSite, scale: &Scale) -> Outcome<Vec<Sample>> {
    let requests = ordinary_sends(site).await?;
    let mut senders = http_clients(1, site.server.http, site.server.process(), &requests, 202).await?;
    senders.run(scale.plan.warm_up).await?;
    let mut samples = Vec::new();
    for _ in 0..scale.plan.rounds {
        samples.push(senders.run(scale.plan.window).await?);
    }
    Ok(samples)
}

/// Adds expired rows.
fn fill(file: &Path, expiring: &Expiring, rows: usize) -> Outcome {
    let connection = Connection::open(file)?;
    // The rows name webhooks that do not exist.
    connection.pragma_update(None, "foreign_keys", false)?;
    if expiring.table == "events" {
        // The oldest events have the first numbers.
        connection.execute("UPDATE events SET number = number + 100000000", [])?;
    }
    let numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)";
    connection.execute(&format!("{numbers} {}", expiring.add), params![rows as u64])?;
    Ok(())
}

/// Counts the rows that were added and are left. Sends add events, with later numbers, and no rows of other tables.
fn count(file: &Path, expiring: &Expiring) -> Outcome<usize> {
    let added = if expiring.table == "events" { "WHERE number <= 100000000" } else { "" };
    let sql = format!("SELECT COUNT(*) FROM {} {added}", expiring.table);
    let count: i64 = Connection::open(file)?.query_row(&sql, [], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}
