-- Which messages of the account are copied to its folder for sent mail: off, api or all.
ALTER TABLE accounts ADD COLUMN save_sent TEXT COLLATE "C" NOT NULL DEFAULT 'off';
