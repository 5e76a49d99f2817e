//! Lock-outs after failed log-ins.

pub(super) mod list;
pub(super) mod unlock;
