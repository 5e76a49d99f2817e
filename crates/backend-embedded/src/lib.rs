//! The mail server built in: listeners, queue, maildrop.
