-- Number of times that disabling the account ended its sessions. A session that began before the last time is invalid.
ALTER TABLE accounts ADD COLUMN sessions_ended BIGINT NOT NULL DEFAULT 0;
