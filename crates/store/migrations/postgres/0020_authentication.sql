-- Results of the checks of a received message, as JSON; null if the mail server reported none.
ALTER TABLE received_mail ADD COLUMN authentication TEXT COLLATE "C";
