//! For tests only: a whole server in a temporary directory, a clock that obeys, an SMTP sink.
