//! The schema of a file that comes from elsewhere, held against what the migrations make.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::Connection;

use super::migrate::found;
use super::open;
use crate::StoreError;
use crate::migration::{RECORD, Schema, refuse_newer};

/// A table, index, view or trigger of a schema.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SchemaObject {
    kind: String,
    name: String,
    sql: String,
}

impl SchemaObject {
    /// Returns whether statements run this object by themselves: triggers, and the views that this program reads.
    fn is_code(&self, wanted: &HashSet<Self>) -> bool {
        match &*self.kind {
            "trigger" => true,
            "view" => wanted.iter().any(|object| object.kind == "view" && object.name == self.name),
            _ => false,
        }
    }

    fn drop_from(&self, connection: &Connection) -> Result<(), StoreError> {
        let name = self.name.replace('"', "\"\"");
        // The triggers of a view are gone with it.
        Ok(connection.execute_batch(&format!("DROP {} IF EXISTS \"{name}\"", self.kind))?)
    }
}

/// Makes the triggers and views of a file those that the migrations make. Returns what it removed, such as `trigger copy`.
///
/// The writer of the file may have put a trigger into it, which would act in every later statement. Tables, indexes and
/// views that no migration makes stay, because nothing runs them. No other process may use the file, and its path
/// must not contain symbolic links.
///
/// Blocks the calling thread.
///
/// # Errors
/// [`StoreError::NewerSchema`] if a newer version made the file. [`StoreError::Unexpected`] if a table is missing, or if the
/// schema is damaged.
pub fn remove_foreign_code(file: &Path, schemas: &[Schema]) -> Result<Vec<String>, StoreError> {
    let mut connection = open::existing(file)?;
    open::distrust_schema(&connection)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(RECORD)?;
    let wanted = objects(&made_by_migrations(&transaction, schemas)?)?;
    let present = objects(&transaction)?;
    if let Some(missing) = wanted.iter().find(|object| object.kind == "table" && !has_table(&present, &object.name)) {
        return Err(StoreError::unexpected(format!("the file has no table {}", missing.name)));
    }
    let foreign = present.iter().filter(|object| object.is_code(&wanted) && !wanted.contains(object));
    let mut removed = Vec::new();
    for object in foreign {
        object.drop_from(&transaction)?;
        removed.push(format!("{} {}", object.kind, object.name));
    }
    removed.sort_unstable();
    let left = objects(&transaction)?;
    for object in wanted.iter().filter(|object| object.is_code(&wanted) && !left.contains(object)) {
        transaction.execute_batch(&object.sql)?;
    }
    transaction.commit()?;
    Ok(removed)
}

fn has_table(present: &HashSet<SchemaObject>, name: &str) -> bool {
    present.iter().any(|object| object.kind == "table" && object.name == name)
}

/// Returns an empty database, with the migrations that the file has had.
fn made_by_migrations(file: &Connection, schemas: &[Schema]) -> Result<Connection, StoreError> {
    let made = Connection::open_in_memory()?;
    for schema in schemas {
        let version = found(file, schema.component)?;
        refuse_newer(schema.component, version, schema.migrations)?;
        for migration in schema.migrations.iter().filter(|migration| Some(migration.version) <= version) {
            made.execute_batch(migration.sql)?;
        }
    }
    Ok(made)
}

/// Returns the objects of a schema. SQLite itself refuses a text of another kind than its row names.
fn objects(connection: &Connection) -> Result<HashSet<SchemaObject>, StoreError> {
    let sql = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL";
    let mut statement = connection.prepare(sql)?;
    let rows =
        statement.query_map([], |row| Ok(SchemaObject { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
