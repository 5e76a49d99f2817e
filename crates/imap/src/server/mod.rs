//! The server's side.

pub mod command;
