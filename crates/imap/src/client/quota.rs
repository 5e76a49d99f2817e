//! QUOTA responses (RFC 9208 section 4.2).

use crate::token::{Cursor, SyntaxError};

/// A resource of a quota root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaResource {
    /// The name in upper case; `STORAGE` counts units of 1,024 octets.
    pub name: String,
    /// Current usage.
    pub usage: u64,
    /// The limit.
    pub limit: u64,
}

impl QuotaResource {
    /// Skips the name of the root and reads its resources.
    pub(super) fn read_root(cursor: &mut Cursor) -> Result<Vec<Self>, SyntaxError> {
        cursor.astring()?;
        cursor.space()?;
        cursor.list(|cursor| {
            let name = cursor.atom()?.to_ascii_uppercase();
            cursor.space()?;
            let usage = cursor.number64()?;
            cursor.space()?;
            Ok(Self { name, usage, limit: cursor.number64()? })
        })
    }
}
