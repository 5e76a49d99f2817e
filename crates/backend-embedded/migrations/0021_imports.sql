-- Imports that run, or that were interrupted: how far each is in the folder that it fills.
CREATE TABLE drop_imports (
    mailbox_id INTEGER PRIMARY KEY,
    folder TEXT NOT NULL,
    done INTEGER NOT NULL,
    -- Messages of the folder in the source; NULL if the source does not say.
    total INTEGER,
    changed_at INTEGER NOT NULL
);
