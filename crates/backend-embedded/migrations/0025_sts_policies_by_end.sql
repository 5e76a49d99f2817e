-- Expired policies are removed a few at a time. The index is also what counts all policies: it is small.
CREATE INDEX drop_sts_policies_by_end ON drop_sts_policies (expires_at);
