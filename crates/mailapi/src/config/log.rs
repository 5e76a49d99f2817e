//! `[log]`: log output.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::ConfigError;
use super::values::Text;

/// Libraries whose warnings repeat in more words what this program logs, or let a sender of HTML fill the log. A directive
/// of the setting takes precedence.
const LIBRARIES: &str = "hickory_net=error,hickory_resolver=error,html5ever=off,markup5ever=off";

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Log {
    /// A level, or directives such as `info,mailapi_service=debug`.
    pub(crate) level: String,
    /// The log level of the line for each request.
    pub(crate) access: Text<LevelFilter>,
    /// Form of log lines.
    pub(crate) format: LogFormat,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
    /// For people on a terminal, JSON otherwise.
    Auto,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), access: Text(LevelFilter::INFO), format: LogFormat::Auto }
    }
}

impl Log {
    /// Returns the filter of log events.
    pub(crate) fn filter(&self) -> Result<EnvFilter, ConfigError> {
        EnvFilter::builder()
            .parse(format!("{LIBRARIES},{}", self.level))
            .map_err(|error| ConfigError::new(format!("log.level: `{}` is not valid: {error}", self.level)))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.filter().map(|_| ())
    }
}
