-- Numbers of the last hour that had any, by what is counted. One table for all limits of an hour.
CREATE TABLE drop_hourly (
    name TEXT PRIMARY KEY,
    -- Hours since 1970.
    hour INTEGER NOT NULL,
    number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX drop_hourly_by_hour ON drop_hourly (hour);
INSERT INTO drop_hourly (name, hour, number)
    SELECT 'copies ' || m.address, f.hour, f.copies FROM drop_forwarded f JOIN drop_mailboxes m ON m.id = f.mailbox_id;
DROP TABLE drop_forwarded;

-- The last messages that aliases or rules brought to further addresses, and the number of these. The oldest row leaves
-- when there are too many.
CREATE TABLE drop_expanded (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    identity BLOB NOT NULL UNIQUE,
    first_at INTEGER NOT NULL,
    addresses INTEGER NOT NULL
);

-- The aliases and mailboxes through which the message reached the recipient, one a line; null if only the alias that the
-- sender named.
ALTER TABLE drop_queue_recipients ADD COLUMN through TEXT;

-- For the answers to one sender from all mailboxes.
CREATE INDEX drop_answered_by_sender ON drop_answered (sender, answered_at);
