-- Statistics: journals of changes, and the counts that a roll-up computes from them.
--
-- A trigger records each change in the transaction that makes it, so no code path can omit it. A roll-up moves the
-- recorded changes from the journal into the counts in one transaction: each change is counted once. Counts are per
-- hour and per day of UTC, each named by its first moment. A long period is read as a few days and the hours around
-- them.

CREATE TABLE status_changes (
    id INTEGER PRIMARY KEY,
    -- No reference: an entry may outlive its message.
    sent_id BIGINT NOT NULL,
    email TEXT NOT NULL,
    status_before TEXT NOT NULL,
    status_after TEXT NOT NULL,
    refused BOOLEAN NOT NULL
);

CREATE TRIGGER sent_recipients_changed AFTER UPDATE OF status ON sent_recipients WHEN NEW.status <> OLD.status
BEGIN
    INSERT INTO status_changes (sent_id, email, status_before, status_after, refused)
    VALUES (NEW.sent_id, NEW.email, OLD.status, NEW.status, NEW.refused);
END;

-- The first roll-ups count all mail that was sent before statistics existed.
INSERT INTO status_changes (sent_id, email, status_before, status_after, refused)
SELECT sent_id, email, 'pending', status, refused FROM sent_recipients WHERE status <> 'pending' ORDER BY sent_id;

CREATE TABLE inbound_mail (
    id INTEGER PRIMARY KEY,
    at BIGINT NOT NULL,
    domain TEXT NOT NULL,
    -- Null for the null reverse-path.
    sender_domain TEXT,
    outcome TEXT NOT NULL
);

-- Number of roll-ups. A roll-up that was prepared while another one was stored starts again.
CREATE TABLE roll_ups (
    step BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO roll_ups (step) VALUES (0);

-- Recipients of sent mail, by the time at which the message was stored. The scope is a sender's address, a sender's
-- domain, or the empty text for all mail.
CREATE TABLE sent_totals (
    scope TEXT NOT NULL,
    span TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    sent BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    bounced BIGINT NOT NULL,
    deferred BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    PRIMARY KEY (scope, span, start_at)
) WITHOUT ROWID;

-- The same counts by the recipients' domains.
CREATE TABLE sent_to_domains (
    scope TEXT NOT NULL,
    span TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    recipient_domain TEXT NOT NULL,
    sent BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    bounced BIGINT NOT NULL,
    deferred BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    PRIMARY KEY (scope, span, start_at, recipient_domain)
) WITHOUT ROWID;

-- Mail from outside for a local domain, counted per recipient.
CREATE TABLE inbound_totals (
    domain TEXT NOT NULL,
    span TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    accepted BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    -- Included in accepted.
    spam BIGINT NOT NULL,
    PRIMARY KEY (domain, span, start_at)
) WITHOUT ROWID;

-- Accepted mail only: the senders of rejected mail are mostly invented, and differ each time.
CREATE TABLE inbound_from_domains (
    domain TEXT NOT NULL,
    span TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    sender_domain TEXT NOT NULL,
    accepted BIGINT NOT NULL,
    PRIMARY KEY (domain, span, start_at, sender_domain)
) WITHOUT ROWID;
