-- Random octets that all nodes share, by what they are for; each is made once, by the first node that needs it.

CREATE TABLE secrets (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);
