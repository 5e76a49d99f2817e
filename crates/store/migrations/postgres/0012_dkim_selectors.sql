-- Every selector that a domain has had, whatever became of its key or of the domain: resolvers remember a record for as
-- long as its owner said, so none is given to another key.
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
-- The trigger comes first: it waits for those who write, and keeps them out until the rows below are stored.
CREATE TRIGGER dkim_keys_added AFTER INSERT ON dkim_keys
    FOR EACH ROW EXECUTE FUNCTION mailapi_note_selector();
INSERT INTO dkim_selectors (domain, selector) SELECT domain, selector FROM dkim_keys;
