//! Clients that do as little work per operation as possible, so that the server is what is measured.

pub(crate) mod events;
pub(crate) mod http;
pub(crate) mod smtp;
