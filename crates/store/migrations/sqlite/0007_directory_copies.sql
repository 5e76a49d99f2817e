-- Whether an account is a copy of a mailbox in a user database that is not ours: name, state and quota are changed
-- there alone, and its password is looked up there. What is kept here as its password matches nothing.

ALTER TABLE accounts ADD COLUMN in_directory BOOLEAN NOT NULL DEFAULT FALSE;
