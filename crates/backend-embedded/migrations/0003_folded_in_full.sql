-- What is the same letter to people is now the same to the index, however it was written. Texts that are not ASCII may be
-- in it otherwise, so they are put into it once more; until then they are searched as they lie. A text with a NUL, at
-- which length() ends, is one more and does no harm.
INSERT OR IGNORE INTO drop_unindexed (message_id)
    SELECT message_id FROM drop_texts WHERE length(CAST(text AS BLOB)) <> length(text);
DELETE FROM drop_fts WHERE rowid IN (SELECT message_id FROM drop_unindexed);
