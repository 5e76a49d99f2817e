-- The first UID that no session has been given as \Recent (RFC 3501 section 2.3.2). Mail that was here before is not
-- recent.
ALTER TABLE drop_folders ADD COLUMN first_recent INTEGER NOT NULL DEFAULT 1;
UPDATE drop_folders SET first_recent = uid_next;
