-- Characters of full and half width are now the usual ones to the index. Texts that have any are put into it once more;
-- until then they are searched as they lie.
INSERT OR IGNORE INTO drop_unindexed (message_id)
    SELECT message_id FROM drop_texts
    WHERE text GLOB '*[' || char(65281) || '-' || char(65439) || char(65504) || '-' || char(65518) || ']*';
DELETE FROM drop_fts WHERE rowid IN (SELECT message_id FROM drop_unindexed);
