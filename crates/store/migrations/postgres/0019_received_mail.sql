-- Messages that mailboxes received, whose events wait until the mailbox was read. A row and its event replace each other
-- in one transaction.
CREATE TABLE received_mail (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    mailbox TEXT COLLATE "C" NOT NULL,
    queue_id TEXT COLLATE "C" NOT NULL,
    -- The Message-ID, if known.
    header_id TEXT COLLATE "C",
    -- Where the message is, if known.
    folder TEXT COLLATE "C",
    uid BIGINT
);

-- Rows that were numbered stay in the table while any snapshot may need them. The transaction that wrote a row shows
-- which rows are new: a reader skips those of transactions before the oldest one that was still running at its last
-- visit.
ALTER TABLE new_events ADD COLUMN writer BIGINT NOT NULL DEFAULT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT);
ALTER TABLE new_events DROP CONSTRAINT new_events_pkey;
ALTER TABLE new_events ADD PRIMARY KEY (writer, key);
