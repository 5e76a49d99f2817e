-- Every selector that a domain has had, even after its key or the domain was deleted. Resolvers cache a record until
-- its TTL ends, so a selector is never reused for another key.
CREATE TABLE dkim_selectors (
    domain TEXT NOT NULL,
    selector TEXT NOT NULL,
    PRIMARY KEY (domain, selector)
) WITHOUT ROWID;
INSERT INTO dkim_selectors (domain, selector) SELECT domain, selector FROM dkim_keys;
CREATE TRIGGER dkim_keys_added AFTER INSERT ON dkim_keys BEGIN
    INSERT INTO dkim_selectors (domain, selector) VALUES (NEW.domain, NEW.selector);
END;
