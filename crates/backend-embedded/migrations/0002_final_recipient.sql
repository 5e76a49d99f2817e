-- The address that was tried instead of the recipient; null if it is the recipient itself.
ALTER TABLE drop_feed ADD COLUMN final_recipient TEXT;
