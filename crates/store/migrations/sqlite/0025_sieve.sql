-- Rules of mailboxes as Sieve scripts, for mail servers that apply Sieve.

-- The script, empty if no rule is enabled; NULL until the server has written it.
ALTER TABLE mailbox_rules ADD COLUMN sieve TEXT;
-- Another one for each script: the mail server compiles a script again if its version is another.
ALTER TABLE mailbox_rules ADD COLUMN sieve_version TEXT;

-- Dovecot, dictionary of Sieve scripts: `priv/sieve/name/rules` is the version, `priv/sieve/data/<version>` the script.
-- Grant SELECT on this view too.
CREATE VIEW mailapi_rules (email, version, script) AS
SELECT email, sieve_version, sieve FROM mailbox_rules WHERE sieve <> '';
