-- Webhooks: receivers of events by HTTP.

CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    url TEXT NOT NULL,
    -- Event types and groups of types, separated by spaces.
    types TEXT NOT NULL,
    domain TEXT REFERENCES domains (name) ON DELETE CASCADE,
    mailbox TEXT REFERENCES accounts (email) ON DELETE CASCADE,
    mailbox_given TEXT,
    -- The mailbox that registered it; null for an admin. It gets the events of that mailbox only.
    owner TEXT REFERENCES accounts (email) ON DELETE CASCADE,
    owner_given TEXT,
    -- The token that registered it. No reference: sessions are deleted.
    token_id BIGINT,
    -- The domain whose limit counts it: that of the events, or of the mailbox; empty for events of all domains.
    counted_domain TEXT NOT NULL,
    description TEXT NOT NULL,
    signing TEXT NOT NULL,
    signing_key BLOB NOT NULL,
    -- The key before a rotation, which signs too until this time.
    former_key BLOB,
    former_key_until BIGINT,
    enabled BOOLEAN NOT NULL,
    disabled_because TEXT,
    -- The number of the last event that needs no attempt: it was delivered, or it has a row in webhook_failures.
    cursor BIGINT NOT NULL,
    -- Since when there are nothing but failures.
    failing_since BIGINT,
    -- Until when nothing is sent, because the receiver asked for it.
    paused_until BIGINT,
    last_attempt_at BIGINT,
    last_success_at BIGINT,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- The node that sends, and until when no other node may.
    claimed_by TEXT,
    claimed_until BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX webhooks_by_time ON webhooks (created_at, id);
CREATE INDEX webhooks_by_owner ON webhooks (owner, created_at, id);
CREATE INDEX webhooks_by_token ON webhooks (token_id);
CREATE INDEX webhooks_by_counted_domain ON webhooks (counted_domain);
CREATE INDEX webhooks_by_domain ON webhooks (domain);
CREATE INDEX webhooks_by_mailbox ON webhooks (mailbox);

-- Events that a receiver did not get at the first attempt, and those of the same message that wait behind them.
CREATE TABLE webhook_failures (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id BIGINT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    -- The number and the id of the event.
    number BIGINT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    message_id TEXT,
    attempts BIGINT NOT NULL,
    -- When it is tried again; null after the last attempt.
    next_try_at BIGINT,
    last_attempt_at BIGINT,
    status BIGINT,
    error TEXT,
    -- The beginning of the receiver's answer.
    answer TEXT,
    created_at BIGINT NOT NULL,
    UNIQUE (webhook_id, number)
);
CREATE INDEX webhook_failures_open ON webhook_failures (webhook_id, next_try_at, number);
CREATE INDEX webhook_failures_by_time ON webhook_failures (webhook_id, id);
CREATE INDEX webhook_failures_by_age ON webhook_failures (created_at);
