-- The indexed mailboxes. The id names the index file. Ids are never reused, so that no file is mistaken for another.
-- last_searched: milliseconds since 1970. too_large: the mailbox exceeds the limit by itself, and has no file until the
-- entry is removed.
CREATE TABLE indexes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox TEXT NOT NULL UNIQUE,
    last_searched INTEGER NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    too_large INTEGER NOT NULL DEFAULT 0
);
