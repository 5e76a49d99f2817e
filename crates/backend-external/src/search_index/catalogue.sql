-- The mailboxes that have an index, each in a file named by its number. Numbers are never used again, so that no file
-- is ever taken for another. last_searched: milliseconds since 1970. too_large: it did not fit by itself, and has no
-- file until it is forgotten.
CREATE TABLE indexes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox TEXT NOT NULL UNIQUE,
    last_searched INTEGER NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    too_large INTEGER NOT NULL DEFAULT 0
);
