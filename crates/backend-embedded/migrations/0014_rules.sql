-- Rules of mailboxes, as the accounts have them.
CREATE TABLE drop_rules (
    mailbox_id INTEGER PRIMARY KEY,
    rules TEXT NOT NULL
);

-- Automatic answers that the delivery agent has not composed yet.
CREATE TABLE drop_answers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox_id INTEGER NOT NULL,
    mailbox TEXT NOT NULL,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    -- The Message-ID of the answered message; empty without one.
    in_reply_to TEXT NOT NULL
);
CREATE INDEX drop_answers_by_mailbox ON drop_answers (mailbox_id);

-- Senders that got an answer, until they may get another one (RFC 5230 section 4.2).
CREATE TABLE drop_answered (
    mailbox_id INTEGER NOT NULL,
    sender TEXT NOT NULL,
    until INTEGER NOT NULL,
    UNIQUE (mailbox_id, sender)
);
CREATE INDEX drop_answered_by_time ON drop_answered (until);
