-- The MTA-STS policies of other domains. A restart must not forget them: without an answer of DNS or of the policy's
-- host, the last policy remains in force until it expires (RFC 8461 section 5.1).
CREATE TABLE drop_sts_policies (
    domain TEXT PRIMARY KEY,
    -- The identifier in DNS at the time of the fetch.
    record_id TEXT NOT NULL,
    policy TEXT NOT NULL,
    refresh_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
