-- Removed UIDs, so that a client that comes back learns what is gone (RFC 7162 section 3.2.5). Each row is a range that
-- one transaction removed.
CREATE TABLE drop_vanished (
    folder_id INTEGER NOT NULL REFERENCES drop_folders (id),
    modseq INTEGER NOT NULL,
    first_uid INTEGER NOT NULL,
    last_uid INTEGER NOT NULL,
    PRIMARY KEY (folder_id, modseq, first_uid)
) WITHOUT ROWID;
-- The rows are complete for changes after this modification sequence.
ALTER TABLE drop_folders ADD COLUMN vanished_after INTEGER NOT NULL DEFAULT 0;
UPDATE drop_folders SET vanished_after = highest_modseq;
