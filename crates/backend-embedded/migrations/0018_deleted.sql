-- Finds the messages with \Deleted (flag bit 8), for EXPUNGE and STATUS (DELETED), without reading the whole folder.
CREATE INDEX drop_entries_deleted ON drop_entries (folder_id, uid) WHERE flags & 8 <> 0;
