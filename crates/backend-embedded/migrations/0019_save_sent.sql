-- Which messages of the owner are copied to the folder for sent mail: off, api or all.
ALTER TABLE drop_mailboxes ADD COLUMN save_sent TEXT NOT NULL DEFAULT 'off';
