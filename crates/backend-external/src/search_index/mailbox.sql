-- The index of one mailbox: the texts of its messages as read from the IMAP server. It can be rebuilt at any time.

CREATE TABLE about (mailbox TEXT NOT NULL);

-- The table messages contains each message of the folder with a UID up to covered, as of the last reading. Ids are
-- never reused.
CREATE TABLE folders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    uid_validity INTEGER NOT NULL,
    covered INTEGER NOT NULL,
    messages INTEGER NOT NULL
);

-- Dropped folders whose messages have not been removed yet.
CREATE TABLE gone_folders (id INTEGER PRIMARY KEY);

-- id is the folder's id times 2^32 plus the UID, here and in the tables below. arrived: seconds since 1970.
CREATE TABLE messages (id INTEGER PRIMARY KEY, arrived INTEGER NOT NULL, too_long INTEGER NOT NULL);
CREATE INDEX messages_too_long ON messages (id) WHERE too_long = 1;

-- The data of a hit, and the searched text in its original form. date: milliseconds since 1970.
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    date INTEGER NOT NULL,
    from_name TEXT NOT NULL,
    from_email TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL
);

-- Trigrams of the folded texts that are not too long.
CREATE VIRTUAL TABLE fts USING fts5 (words, content = '', contentless_delete = 1, tokenize = 'trigram case_sensitive 1');
