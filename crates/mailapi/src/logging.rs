//! Log output of the process: format and destination.

mod audit_file;
mod human;
mod json;
mod output;

use std::io::IsTerminal;
use std::path::Path;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};
use crate::failure::Outcome;
use audit_file::AuditFile;
use human::human_fields;
use json::{JsonFields, JsonLines};
use output::LogEnd;

/// Form of log lines, decided by the setting and the destination stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Text for a terminal.
    Human,
    /// One JSON object per line.
    Json,
}

/// Log destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Standard output: used by the server, whose log is its only output.
    Stdout,
    /// Standard error: used by commands, so that warnings do not mix with the result.
    Stderr,
}

impl Style {
    /// Resolves `format` for this stream.
    pub(crate) fn of(format: LogFormat, stream: &impl IsTerminal) -> Self {
        match format {
            LogFormat::Human => Self::Human,
            LogFormat::Json => Self::Json,
            LogFormat::Auto if stream.is_terminal() => Self::Human,
            LogFormat::Auto => Self::Json,
        }
    }
}

/// Handle of the running log.
pub(crate) struct Logging {
    /// Form of log lines.
    pub(crate) style: Style,
    /// Writes the queued lines on drop.
    _end: Option<LogEnd>,
}

/// Starts logging for the rest of the process. Keep the returned handle until the end: its drop writes the queued lines.
pub(crate) fn start(log: &Log, destination: Destination, data_dir: &Path) -> Outcome<Logging> {
    match destination {
        Destination::Stdout => start_server(log),
        Destination::Stderr => start_command(log, data_dir),
    }
}

fn start_server(log: &Log) -> Outcome<Logging> {
    // The listener addresses are logged at any level: there is no other way to learn them.
    let filter = log.filter()?.add_directive(concat!(env!("CARGO_PKG_NAME"), "::welcome=info").parse()?);
    let (queue, end) = output::queued(std::io::stdout(), |lines| tracing::warn!(lines, "log lines dropped"));
    let (lines, registry) = (tracing_subscriber::fmt::layer().with_writer(queue), tracing_subscriber::registry());
    let style = Style::of(log.format, &std::io::stdout());
    match style {
        Style::Human => {
            let lines = lines.fmt_fields(human_fields()).with_ansi(std::io::stdout().is_terminal());
            registry.with(filter).with(lines).try_init()?;
        }
        Style::Json => registry.with(filter).with(lines.fmt_fields(JsonFields).event_format(JsonLines)).try_init()?,
    }
    Ok(Logging { style, _end: Some(end) })
}

/// A command logs only warnings. Its audit events are appended to the audit file.
fn start_command(log: &Log, data_dir: &Path) -> Outcome<Logging> {
    const AUDIT: &str = "mailapi::audit";
    let audit = tracing_subscriber::fmt::layer().fmt_fields(JsonFields).event_format(JsonLines);
    let audit = audit.with_writer(AuditFile::in_directory(data_dir));
    let registry =
        tracing_subscriber::registry().with(audit.with_filter(Targets::new().with_target(AUDIT, LevelFilter::INFO)));
    let style = Style::of(log.format, &std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let shown = EnvFilter::new("warn");
    match style {
        Style::Human => {
            let lines = lines.fmt_fields(human_fields()).with_ansi(std::io::stderr().is_terminal());
            registry.with(lines.with_filter(shown)).try_init()?;
        }
        Style::Json => {
            registry.with(lines.fmt_fields(JsonFields).event_format(JsonLines).with_filter(shown)).try_init()?;
        }
    }
    Ok(Logging { style, _end: None })
}
