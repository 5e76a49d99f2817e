-- When the message was added to its folder (SAVEDATE, RFC 8514). NULL for messages from before: they have the time of
-- receipt.
ALTER TABLE drop_entries ADD COLUMN saved_at INTEGER;
