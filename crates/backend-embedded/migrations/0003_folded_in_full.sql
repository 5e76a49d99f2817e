-- The index now folds equivalent characters to one form. Texts that are not ASCII may be indexed in another form, so
-- they are indexed again; until then a search reads the texts themselves. A text with a NUL, at which length() ends, is
-- also selected; that does no harm.
INSERT OR IGNORE INTO drop_unindexed (message_id)
    SELECT message_id FROM drop_texts WHERE length(CAST(text AS BLOB)) <> length(text);
DELETE FROM drop_fts WHERE rowid IN (SELECT message_id FROM drop_unindexed);
