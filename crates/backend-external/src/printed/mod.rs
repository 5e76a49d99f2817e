//! Prints configuration files for Postfix and Dovecot. Both look up accounts directly, through views of mailapi's
//! database.

mod dovecot;
mod file;
mod lookup;
mod postfix;

pub use dovecot::{Certificate, DovecotConfiguration, DovecotVersion};
pub use file::PrintedFile;
pub use lookup::{LookupDatabase, PostgresPlace};
pub use postfix::PostfixConfiguration;
