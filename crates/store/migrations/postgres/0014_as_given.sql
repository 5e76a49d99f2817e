-- Addresses as they were given, if that is not the canonical form: local parts keep their case.

ALTER TABLE delivery_events ADD COLUMN sender_given TEXT COLLATE "C";
ALTER TABLE delivery_events ADD COLUMN recipient_given TEXT COLLATE "C";
ALTER TABLE delivery_events ADD COLUMN final_recipient_given TEXT COLLATE "C";
