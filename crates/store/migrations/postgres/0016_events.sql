-- The log of events. Each is written in the transaction of its fact, without a number: a number taken before the commit
-- may become visible after a higher one. Numbered later, in batches, events become visible in the order of their
-- numbers.

CREATE TABLE new_events (
    -- Grows within each message, because writers lock the message's row first.
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    domain TEXT COLLATE "C",
    mailbox TEXT COLLATE "C",
    message_id TEXT COLLATE "C",
    subject_at BIGINT NOT NULL,
    body TEXT COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE events (
    -- The position in the log, without gaps. The newest row is never deleted, so no number is used twice.
    number BIGINT NOT NULL PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    -- Whose owners may read the event.
    domain TEXT COLLATE "C",
    mailbox TEXT COLLATE "C",
    message_id TEXT COLLATE "C",
    -- When the subject of the event began to exist. Later owners of the domain or the mailbox do not see the event.
    subject_at BIGINT NOT NULL,
    -- JSON, as all channels send it.
    body TEXT COLLATE "C" NOT NULL
);
CREATE INDEX events_by_id ON events (id, number);
CREATE INDEX events_by_message ON events (message_id, number) WHERE message_id IS NOT NULL;

-- Length of the composed message in bytes; null if it is not known.
ALTER TABLE sent_messages ADD COLUMN size BIGINT;
