-- Facts that queries derived until now, in columns of their own.

-- Since when a copy's mailbox is missing in the external user database; null while it exists.
ALTER TABLE accounts ADD COLUMN gone_since BIGINT;

-- Whether a domain is approved: by an admin, or because its mailboxes are in the external user database. An inactive
-- domain stays approved. A domain that was signed up is not approved until an admin approves it.
ALTER TABLE domains ADD COLUMN approved BOOLEAN NOT NULL DEFAULT FALSE;
DROP INDEX domains_by_state;
CREATE INDEX domains_by_state ON domains (approved, created_at, name);

UPDATE domains SET approved = TRUE
WHERE active
   OR EXISTS (SELECT 1 FROM dkim_keys WHERE dkim_keys.domain = domains.name)
   OR EXISTS (SELECT 1 FROM accounts WHERE accounts.domain = domains.name AND accounts.in_directory);

DROP VIEW mailapi_virtual_domains;
CREATE VIEW mailapi_virtual_domains (domain, active) AS
SELECT name, active FROM domains WHERE approved;
