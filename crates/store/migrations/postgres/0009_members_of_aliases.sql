-- The addresses that a recipient expands to: the members of an alias, or the target of a forwarding.

-- The address to which delivery was attempted instead; null if it is the recipient itself.
ALTER TABLE delivery_events ADD COLUMN final_recipient TEXT COLLATE "C";

-- The newest bounce of one of these addresses, which is no bounce of the whole recipient; null if there is none.
ALTER TABLE sent_recipients ADD COLUMN partly_bounced_at BIGINT;
ALTER TABLE sent_recipients ADD COLUMN partly_bounced_response TEXT COLLATE "C";
