-- App passwords: passwords of single mail programs.

CREATE TABLE app_passwords (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL REFERENCES accounts (email) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- The first 16 bits of the value's SHA-256 in hexadecimal, by which a log-in finds the row.
    lookup_key TEXT NOT NULL,
    -- The salted hash of the value, with its scheme.
    hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    UNIQUE (email, lookup_key)
);
CREATE INDEX app_passwords_by_email ON app_passwords (email, created_at);

-- Dovecot, second password database: SELECT email AS user, password_hash AS password FROM mailapi_app_passwords
-- WHERE email = '%Lu' AND lookup_key = '%{sha256;truncate=16:password}'. It is at most one row. The password must be
-- typed as it was shown. Disabled and closed accounts have no rows. Grant SELECT on this view too.
CREATE VIEW mailapi_app_passwords (email, lookup_key, password_hash) AS
SELECT accounts.email, app_passwords.lookup_key, app_passwords.hash FROM app_passwords
JOIN accounts ON accounts.email = app_passwords.email AND accounts.active AND NOT accounts.closed;
