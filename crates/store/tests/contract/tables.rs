//! Tests that both sets of migrations create equal tables: the same columns in the same order, keys,
//! references and indexes.

use std::collections::BTreeSet;

use crate::engines::Engine;

/// Describes SQLite's tables, one fact per line, in PostgreSQL's terms.
const SQLITE: &str = "
WITH tables AS (SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'),
columns AS (
    SELECT tables.name AS place, columns.cid AS position, columns.name AS name, columns.pk AS pk, tables.type AS kind,
        columns.\"notnull\" OR columns.pk > 0 AS required,
        CASE WHEN columns.type = 'BLOB' THEN 'bytea' WHEN columns.type = 'INTEGER' AND columns.pk > 0
            AND tables.name <> 'schema_migrations' THEN 'bigint' ELSE lower(columns.type) END AS type
    FROM tables JOIN pragma_table_xinfo(tables.name) AS columns
),
-- The numbers that the engine gives end every index by themselves.
numbered AS (SELECT place, name FROM columns WHERE pk = 1 AND name IN ('id', 'number')),
indexes AS (
    SELECT tables.name AS place, indexes.name AS name, indexes.origin AS origin, (
        SELECT group_concat(part.name, ', ') FROM (SELECT name FROM pragma_index_info(indexes.name) ORDER BY seqno) AS part
    ) || COALESCE((SELECT ', ' || numbered.name FROM numbered WHERE indexes.origin = 'c' AND place = tables.name
        AND NOT EXISTS (SELECT 1 FROM pragma_index_info(indexes.name) AS part WHERE part.name = numbered.name)), '') AS parts,
    COALESCE((SELECT substr(sql, instr(sql, ' WHERE ')) FROM sqlite_schema
        WHERE sqlite_schema.name = indexes.name AND instr(sql, ' WHERE ') > 0), '') AS condition
    FROM tables JOIN pragma_index_list(tables.name) AS indexes
)
SELECT 'view ' || place || ' ' || position || ' ' || name FROM columns WHERE kind = 'view'
UNION SELECT 'column ' || place || ' ' || position || ' ' || name || ' ' || type
    || CASE WHEN required THEN ' required' ELSE '' END FROM columns WHERE kind = 'table'
UNION SELECT 'index ' || place || ' ' || name || ' (' || parts || ')' || condition FROM indexes WHERE origin = 'c'
UNION SELECT 'unique ' || place || ' (' || parts || ')' FROM indexes WHERE origin = 'u'
UNION SELECT 'key ' || place || ' (' || parts || ')' FROM indexes WHERE origin = 'pk'
UNION SELECT 'key ' || place || ' (' || name || ')' FROM numbered
UNION SELECT 'reference ' || tables.name || ' (' || part.\"from\" || ') ' || part.\"table\" || ' (' || part.\"to\" || ') '
    || lower(part.on_delete) FROM tables JOIN pragma_foreign_key_list(tables.name) AS part";

/// Describes PostgreSQL's tables in the same form.
const POSTGRES: &str = "
WITH tables AS (
    SELECT oid, relname AS name, relkind FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')
    -- SQLite needs no table of events without numbers: its one writer numbers them.
    AND relname <> 'new_events'
),
columns AS (
    SELECT name AS place, relkind, attnum - 1 AS position, attname AS name, attnotnull AS required,
        format_type(atttypid, atttypmod) AS type
    FROM tables JOIN pg_attribute ON attrelid = tables.oid AND attnum > 0 AND NOT attisdropped
),
indexes AS (
    SELECT tables.name AS place, indexed.relname AS name, indisunique, indisprimary, (
        SELECT string_agg(pg_get_indexdef(indexrelid, part::INTEGER, TRUE), ', ' ORDER BY part)
        FROM generate_series(1, indnatts) AS part
    ) AS parts, COALESCE(' WHERE ' || replace(replace(pg_get_expr(indpred, indrelid), '(', ''), ')', ''), '') AS condition
    FROM pg_index JOIN tables ON tables.oid = indrelid JOIN pg_class AS indexed ON indexed.oid = indexrelid
)
SELECT format('view %s %s %s', place, position, name) FROM columns WHERE relkind = 'v'
UNION SELECT format('column %s %s %s %s%s', place, position, name, type, CASE WHEN required THEN ' required' END)
    FROM columns WHERE relkind = 'r'
UNION SELECT format('index %s %s (%s)%s', place, name, parts, condition) FROM indexes WHERE NOT indisunique
UNION SELECT format('unique %s (%s)', place, parts) FROM indexes WHERE indisunique AND NOT indisprimary
UNION SELECT format('key %s (%s)', place, parts) FROM indexes WHERE indisprimary
UNION SELECT format('reference %s (%s) %s (%s) %s', tables.name, here.attname, confrelid::regclass, there.attname,
    CASE confdeltype WHEN 'c' THEN 'cascade' WHEN 'a' THEN 'no action' ELSE confdeltype::TEXT END)
    FROM pg_constraint JOIN tables ON tables.oid = conrelid
    JOIN pg_attribute AS here ON here.attrelid = conrelid AND here.attnum = conkey[1]
    JOIN pg_attribute AS there ON there.attrelid = confrelid AND there.attnum = confkey[1]
    WHERE contype = 'f' AND cardinality(conkey) = 1";

fn facts(engine: &Engine, sql: &str) -> BTreeSet<String> {
    engine.sql(sql).lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sets_of_migrations_make_equal_tables() {
    let (sqlite, postgres) = (Engine::sqlite().await, Engine::postgres().await);
    let (here, there) = (facts(&sqlite, SQLITE), facts(&postgres, POSTGRES));
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
        one.difference(other).map(String::as_str).collect::<Vec<_>>().join("\n")
    };
    assert!(here == there, "only on SQLite:\n{}\nonly on PostgreSQL:\n{}", only(&here, &there), only(&there, &here));
    for kind in ["column", "view", "key", "unique", "index", "reference"] {
        assert!(here.iter().any(|fact| fact.starts_with(kind)), "the comparison found no {kind}");
    }
}

/// Both engines compare texts by their bytes. Otherwise an index might work on one engine only.
#[tokio::test(flavor = "multi_thread")]
async fn no_text_depends_on_the_language_of_the_database() {
    let sql = "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' \
               AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C' AND table_name <> 'schema_migrations' \
               AND table_name NOT LIKE 'mailapi\\_%'";
    assert_eq!(Engine::postgres().await.sql(sql), "");
}
