//! IMAP without sockets: one token reader, session logic, a file per state.
