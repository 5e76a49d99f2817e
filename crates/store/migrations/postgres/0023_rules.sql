-- Rules of mailboxes: what happens to messages that arrive. One line for each rule, condition and action.

CREATE TABLE mailbox_rules (
    email TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES accounts (email) ON DELETE CASCADE,
    rules TEXT COLLATE "C" NOT NULL
);
