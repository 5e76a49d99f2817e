-- The name of the data directory whose process hands the message over to the mail server; null where that does not matter.
ALTER TABLE sent_messages ADD COLUMN node TEXT;
