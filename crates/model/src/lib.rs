//! What the words mean: addresses, drafts, grants, statuses. No IO, no async, no serde.
