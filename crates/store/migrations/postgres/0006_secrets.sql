-- Random secrets that all nodes share, by purpose. The first node that needs one creates it.

CREATE TABLE secrets (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);
