-- Number of sent messages, so that a list gets its total without counting rows that it does not show. The scope is the
-- sending mailbox, or the empty text for all. Slots help concurrent writers; here there is one writer.

CREATE TABLE sent_counts (
    scope TEXT NOT NULL,
    slot BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    PRIMARY KEY (scope, slot)
) WITHOUT ROWID;

CREATE TRIGGER sent_messages_added AFTER INSERT ON sent_messages BEGIN
    INSERT INTO sent_counts (scope, slot, messages) VALUES ('', 0, 1)
        ON CONFLICT (scope, slot) DO UPDATE SET messages = messages + 1;
    INSERT INTO sent_counts (scope, slot, messages) SELECT NEW.mailbox, 0, 1 WHERE NEW.mailbox IS NOT NULL
        ON CONFLICT (scope, slot) DO UPDATE SET messages = messages + 1;
END;

-- No code removes sent messages yet. If some does, the counts follow.
CREATE TRIGGER sent_messages_removed AFTER DELETE ON sent_messages BEGIN
    UPDATE sent_counts SET messages = messages - 1 WHERE scope IN ('', OLD.mailbox) AND slot = 0;
END;

INSERT INTO sent_counts (scope, slot, messages) SELECT '', 0, COUNT(*) FROM sent_messages;
INSERT INTO sent_counts (scope, slot, messages)
SELECT mailbox, 0, COUNT(*) FROM sent_messages WHERE mailbox IS NOT NULL GROUP BY mailbox;
