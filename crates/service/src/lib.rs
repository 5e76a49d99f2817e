//! What each operation does: one file an operation.
