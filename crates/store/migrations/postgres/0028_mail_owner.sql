-- The data directory of the built-in mail server that has the mail of these accounts, and the server that runs on it. Only
-- accounts in PostgreSQL need it: otherwise the mail is in the same file.

CREATE TABLE mail_owner (
    -- There is at most one row.
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    -- The identifier of the data directory.
    node TEXT COLLATE "C" NOT NULL,
    -- Its machine and its path, for people.
    place TEXT COLLATE "C" NOT NULL,
    -- The start of the machine's system.
    machine TEXT COLLATE "C" NOT NULL,
    -- When the directory became the owner, and when the server started.
    since BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    -- The name of the running server; empty after it stopped.
    server TEXT COLLATE "C" NOT NULL,
    -- The database's time when that server was last seen, in milliseconds.
    seen_at BIGINT NOT NULL
);
