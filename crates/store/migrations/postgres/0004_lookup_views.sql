-- Views for mail servers. Their names and columns stay the same even if the tables change. Postfix (pgsql_table(5),
-- sqlite_table(5)) and Dovecot (its SQL driver) should read only them. Grant their database user no more:
--   GRANT SELECT ON mailapi_virtual_domains, mailapi_virtual_mailboxes, mailapi_credentials, mailapi_sender_logins TO …
-- Addresses and names are in lower case and A-labels.

-- Postfix, virtual_mailbox_domains: SELECT domain FROM mailapi_virtual_domains WHERE domain = '%s'
-- The view omits domains that wait for approval: the person who signed one up may have no right to its mail. It
-- contains inactive domains, which cannot send; add AND active to reject mail for them too.
CREATE VIEW mailapi_virtual_domains (domain, active) AS
SELECT name, active FROM domains
WHERE active OR EXISTS (SELECT 1 FROM dkim_keys WHERE dkim_keys.domain = domains.name);

-- Postfix, virtual_mailbox_maps: SELECT email FROM mailapi_virtual_mailboxes WHERE email = '%s' AND active
-- Dovecot, user database: the same row contains the quota in bytes; null means no limit.
CREATE VIEW mailapi_virtual_mailboxes (email, domain, local_part, quota_bytes, active) AS
SELECT email, domain, SUBSTR(email, 1, LENGTH(email) - LENGTH(domain) - 1), quota_bytes, active FROM accounts;

-- Dovecot, password database: SELECT email AS user, password_hash AS password FROM mailapi_credentials
-- WHERE email = '%u' AND active. The hash begins with its scheme, such as {SHA512-CRYPT}.
CREATE VIEW mailapi_credentials (email, password_hash, active) AS
SELECT email, password_hash, active FROM accounts;

-- Postfix, smtpd_sender_login_maps: SELECT login FROM mailapi_sender_logins WHERE sender = '%s'
-- A mailbox may send as itself, and with send_mail on a domain as every mailbox of the domain. Postfix looks up the
-- address and, if it finds nothing, @domain; so each address lists all its permitted senders. An inactive domain has no
-- senders.
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
WHERE permissions.permission = 'send_mail';
