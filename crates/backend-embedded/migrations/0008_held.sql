-- Recipients on hold have the last possible time as their next attempt, so that looking for due ones never meets them.
-- This index finds those that were put on hold while a delivery agent had claimed them.
CREATE INDEX drop_queue_recipients_held_claims ON drop_queue_recipients (queue, position)
    WHERE next_attempt_at = 253402300799999 AND leased_until > 0;
