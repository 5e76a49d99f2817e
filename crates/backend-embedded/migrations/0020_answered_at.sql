-- When each sender got the last answer. The limit of an hour counts it, also after the rules have changed.
ALTER TABLE drop_answered ADD COLUMN answered_at INTEGER NOT NULL DEFAULT 0;
