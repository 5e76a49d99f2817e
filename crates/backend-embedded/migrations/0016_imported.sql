-- Messages that came from another mail server or from files, by the key that their source gives them: a later import
-- skips them, also after they were removed here.
CREATE TABLE drop_imported (
    folder_id INTEGER NOT NULL REFERENCES drop_folders (id),
    source_key BLOB NOT NULL,
    PRIMARY KEY (folder_id, source_key)
) WITHOUT ROWID;

-- Not NULL while the folder has the UIDVALIDITY and the UIDs of a source: the value of uid_next after the last import.
-- A higher uid_next means that other messages have arrived since, with UIDs that the source may use as well.
ALTER TABLE drop_folders ADD COLUMN source_uid_next INTEGER;
