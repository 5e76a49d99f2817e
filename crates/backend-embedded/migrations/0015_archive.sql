-- Every mailbox has a folder for archived mail (RFC 6154), as new ones do. A folder of that name without a purpose
-- becomes it.
UPDATE drop_folders SET special_use = '\Archive'
    WHERE name = 'Archive' AND special_use IS NULL AND NOT EXISTS (
        SELECT 1 FROM drop_folders o WHERE o.mailbox_id = drop_folders.mailbox_id AND o.special_use = '\Archive');
-- Quarantined and removed mailboxes have names without an @.
INSERT INTO drop_subscriptions (mailbox_id, name)
    SELECT id, 'Archive' FROM drop_mailboxes m
    WHERE instr(address, '@') > 0
        AND NOT EXISTS (SELECT 1 FROM drop_folders WHERE mailbox_id = m.id AND special_use = '\Archive')
    ON CONFLICT DO NOTHING;
INSERT INTO drop_folders (mailbox_id, name, uid_validity, special_use)
    SELECT id, 'Archive', (SELECT last FROM drop_uid_validity) + ROW_NUMBER() OVER (ORDER BY id), '\Archive'
    FROM drop_mailboxes m
    WHERE instr(address, '@') > 0
        AND NOT EXISTS (SELECT 1 FROM drop_folders
            WHERE mailbox_id = m.id AND (special_use = '\Archive' OR name = 'Archive'));
UPDATE drop_uid_validity SET last = MAX(last, (SELECT COALESCE(MAX(uid_validity), 0) FROM drop_folders));
