-- Whether the mailbox may hold mail of another owner: its account is being deleted, or it is new and has an address that
-- was deleted before. Such a mailbox gets no mail until it was emptied.
ALTER TABLE accounts ADD COLUMN closed BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX accounts_closed ON accounts (email) WHERE closed;

-- Postfix, virtual_mailbox_maps: SELECT email FROM mailapi_virtual_mailboxes WHERE email = '%s' AND receives
-- Dovecot, user database: the same for LMTP alone. Its administration has to find a closed mailbox to empty it.
-- Replaced and not made anew: what was granted on it stays.
CREATE OR REPLACE VIEW mailapi_virtual_mailboxes (email, domain, local_part, quota_bytes, active, receives) AS
SELECT email, domain, SUBSTR(email, 1, LENGTH(email) - LENGTH(domain) - 1), quota_bytes, active, NOT closed
FROM accounts;

-- Nobody logs in to a closed account.
CREATE OR REPLACE VIEW mailapi_credentials (email, password_hash, active) AS
SELECT email, password_hash, active AND NOT closed FROM accounts;

-- The network of the client that signed the domain up; null for domains that an admin added.
ALTER TABLE domains ADD COLUMN signed_up_from TEXT COLLATE "C";
CREATE INDEX domains_by_client ON domains (signed_up_from) WHERE NOT approved;
