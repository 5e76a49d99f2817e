//! Schema migrations.

use deadpool_postgres::ClientWrapper;
use mailapi_model::Timestamp;
use tokio_postgres::Error;

use super::failure::{Failed, Kept};
use crate::StoreError;
use crate::migration::{Migration, RECORD, refuse_newer};

/// The advisory lock for migrations: "mailapi" in ASCII. The session holds it, so a crash releases it.
const LOCK: i64 = 0x6d_61_69_6c_61_70_69;

/// Applies the migrations of `component` on a connection that is closed afterwards. Nodes that start together
/// migrate one after the other.
pub(super) async fn migrate(
    mut client: ClientWrapper,
    component: &str,
    migrations: &[Migration],
    now: Timestamp,
) -> Result<usize, StoreError> {
    // Building an index on a big table takes longer than the usual limit. Raising `client_min_messages`
    // silences the notice that the record table exists already.
    failed(client.batch_execute("SET statement_timeout = 0; SET client_min_messages = warning").await)?;
    // Lock before reading the version: another node may be migrating.
    failed(client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await)?;
    failed(client.batch_execute(RECORD).await)?;
    let sql = "SELECT MAX(version) FROM schema_migrations WHERE component = $1";
    let found: Option<i32> = failed(client.query_one(sql, &[&component]).await)?.get(0);
    let found = found.map(i32::unsigned_abs);
    refuse_newer(component, found, migrations)?;
    let mut applied = 0;
    for migration in migrations.iter().filter(|migration| found.is_none_or(|found| migration.version > found)) {
        failed(apply(&mut client, component, migration, now).await)?;
        applied += 1;
    }
    Ok(applied)
}

async fn apply(
    client: &mut ClientWrapper,
    component: &str,
    migration: &Migration,
    now: Timestamp,
) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(migration.sql).await?;
    let sql = "INSERT INTO schema_migrations (component, version, applied_at) VALUES ($1, $2, $3)";
    transaction.execute(sql, &[&component, &migration.version.cast_signed(), &now.as_millis()]).await?;
    transaction.commit().await
}

fn failed<T>(outcome: Result<T, Error>) -> Result<T, StoreError> {
    outcome.map_err(|error| Failed::of(&error, Kept::Nothing).error)
}
