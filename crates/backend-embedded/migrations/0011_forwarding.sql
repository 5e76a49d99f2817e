-- The alias whose member the recipient is; null for a recipient that the sender named. Such mail gets an envelope sender
-- of this server.
ALTER TABLE drop_queue_recipients ADD COLUMN forwarded_by TEXT;
-- Whether a member of that alias has the message.
ALTER TABLE drop_queue_recipients ADD COLUMN alias_has_it INTEGER NOT NULL DEFAULT 0;
