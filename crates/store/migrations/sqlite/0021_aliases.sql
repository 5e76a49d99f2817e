-- Aliases: addresses whose mail goes to other addresses.

CREATE TABLE aliases (
    -- The local part * stands for every address of the domain that is neither a mailbox nor an alias.
    address TEXT NOT NULL PRIMARY KEY,
    address_given TEXT,
    -- The key of Postfix's look-ups: the address, or @domain for the local part *.
    lookup TEXT NOT NULL UNIQUE,
    domain TEXT NOT NULL REFERENCES domains (name) ON DELETE CASCADE,
    active BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX aliases_by_time ON aliases (created_at, address);
CREATE INDEX aliases_by_domain ON aliases (domain, created_at, address);

CREATE TABLE alias_members (
    alias TEXT NOT NULL REFERENCES aliases (address) ON DELETE CASCADE,
    member TEXT NOT NULL,
    member_given TEXT,
    place BIGINT NOT NULL,
    PRIMARY KEY (alias, member)
) WITHOUT ROWID;

-- Postfix, virtual_alias_maps: SELECT member FROM mailapi_virtual_aliases WHERE address = '%s'
-- Postfix looks up user+tag@domain, user@domain and @domain, and expands what it finds again. In a domain with a
-- catch-all, each mailbox stands for itself, so that @domain does not take its mail. An inactive alias does not exist for
-- Postfix. Domains that wait for approval have no aliases: their mail may belong to another server.
CREATE VIEW mailapi_virtual_aliases (address, member) AS
SELECT aliases.lookup, alias_members.member FROM aliases
JOIN domains ON domains.name = aliases.domain AND domains.approved
JOIN alias_members ON alias_members.alias = aliases.address
WHERE aliases.active
UNION ALL
SELECT accounts.email, accounts.email FROM accounts
WHERE NOT accounts.closed
AND EXISTS (SELECT 1 FROM aliases WHERE aliases.lookup = '@' || accounts.domain AND aliases.active);
