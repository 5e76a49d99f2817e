-- The address that was tried in place of the recipient; null where it is the recipient itself.
ALTER TABLE drop_feed ADD COLUMN final_recipient TEXT;
