-- The first UID that no session has received as \Recent (RFC 3501 section 2.3.2). Existing mail is not recent.
ALTER TABLE drop_folders ADD COLUMN first_recent INTEGER NOT NULL DEFAULT 1;
UPDATE drop_folders SET first_recent = uid_next;

-- The header lines of older texts name only the first of several authors. In the background, the texts of messages
-- above `next` and up to `last` are compared with their headers again.
CREATE TABLE drop_reread (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    next INTEGER NOT NULL,
    last INTEGER NOT NULL
);
INSERT INTO drop_reread (id, next, last)
    SELECT 1, 0, newest FROM (SELECT MAX(message_id) AS newest FROM drop_texts) WHERE newest IS NOT NULL;

-- Deleted folders, and those of deleted mailboxes, belong to this mailbox until their entries are removed, a few at a
-- time. Its name is not an address, so no look-up finds it.
INSERT INTO drop_mailboxes (id, address) VALUES (0, 'removed');
