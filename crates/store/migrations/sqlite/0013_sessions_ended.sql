-- How often the sessions of an account were ended by disabling it: a session that began before the last time is over.
ALTER TABLE accounts ADD COLUMN sessions_ended BIGINT NOT NULL DEFAULT 0;
