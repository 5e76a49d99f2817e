-- Random secrets that all nodes share, by purpose. The first node that needs one creates it.

CREATE TABLE secrets (
    name TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;
