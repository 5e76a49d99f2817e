-- The authors of webhooks, whose rights decide what a webhook sends.

-- The admin's mailbox that registered it. The author of a webhook without owner is this mailbox, or the API token
-- `token_id`, or the operator at the command line. No reference: the loss of the mailbox disables the webhook.
ALTER TABLE webhooks ADD COLUMN admin TEXT COLLATE "C";
ALTER TABLE webhooks ADD COLUMN admin_given TEXT COLLATE "C";
-- `token_id` becomes the API token without which the webhook sends nothing. Sessions end, so it was never one of them.
-- A session that is deleted already leaves an unknown author; the number stays, and the webhook is disabled.
UPDATE webhooks SET
    admin = (SELECT email FROM tokens WHERE tokens.id = webhooks.token_id),
    admin_given = (SELECT email_given FROM tokens WHERE tokens.id = webhooks.token_id)
    WHERE owner IS NULL AND EXISTS (SELECT 1 FROM tokens WHERE tokens.id = webhooks.token_id AND is_session);
UPDATE webhooks SET token_id = NULL
    WHERE EXISTS (SELECT 1 FROM tokens WHERE tokens.id = webhooks.token_id AND is_session)
    OR (owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tokens WHERE tokens.id = webhooks.token_id));
CREATE INDEX webhooks_by_admin ON webhooks (admin, id);

-- Whether the receiver has echoed a challenge. Receivers of admins need not.
ALTER TABLE webhooks ADD COLUMN confirmed BOOLEAN NOT NULL DEFAULT TRUE;

-- Counts changes by requests, replays included: senders notice changes by other processes, and drop results of rounds
-- that began before them.
ALTER TABLE webhooks ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
CREATE INDEX webhook_failures_due ON webhook_failures (webhook_id, next_try_at, id) WHERE next_try_at IS NOT NULL;

-- The id of the mail to the owner of a webhook that was disabled; null when there is none to send.
ALTER TABLE webhooks ADD COLUMN notice_id TEXT COLLATE "C";
CREATE INDEX webhooks_with_notice ON webhooks (id) WHERE notice_id IS NOT NULL;
