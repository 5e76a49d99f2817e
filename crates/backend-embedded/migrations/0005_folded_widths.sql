-- The index now folds fullwidth and halfwidth characters to the usual ones. Texts with such characters are indexed
-- again; until then a search reads the texts themselves.
INSERT OR IGNORE INTO drop_unindexed (message_id)
    SELECT message_id FROM drop_texts
    WHERE text GLOB '*[' || char(65281) || '-' || char(65439) || char(65504) || '-' || char(65518) || ']*';
DELETE FROM drop_fts WHERE rowid IN (SELECT message_id FROM drop_unindexed);
