//! What the product is compared with: the least that the same answer, or the same rows, can cost.

pub(crate) mod disk;
pub(crate) mod http;
pub(crate) mod imap;
pub(crate) mod process;
pub(crate) mod wire;
