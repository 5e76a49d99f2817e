//! Lock-outs after failed logins.

pub(super) mod list;
pub(super) mod unlock;
