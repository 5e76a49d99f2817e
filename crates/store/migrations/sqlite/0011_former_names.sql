-- When an account or a domain of this name was last deleted: what was counted in that hour is in part its own.
CREATE TABLE former_names (
    name TEXT NOT NULL PRIMARY KEY,
    gone_at BIGINT NOT NULL
) WITHOUT ROWID;
