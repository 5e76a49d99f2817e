-- Results of the checks of a received message, as JSON. Only if the log of events is in another database.
ALTER TABLE drop_feed ADD COLUMN authentication TEXT;

-- Mail that a mail program submitted: the mailbox that logged in, and the author. Both null for all other mail.
ALTER TABLE drop_queue ADD COLUMN submitter TEXT;
ALTER TABLE drop_queue ADD COLUMN author TEXT;
ALTER TABLE drop_feed ADD COLUMN submitter TEXT;
ALTER TABLE drop_feed ADD COLUMN author TEXT;
-- When such a message was accepted, and the number of earlier attempts for the recipient.
ALTER TABLE drop_feed ADD COLUMN accepted_at INTEGER;
ALTER TABLE drop_feed ADD COLUMN attempts INTEGER;
-- A row with the outcome 'accepted' reports the acceptance: the recipients, one per line, and the size. Only if the log
-- of events is in another database.
ALTER TABLE drop_feed ADD COLUMN recipients TEXT;
ALTER TABLE drop_feed ADD COLUMN size INTEGER;
