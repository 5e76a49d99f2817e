-- Every selector that a domain has had, even after its key or the domain was deleted. Resolvers cache a record until
-- its TTL ends, so a selector is never reused for another key.
CREATE TABLE dkim_selectors (
    domain TEXT COLLATE "C" NOT NULL,
    selector TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (domain, selector)
);
CREATE FUNCTION mailapi_note_selector() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dkim_selectors (domain, selector) VALUES (NEW.domain, NEW.selector);
    RETURN NULL;
END
$$;
-- Create the trigger first: it waits for running writers, and blocks new ones until the rows below are stored.
CREATE TRIGGER dkim_keys_added AFTER INSERT ON dkim_keys
    FOR EACH ROW EXECUTE FUNCTION mailapi_note_selector();
INSERT INTO dkim_selectors (domain, selector) SELECT domain, selector FROM dkim_keys;
