-- Which mailbox received a message, its folder, and its UID. Only if the log of events is in another database.
ALTER TABLE drop_feed ADD COLUMN mailbox TEXT;
ALTER TABLE drop_feed ADD COLUMN folder TEXT;
ALTER TABLE drop_feed ADD COLUMN uid INTEGER;

-- When the next attempt is due, after a deferred one.
ALTER TABLE drop_feed ADD COLUMN next_attempt_at INTEGER;
