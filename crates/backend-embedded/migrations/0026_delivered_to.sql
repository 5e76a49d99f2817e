-- The address that a delivered message was sent to (RCPT). Its field Delivered-To is not among the stored bytes, which
-- mailboxes share: readers see it behind the Return-Path line, and drop_entries.size counts it.
ALTER TABLE drop_entries ADD COLUMN delivered_to TEXT;
-- The same according to the header of a message that a client appended or imported.
ALTER TABLE drop_entries ADD COLUMN recipient TEXT;
