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
