-- The steps of a DKIM key besides signs_since: when its record was first found, when a newer key of its algorithm replaced
-- it, and when it was erased.
ALTER TABLE dkim_keys ADD COLUMN published_at BIGINT;
ALTER TABLE dkim_keys ADD COLUMN retiring_at BIGINT;
ALTER TABLE dkim_keys ADD COLUMN retired_at BIGINT;
-- One key signed at a time, of whatever algorithm.
UPDATE dkim_keys SET retiring_at = (
    SELECT MIN(newer.signs_since) FROM dkim_keys AS newer
    WHERE newer.domain = dkim_keys.domain AND (newer.signs_since > dkim_keys.signs_since
        OR newer.signs_since = dkim_keys.signs_since AND newer.id > dkim_keys.id)
) WHERE signs_since IS NOT NULL;
-- A key that waited for its record no longer did when there was a newer one.
UPDATE dkim_keys SET retired_at = created_at, private_key = '' WHERE signs_since IS NULL AND EXISTS (
    SELECT 1 FROM dkim_keys AS newer WHERE newer.domain = dkim_keys.domain AND newer.id > dkim_keys.id
);
-- When the records were last checked without a request, and how many of the last checks found one that is not right.
ALTER TABLE domains ADD COLUMN checked_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE domains ADD COLUMN failed_checks BIGINT NOT NULL DEFAULT 0;
