-- The index of one mailbox: what its messages say, as far as the IMAP server was read. All of it can be made again.

CREATE TABLE about (mailbox TEXT NOT NULL);

-- Every message with a UID up to covered, that the folder held when it was read last, is in messages. Numbers are never
-- used again.
CREATE TABLE folders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    uid_validity INTEGER NOT NULL,
    covered INTEGER NOT NULL,
    messages INTEGER NOT NULL
);

-- Folders that are gone, whose messages are still to be removed.
CREATE TABLE gone_folders (id INTEGER PRIMARY KEY);

-- id is the folder's number times 2^32 plus the UID, here and in the tables below. arrived: seconds since 1970.
CREATE TABLE messages (id INTEGER PRIMARY KEY, arrived INTEGER NOT NULL, too_long INTEGER NOT NULL);
CREATE INDEX messages_too_long ON messages (id) WHERE too_long = 1;

-- What a hit shows, and the text that is searched, as it was written. date: milliseconds since 1970.
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
