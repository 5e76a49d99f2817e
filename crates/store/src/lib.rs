//! The only SQL of accounts, tokens, sent mail and delivery events.

mod error;
pub mod sqlite;

pub use error::StoreError;
