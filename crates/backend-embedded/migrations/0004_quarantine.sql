-- Mailboxes with mail but without an account. Each keeps its row in drop_mailboxes, under a name that is no address.
CREATE TABLE drop_quarantine (
    mailbox_id INTEGER PRIMARY KEY REFERENCES drop_mailboxes (id),
    address TEXT NOT NULL,
    since INTEGER NOT NULL
);
