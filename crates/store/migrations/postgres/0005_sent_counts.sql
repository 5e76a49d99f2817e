-- Number of sent messages, so that a list gets its total without counting rows that it does not show. The scope is the
-- sending mailbox, or the empty text for all. A count is the sum of its slots: each connection adds to its own slot,
-- because connections would otherwise wait for each other's commits.

CREATE TABLE sent_counts (
    scope TEXT COLLATE "C" NOT NULL,
    slot BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    PRIMARY KEY (scope, slot)
);

CREATE FUNCTION mailapi_count_sent() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    own_slot CONSTANT BIGINT := pg_backend_pid() % 64;
    mailbox CONSTANT TEXT := CASE TG_OP WHEN 'INSERT' THEN NEW.mailbox ELSE OLD.mailbox END;
    change CONSTANT BIGINT := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    INSERT INTO sent_counts AS counts (scope, slot, messages) VALUES ('', own_slot, change)
        ON CONFLICT (scope, slot) DO UPDATE SET messages = counts.messages + EXCLUDED.messages;
    IF mailbox IS NOT NULL THEN
        INSERT INTO sent_counts AS counts (scope, slot, messages) VALUES (mailbox, own_slot, change)
            ON CONFLICT (scope, slot) DO UPDATE SET messages = counts.messages + EXCLUDED.messages;
    END IF;
    RETURN NULL;
END
$$;
-- Create the trigger first: it waits for running writers, and blocks new ones until the count below is stored.
CREATE TRIGGER sent_messages_counted AFTER INSERT OR DELETE ON sent_messages
    FOR EACH ROW EXECUTE FUNCTION mailapi_count_sent();

INSERT INTO sent_counts (scope, slot, messages) SELECT '', 0, COUNT(*) FROM sent_messages;
INSERT INTO sent_counts (scope, slot, messages)
SELECT mailbox, 0, COUNT(*) FROM sent_messages WHERE mailbox IS NOT NULL GROUP BY mailbox;
