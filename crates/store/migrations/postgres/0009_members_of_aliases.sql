-- What is known of the addresses that stand behind a recipient: the members of an alias, the target of a forwarding.

-- The address that was tried in place of the recipient; null where it is the recipient itself.
ALTER TABLE delivery_events ADD COLUMN final_recipient TEXT COLLATE "C";

-- The newest bounce of one of these addresses, which is none of the recipient as a whole; null where none is known.
ALTER TABLE sent_recipients ADD COLUMN partly_bounced_at BIGINT;
ALTER TABLE sent_recipients ADD COLUMN partly_bounced_response TEXT COLLATE "C";
