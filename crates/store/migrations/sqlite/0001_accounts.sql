-- Domains, accounts, tokens and permissions.
--
-- Times are milliseconds since 1970-01-01 UTC. Names and addresses are stored in their canonical form (lower case,
-- A-labels). A column `*_given` beside one contains the international form that was given, if it differs.
-- An index of a table with an integer key ends with that key implicitly.

CREATE TABLE domains (
    name TEXT NOT NULL PRIMARY KEY,
    name_given TEXT,
    active BOOLEAN NOT NULL,
    description TEXT,
    -- The form that is shown; no query searches by it.
    creator_email TEXT,
    created_at BIGINT NOT NULL,
    verified_at BIGINT
) WITHOUT ROWID;
CREATE INDEX domains_by_time ON domains (created_at, name);
CREATE INDEX domains_by_state ON domains (active, created_at, name);

CREATE TABLE dkim_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    domain TEXT NOT NULL REFERENCES domains (name) ON DELETE CASCADE,
    selector TEXT NOT NULL,
    algorithm TEXT NOT NULL,
    private_key BLOB NOT NULL,
    public_key TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Since when the key signs; null until its record is found in DNS. The newest signing key is the current one.
    signs_since BIGINT,
    UNIQUE (domain, selector)
);
CREATE INDEX dkim_keys_signing ON dkim_keys (domain, signs_since);

CREATE TABLE accounts (
    email TEXT NOT NULL PRIMARY KEY,
    email_given TEXT,
    domain TEXT NOT NULL REFERENCES domains (name),
    name TEXT NOT NULL,
    -- The name in lower case, for searching: the engines' own folding differs beyond ASCII.
    name_folded TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    active BOOLEAN NOT NULL,
    quota_bytes BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last_login_at BIGINT
) WITHOUT ROWID;
CREATE INDEX accounts_by_time ON accounts (created_at, email, active);
CREATE INDEX accounts_by_domain ON accounts (domain, created_at, email, active);

CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- No reference: tokens outlive a deleted account, so that requests with them get "expired".
    email TEXT,
    email_given TEXT,
    name TEXT NOT NULL,
    is_active BOOLEAN NOT NULL,
    is_session BOOLEAN NOT NULL,
    -- True after the account was deleted. The token is found by its hash, is in no list, and stays disabled.
    is_removed BOOLEAN NOT NULL,
    -- True after the token was revoked. Revocation is permanent.
    is_revoked BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    expires_at BIGINT
);
CREATE INDEX tokens_by_time ON tokens (is_removed, is_session, created_at);
CREATE INDEX tokens_by_email ON tokens (email, is_removed, is_session, created_at);
CREATE INDEX tokens_by_kind ON tokens (kind, is_session, is_removed);

CREATE TABLE permissions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL REFERENCES accounts (email) ON DELETE CASCADE,
    email_given TEXT,
    permission TEXT NOT NULL,
    domain TEXT NOT NULL REFERENCES domains (name) ON DELETE CASCADE,
    domain_given TEXT,
    granted_by TEXT NOT NULL,
    granted_at BIGINT NOT NULL,
    UNIQUE (email, domain, permission)
);
CREATE INDEX permissions_by_time ON permissions (granted_at);
CREATE INDEX permissions_by_email ON permissions (email, granted_at);
CREATE INDEX permissions_by_domain ON permissions (domain, granted_at);
