-- Greylisting: clients with a sender and a recipient that this server has seen.

CREATE TABLE greylist (
    -- Hash of the client's network, the sender and the recipient. No address can be read from it.
    key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    -- Whether the client came back after the delay.
    passed BOOLEAN NOT NULL
);
CREATE INDEX greylist_by_last_seen ON greylist (passed, last_seen);
