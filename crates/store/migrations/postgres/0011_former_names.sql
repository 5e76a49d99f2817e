-- When an account or a domain of this name was last deleted: the counts of that hour include mail of the deleted one.
CREATE TABLE former_names (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    gone_at BIGINT NOT NULL
);
