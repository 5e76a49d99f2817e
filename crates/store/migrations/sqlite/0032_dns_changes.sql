-- The name servers that take changes of domains' records (RFC 2136), and their keys (RFC 8945).
CREATE TABLE dns_providers (
    domain TEXT PRIMARY KEY REFERENCES domains (name) ON DELETE CASCADE,
    server TEXT NOT NULL,
    key_name TEXT NOT NULL,
    algorithm TEXT NOT NULL,
    secret BLOB NOT NULL
) WITHOUT ROWID;

-- Changes of records that were sent to name servers. Records are in the syntax of master files, one on each line.
CREATE TABLE dns_changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    domain TEXT NOT NULL REFERENCES domains (name) ON DELETE CASCADE,
    plan TEXT NOT NULL,
    zone TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    before_ttl BIGINT NOT NULL,
    before_records TEXT NOT NULL,
    after_ttl BIGINT NOT NULL,
    after_records TEXT NOT NULL,
    state TEXT NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE INDEX dns_changes_by_domain ON dns_changes (domain);
