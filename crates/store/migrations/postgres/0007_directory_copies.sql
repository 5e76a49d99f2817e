-- Whether an account is a copy of a mailbox in an external user database. Its name, state and quota change only there,
-- and its password is looked up there. The password hash here matches no password.

ALTER TABLE accounts ADD COLUMN in_directory BOOLEAN NOT NULL DEFAULT FALSE;
