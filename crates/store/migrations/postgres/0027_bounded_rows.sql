-- Limits of the rows that strangers can make, and indexes for their removal in small steps.

-- The client's network, whose unknown senders have a share of the greylist; empty in rows of earlier versions.
ALTER TABLE greylist ADD COLUMN network TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX greylist_by_network ON greylist (network, passed, last_seen);

CREATE INDEX tokens_sessions_by_end ON tokens (expires_at, id) WHERE is_session;

-- The number of sender domains that are counted in a period.
ALTER TABLE inbound_totals ADD COLUMN sender_domains BIGINT NOT NULL DEFAULT 0;
CREATE FUNCTION mailapi_count_sender_domains() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inbound_totals SET sender_domains = sender_domains + 1
        WHERE domain = NEW.domain AND span = NEW.span AND start_at = NEW.start_at;
    RETURN NULL;
END
$$;
CREATE TRIGGER inbound_from_domains_added AFTER INSERT ON inbound_from_domains
    FOR EACH ROW EXECUTE FUNCTION mailapi_count_sender_domains();
