//! Floors to compare the product with: the minimum cost of the same response or the same rows.

pub(crate) mod disk;
pub(crate) mod http;
pub(crate) mod imap;
pub(crate) mod process;
