//! The only SQL of accounts, tokens, sent mail and delivery events.
