-- Aliases, as the accounts have them. The members are addresses, one per line. The catch-all of a domain has the local
-- part *. Aliases of a domain whose mail is not delivered here have no effect.
CREATE TABLE drop_aliases (
    address TEXT NOT NULL PRIMARY KEY,
    members TEXT NOT NULL,
    active INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
