-- Random octets that all nodes share, by what they are for; each is made once, by the first node that needs it.

CREATE TABLE secrets (
    name TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;
