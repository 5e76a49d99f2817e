-- Statistics: journals of what has changed, and the counts that a roll-up makes of them.
--
-- A change is noted in the transaction that makes it, by a trigger, so that no path can forget it. A roll-up moves
-- what was noted into the counts and takes it out of the journal in one transaction: each change is counted once.
-- Counts are kept per hour and again per day of UTC, each named by its first moment; a long period is then a few days
-- and the hours around them.

CREATE TABLE status_changes (
    id INTEGER PRIMARY KEY,
    -- No reference: what was noted may outlive its message.
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

-- Everything that was sent before there were statistics is counted by the first roll-ups.
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

-- How many roll-ups there were: whoever prepared one while another was stored starts again.
CREATE TABLE roll_ups (
    step BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO roll_ups (step) VALUES (0);

-- Recipients of sent mail, by the time at which the message was stored. The scope is whose mail: that of a sender's
-- address, of a sender's domain, or everybody's, which is the empty text.
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

-- The same by the recipients' domains.
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

-- Mail from outside for a domain of ours, counted per recipient.
CREATE TABLE inbound_totals (
    domain TEXT NOT NULL,
    span TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    accepted BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    -- Of the accepted.
    spam BIGINT NOT NULL,
    PRIMARY KEY (domain, span, start_at)
) WITHOUT ROWID;

-- Of the accepted only: the senders of what is rejected are mostly made up, each time another.
CREATE TABLE inbound_from_domains (
    domain TEXT NOT NULL,
    span TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    sender_domain TEXT NOT NULL,
    accepted BIGINT NOT NULL,
    PRIMARY KEY (domain, span, start_at, sender_domain)
) WITHOUT ROWID;
