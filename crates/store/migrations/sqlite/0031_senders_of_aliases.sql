-- Users who may send from an alias. The right ends with the user: a later one with the same address does not get it.
CREATE TABLE alias_senders (
    alias TEXT NOT NULL REFERENCES aliases (address) ON DELETE CASCADE,
    sender TEXT NOT NULL REFERENCES accounts (email) ON DELETE CASCADE,
    sender_given TEXT,
    place BIGINT NOT NULL,
    PRIMARY KEY (alias, sender)
) WITHOUT ROWID;
CREATE INDEX alias_senders_by_sender ON alias_senders (sender);

-- Postfix, smtpd_sender_login_maps: as before, and the senders of an active alias. Postfix looks up user+tag@domain as
-- user@domain, too.
DROP VIEW mailapi_sender_logins;
CREATE VIEW mailapi_sender_logins (sender, login) AS
SELECT accounts.email, accounts.email FROM accounts
JOIN domains ON domains.name = accounts.domain AND domains.active
WHERE accounts.active
UNION
SELECT owners.email, permissions.email FROM permissions
JOIN domains ON domains.name = permissions.domain AND domains.active
JOIN accounts AS holders ON holders.email = permissions.email AND holders.active
JOIN accounts AS owners ON owners.domain = permissions.domain
WHERE permissions.permission = 'send_mail'
UNION
SELECT '@' || permissions.domain, permissions.email FROM permissions
JOIN domains ON domains.name = permissions.domain AND domains.active
JOIN accounts AS holders ON holders.email = permissions.email AND holders.active
WHERE permissions.permission = 'send_mail'
UNION
SELECT aliases.address, alias_senders.sender FROM alias_senders
JOIN aliases ON aliases.address = alias_senders.alias AND aliases.active
JOIN domains ON domains.name = aliases.domain AND domains.active
JOIN accounts ON accounts.email = alias_senders.sender AND accounts.active;
