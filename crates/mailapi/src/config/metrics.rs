//! `[metrics]`: the listener for monitoring.

use serde::{Deserialize, Serialize};

use super::values::{ListenAddress, Unset};

/// The section.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Metrics {
    /// IP address and port of `/metrics`; without it there is no listener.
    pub(crate) listen: Unset<ListenAddress>,
}
