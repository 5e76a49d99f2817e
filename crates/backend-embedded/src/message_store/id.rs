//! Row numbers. They are never reused.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

macro_rules! row_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) i64);

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.0.into())
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                i64::column_result(value).map(Self)
            }
        }
    };
}

row_number! {
    /// A mailbox.
    MailboxId
}
row_number! {
    /// A folder. A rename does not change it.
    FolderId
}
row_number! {
    /// The stored bytes of a message, which several folders and the queue may share.
    ContentId
}

impl ContentId {
    /// Returns the number of the row.
    pub(crate) const fn object_id(self) -> u64 {
        self.0.unsigned_abs()
    }
}
