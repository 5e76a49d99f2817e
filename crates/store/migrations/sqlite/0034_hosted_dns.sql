-- The way by which a provider takes changes: rfc2136, or the name of a hosted provider. The secret of a hosted provider has its
-- account: a line for each field, with the name and the value between a tab.
ALTER TABLE dns_providers ADD COLUMN provider TEXT NOT NULL DEFAULT 'rfc2136';
