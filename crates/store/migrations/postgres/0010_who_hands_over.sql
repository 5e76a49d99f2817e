-- The name of the data directory of the process that submits the message; null if it does not matter.
ALTER TABLE sent_messages ADD COLUMN node TEXT COLLATE "C";
