-- The message store: domains, mailboxes, folders, messages, the queue and the delivery feed.
-- Times are milliseconds since the Unix epoch; sizes are bytes.

-- Domains whose mail is delivered here, as A-labels.
CREATE TABLE drop_domains (
    name TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE drop_mailboxes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL UNIQUE,
    quota_bytes INTEGER,
    used_bytes INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0
);

-- The highest UIDVALIDITY assigned so far. One row for the whole server, so that a folder or mailbox that is deleted
-- and created again within one second still gets a higher one.
CREATE TABLE drop_uid_validity (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    last INTEGER NOT NULL
);
INSERT INTO drop_uid_validity (id, last) VALUES (1, 0);

CREATE TABLE drop_folders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox_id INTEGER NOT NULL REFERENCES drop_mailboxes (id),
    name TEXT NOT NULL,
    uid_validity INTEGER NOT NULL,
    uid_next INTEGER NOT NULL DEFAULT 1,
    highest_modseq INTEGER NOT NULL DEFAULT 1,
    special_use TEXT,
    messages INTEGER NOT NULL DEFAULT 0,
    unread INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    UNIQUE (mailbox_id, name)
);

-- Subscriptions are names, not folders: one outlives the folder that it names (RFC 3501 section 6.3.6).
CREATE TABLE drop_subscriptions (
    mailbox_id INTEGER NOT NULL REFERENCES drop_mailboxes (id),
    name TEXT NOT NULL,
    PRIMARY KEY (mailbox_id, name)
) WITHOUT ROWID;

-- One row per message, shared by all folders and queue rows that refer to it. Maintenance deletes a row without
-- references. The digest (message structure) comes last, so that a listing never reads its overflow pages.
CREATE TABLE drop_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    refs INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL,
    return_path_len INTEGER NOT NULL,
    chunk_len INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    date INTEGER NOT NULL,
    attachments INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    from_name TEXT NOT NULL,
    from_email TEXT NOT NULL,
    subject TEXT NOT NULL,
    to_list TEXT NOT NULL,
    digest BLOB NOT NULL
);
CREATE INDEX drop_messages_unreferenced ON drop_messages (id) WHERE refs = 0;

-- The bytes of messages in chunks of drop_messages.chunk_len. The key is message * 65536 + chunk: consecutive chunks
-- are adjacent, and no second index is needed.
CREATE TABLE drop_chunks (
    key INTEGER PRIMARY KEY,
    octets BLOB NOT NULL
);

-- A message in a folder. The size is repeated from the message, so that counters and IMAP need no join.
CREATE TABLE drop_entries (
    folder_id INTEGER NOT NULL REFERENCES drop_folders (id),
    uid INTEGER NOT NULL,
    message_id INTEGER NOT NULL REFERENCES drop_messages (id),
    flags INTEGER NOT NULL,
    keywords TEXT NOT NULL,
    internal_date INTEGER NOT NULL,
    modseq INTEGER NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (folder_id, uid)
) WITHOUT ROWID;
CREATE INDEX drop_entries_by_message ON drop_entries (message_id, folder_id);
CREATE INDEX drop_entries_by_modseq ON drop_entries (folder_id, modseq);

-- Only these triggers change the counters of entries. Flag bit 1 is \Seen.
CREATE TRIGGER drop_entries_added AFTER INSERT ON drop_entries BEGIN
    UPDATE drop_messages SET refs = refs + 1 WHERE id = NEW.message_id;
    UPDATE drop_folders
        SET messages = messages + 1, unread = unread + ((NEW.flags & 1) = 0), size = size + NEW.size
        WHERE id = NEW.folder_id;
    UPDATE drop_mailboxes SET messages = messages + 1, used_bytes = used_bytes + NEW.size
        WHERE id = (SELECT mailbox_id FROM drop_folders WHERE id = NEW.folder_id);
END;
CREATE TRIGGER drop_entries_removed AFTER DELETE ON drop_entries BEGIN
    UPDATE drop_messages SET refs = refs - 1 WHERE id = OLD.message_id;
    UPDATE drop_folders
        SET messages = messages - 1, unread = unread - ((OLD.flags & 1) = 0), size = size - OLD.size
        WHERE id = OLD.folder_id;
    UPDATE drop_mailboxes SET messages = messages - 1, used_bytes = used_bytes - OLD.size
        WHERE id = (SELECT mailbox_id FROM drop_folders WHERE id = OLD.folder_id);
END;
CREATE TRIGGER drop_entries_flagged AFTER UPDATE OF flags ON drop_entries
WHEN (NEW.flags & 1) <> (OLD.flags & 1) BEGIN
    UPDATE drop_folders SET unread = unread + ((NEW.flags & 1) = 0) - ((OLD.flags & 1) = 0) WHERE id = NEW.folder_id;
