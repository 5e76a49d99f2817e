-- Copies that the rules of a mailbox sent to other servers in the last hour that had any.
CREATE TABLE drop_forwarded (
    mailbox_id INTEGER PRIMARY KEY,
    -- Hours since 1970.
    hour INTEGER NOT NULL,
    copies INTEGER NOT NULL
);
