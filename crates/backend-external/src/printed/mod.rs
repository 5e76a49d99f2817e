//! What Postfix and Dovecot need to know of an installation, printed as their own configuration files. They look
//! accounts up by themselves, in the views that mailapi's database has for them.

mod dovecot;
mod file;
mod lookup;
mod postfix;

pub use dovecot::{Certificate, DovecotConfiguration, DovecotVersion};
pub use file::PrintedFile;
pub use lookup::{LookupDatabase, PostgresPlace};
pub use postfix::PostfixConfiguration;
