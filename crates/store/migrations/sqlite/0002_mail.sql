-- Sent mail, its statuses, and the responses that are kept for repeated requests.

CREATE TABLE sent_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL UNIQUE,
    token_id BIGINT,
    mailbox TEXT,
    mailbox_given TEXT,
    sender TEXT NOT NULL,
    sender_given TEXT,
    -- The To recipients in the form that is shown, one per line: an address contains no line break.
    to_list TEXT NOT NULL,
    subject TEXT NOT NULL,
    recipient_count BIGINT NOT NULL,
    status TEXT NOT NULL,
    queue_id TEXT,
    -- Why the mail server did not accept the message.
    failure TEXT,
    created_at BIGINT NOT NULL,
    submitted_at BIGINT,
    failed_at BIGINT
);
CREATE INDEX sent_by_time ON sent_messages (created_at);
CREATE INDEX sent_by_mailbox ON sent_messages (mailbox, created_at);
CREATE INDEX sent_by_token ON sent_messages (token_id, created_at);
CREATE INDEX sent_by_sender ON sent_messages (sender, created_at);
CREATE INDEX sent_by_status ON sent_messages (status, created_at);
-- Messages that a crash may have left stored but not submitted.
CREATE INDEX sent_unresolved ON sent_messages (id) WHERE submitted_at IS NULL AND failed_at IS NULL;

CREATE TABLE sent_recipients (
    sent_id BIGINT NOT NULL REFERENCES sent_messages (id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    email_given TEXT,
    position BIGINT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    -- Whether the mail server refused the recipient at submission (RFC 5321 section 3.3).
    refused BOOLEAN NOT NULL,
    dsn TEXT,
    smtp_response TEXT,
    delivered_at BIGINT,
    bounced_at BIGINT,
    attempts BIGINT NOT NULL,
    last_attempt_at BIGINT,
    PRIMARY KEY (sent_id, email)
) WITHOUT ROWID;
CREATE INDEX sent_recipients_by_email ON sent_recipients (email, sent_id);

CREATE TABLE idempotency (
    token_id BIGINT NOT NULL,
    key TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    message_id TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (token_id, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_by_end ON idempotency (expires_at);

CREATE TABLE delivery_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at BIGINT NOT NULL,
    message_id TEXT,
    queue_id TEXT NOT NULL,
    -- Null for the null reverse-path.
    sender TEXT,
    recipient TEXT NOT NULL,
    outcome TEXT NOT NULL,
    -- True if a returned mail reported the event, false if the mail server did.
    returned_mail BOOLEAN NOT NULL,
    dsn TEXT,
    response TEXT NOT NULL,
    relay TEXT,
    delay_millis BIGINT NOT NULL
);
CREATE INDEX delivery_events_by_time ON delivery_events (at);
CREATE INDEX delivery_events_by_message ON delivery_events (message_id, at) WHERE message_id IS NOT NULL;
CREATE INDEX delivery_events_by_queue_id ON delivery_events (queue_id, at);
CREATE INDEX delivery_events_by_sender ON delivery_events (sender, at) WHERE sender IS NOT NULL;
CREATE INDEX delivery_events_by_recipient ON delivery_events (recipient, at);
CREATE INDEX delivery_events_by_outcome ON delivery_events (outcome, at);

CREATE TABLE delivery_cursors (
    feed TEXT NOT NULL PRIMARY KEY,
    cursor TEXT NOT NULL
) WITHOUT ROWID;
