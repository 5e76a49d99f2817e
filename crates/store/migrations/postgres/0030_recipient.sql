-- The address that a received message was sent to, if known.
ALTER TABLE received_mail ADD COLUMN recipient TEXT COLLATE "C";
