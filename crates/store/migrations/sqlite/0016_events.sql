-- The log of events. Each is written in the transaction of its fact.

CREATE TABLE events (
    -- The position in the log, without gaps. The newest row is never deleted, so no number is used twice.
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    at BIGINT NOT NULL,
    -- Whose owners may read the event.
    domain TEXT,
    mailbox TEXT,
    message_id TEXT,
    -- When the subject of the event began to exist. Later owners of the domain or the mailbox do not see the event.
    subject_at BIGINT NOT NULL,
    -- JSON, as all channels send it.
    body TEXT NOT NULL
);
CREATE INDEX events_by_id ON events (id);
CREATE INDEX events_by_message ON events (message_id) WHERE message_id IS NOT NULL;

-- Length of the composed message in bytes; null if it is not known.
ALTER TABLE sent_messages ADD COLUMN size BIGINT;
