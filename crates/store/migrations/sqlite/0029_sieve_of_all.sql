-- A script for each mailbox, empty without rules. Pigeonhole 2.4 refuses mail for a mailbox whose script is absent from
-- a dictionary. Version 2.3 skips the script.
DROP VIEW mailapi_rules;
CREATE VIEW mailapi_rules (email, version, script) AS
SELECT accounts.email, CASE WHEN sieve <> '' THEN sieve_version ELSE 'none' END, COALESCE(sieve, '')
FROM accounts LEFT JOIN mailbox_rules ON mailbox_rules.email = accounts.email;