END;

-- The searchable text of a message: decoded, not folded.
CREATE TABLE drop_texts (
    message_id INTEGER PRIMARY KEY REFERENCES drop_messages (id),
    text TEXT NOT NULL
);

-- Messages without an index entry; a search reads each of their texts. too_long: the text is too long for the index.
CREATE TABLE drop_unindexed (
    message_id INTEGER PRIMARY KEY REFERENCES drop_messages (id),
    too_long INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX drop_unindexed_waiting ON drop_unindexed (message_id) WHERE too_long = 0;

-- Trigrams of the folded text. owners holds the ids of the mailboxes as <7>, so that a search of one mailbox can skip
-- the mail of all others.
CREATE VIRTUAL TABLE drop_fts USING fts5 (
    owners, words, content = '', contentless_delete = 1, tokenize = 'trigram case_sensitive 1'
);

-- A segment of the index is rewritten when half of it is deleted, not a tenth as by default: emptying a mailbox would
-- otherwise rewrite it many times.
INSERT INTO drop_fts (drop_fts, rank) VALUES ('deletemerge', 50);

-- Messages accepted from the API: a restart after a crash looks them up, and bounces are verified against them.
-- left_for holds the recipients on other servers, one per line, without those that failed or bounced. A recipient that
-- is still in the queue has not been transmitted yet.
CREATE TABLE drop_accepted (
    message_uuid TEXT NOT NULL PRIMARY KEY,
    queue_id TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    sender TEXT,
    left_for TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX drop_accepted_by_time ON drop_accepted (accepted_at);
CREATE TABLE drop_accepted_refusals (
    message_uuid TEXT NOT NULL REFERENCES drop_accepted (message_uuid) ON DELETE CASCADE,
    recipient TEXT NOT NULL,
    code INTEGER NOT NULL,
    enhanced TEXT,
    text TEXT NOT NULL,
    PRIMARY KEY (message_uuid, recipient)
) WITHOUT ROWID;

-- A message on its way to other servers.
CREATE TABLE drop_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id TEXT NOT NULL UNIQUE,
    message_id INTEGER NOT NULL REFERENCES drop_messages (id),
    sender TEXT,
    message_uuid TEXT,
    accepted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ret TEXT,
    envid TEXT
);
CREATE INDEX drop_queue_by_message ON drop_queue (message_id);
CREATE TRIGGER drop_queue_added AFTER INSERT ON drop_queue BEGIN
    UPDATE drop_messages SET refs = refs + 1 WHERE id = NEW.message_id;
END;
CREATE TRIGGER drop_queue_removed AFTER DELETE ON drop_queue BEGIN
    UPDATE drop_messages SET refs = refs - 1 WHERE id = OLD.message_id;
END;

-- Unfinished recipients; a finished one is deleted. delivered: the message is in a local mailbox, and only the success
-- notice that its sender requested is still due.
CREATE TABLE drop_queue_recipients (
    queue INTEGER NOT NULL REFERENCES drop_queue (id),
    position INTEGER NOT NULL,
    recipient TEXT NOT NULL,
    delivered INTEGER NOT NULL DEFAULT 0,
    notify TEXT,
    orcpt TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER NOT NULL,
    leased_until INTEGER NOT NULL DEFAULT 0,
    delay_notified INTEGER NOT NULL DEFAULT 0,
    last_code INTEGER,
    last_enhanced TEXT,
    last_text TEXT,
    PRIMARY KEY (queue, position)
) WITHOUT ROWID;
CREATE INDEX drop_queue_recipients_due ON drop_queue_recipients (next_attempt_at);
CREATE INDEX drop_queue_recipients_leased ON drop_queue_recipients (leased_until) WHERE leased_until > 0;
-- Deleting the last recipient removes the message from the queue.
CREATE TRIGGER drop_queue_recipients_removed AFTER DELETE ON drop_queue_recipients
WHEN NOT EXISTS (SELECT 1 FROM drop_queue_recipients WHERE queue = OLD.queue) BEGIN
    DELETE FROM drop_queue WHERE id = OLD.queue;
END;

-- The delivery feed; its ids are never reused.
CREATE TABLE drop_feed (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    message_uuid TEXT,
    queue_id TEXT NOT NULL,
    sender TEXT,
    recipient TEXT NOT NULL,
    outcome TEXT NOT NULL,
    returned_mail INTEGER NOT NULL,
    dsn TEXT,
    response TEXT NOT NULL,
    relay TEXT,
    delay_ms INTEGER NOT NULL
);
