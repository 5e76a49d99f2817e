-- Whether the message came from another server without a log-in. Forwarded mail from outside gets an envelope sender of
-- this server, whatever its sender's domain.
ALTER TABLE drop_queue ADD COLUMN from_outside INTEGER NOT NULL DEFAULT 0;
-- Whether the sender got a notice about a failed member of the alias. There is one for each alias.
ALTER TABLE drop_queue_recipients ADD COLUMN failure_notified INTEGER NOT NULL DEFAULT 0;
