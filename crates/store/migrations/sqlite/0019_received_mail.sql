-- Messages that mailboxes received, whose events wait until the mailbox was read. A row and its event replace each other
-- in one transaction.
CREATE TABLE received_mail (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    mailbox TEXT NOT NULL,
    queue_id TEXT NOT NULL,
    -- The Message-ID, if known.
    header_id TEXT,
    -- Where the message is, if known.
    folder TEXT,
    uid BIGINT
);
