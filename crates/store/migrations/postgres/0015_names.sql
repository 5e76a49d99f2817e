-- Whether the mailbox may contain mail of another owner: its account is being deleted, or its address belonged to a
-- deleted account. Such a mailbox gets no mail until it has been emptied.
ALTER TABLE accounts ADD COLUMN closed BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX accounts_closed ON accounts (email) WHERE closed;

-- Postfix, virtual_mailbox_maps: SELECT email FROM mailapi_virtual_mailboxes WHERE email = '%s' AND receives
-- Dovecot, user database: the same condition, but only for LMTP: its administration must find a closed mailbox to empty
-- it.
-- Replaced, not dropped and created again: grants on the view remain.
CREATE OR REPLACE VIEW mailapi_virtual_mailboxes (email, domain, local_part, quota_bytes, active, receives) AS
SELECT email, domain, SUBSTR(email, 1, LENGTH(email) - LENGTH(domain) - 1), quota_bytes, active, NOT closed
FROM accounts;

-- A closed account does not permit log-ins.
CREATE OR REPLACE VIEW mailapi_credentials (email, password_hash, active) AS
SELECT email, password_hash, active AND NOT closed FROM accounts;

-- The network of the client that signed the domain up; null for domains that an admin added.
ALTER TABLE domains ADD COLUMN signed_up_from TEXT COLLATE "C";
CREATE INDEX domains_by_client ON domains (signed_up_from) WHERE NOT approved;
