//! `[mail.external.…]`: mail servers of their own. This version knows the sections' names and follows none of them,
//! so that a file written for a later version is refused for its backend and not for a section.

use serde::{Deserialize, Serialize};
use toml::Table;

/// The sections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct External {
    smtp: Table,
    imap: Table,
    log: Table,
    doveadm: Table,
}
