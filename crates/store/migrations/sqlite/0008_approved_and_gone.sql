-- What was concluded until now, as facts of their own.

-- Since when a copy's mailbox is missing in the user database that is not ours; null while it is there.
ALTER TABLE accounts ADD COLUMN gone_since BIGINT;

-- Whether a domain was let in: by an admin, or because its mailboxes are of that user database. One that is switched off
-- stays approved; one that was signed up is not, until an admin says so.
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
