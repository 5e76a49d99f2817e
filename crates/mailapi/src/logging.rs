//! How the process tells what it does.

mod batch;
mod json;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};
use crate::failure::Outcome;
use batch::{Batch, BatchEnd, BatchLimits};
use json::{JsonFields, JsonLines};

/// The way a stream is written to, once it is known where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Where the log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The server's log is its output.
    Stdout,
    /// A command's output is its answer; what goes wrong on the way does not belong into it.
    Stderr,
}

impl Style {
    /// What `format` means for this stream.
    pub(crate) fn of(format: LogFormat, stream: &impl IsTerminal) -> Self {
        match format {
            LogFormat::Human => Self::Human,
            LogFormat::Json => Self::Json,
            LogFormat::Auto if stream.is_terminal() => Self::Human,
            LogFormat::Auto => Self::Json,
        }
    }
}

/// Logging that was started.
pub(crate) struct Logging {
    /// How a line looks.
    pub(crate) style: Style,
    /// Lines that wait are written when this goes.
    _end: Option<BatchEnd>,
}

/// Starts logging for the rest of the process. Keep what comes back until the end.
pub(crate) fn start(log: &Log, destination: Destination) -> Outcome<Logging> {
    let filter = match destination {
        // Where everything listens is told whatever level is set, since nothing else could tell it.
        Destination::Stdout => log.filter()?.add_directive(concat!(env!("CARGO_PKG_NAME"), "::welcome=info").parse()?),
        // A command does its work in silence; only what goes wrong on the way is worth a line beside its answer.
        Destination::Stderr => EnvFilter::new("warn"),
    };
    let (style, colours) = match destination {
        Destination::Stdout => (Style::of(log.format, &std::io::stdout()), std::io::stdout().is_terminal()),
        Destination::Stderr => (Style::of(log.format, &std::io::stderr()), std::io::stderr().is_terminal()),
    };
    let (lines, registry) = (tracing_subscriber::fmt::layer(), tracing_subscriber::registry().with(filter));
    let mut end = None;
    match (style, destination) {
        (Style::Human, Destination::Stdout) => registry.with(lines.with_ansi(colours)).try_init()?,
        (Style::Human, Destination::Stderr) => {
            registry.with(lines.with_ansi(colours).with_writer(std::io::stderr)).try_init()?;
        }
        (Style::Json, Destination::Stdout) => {
            let limits = BatchLimits { wait: log.gather_for.0, octets: log.gather_bytes.as_usize() };
            let (batch, batch_end) = Batch::start(std::io::stdout(), limits)?;
            end = Some(batch_end);
            registry.with(lines.fmt_fields(JsonFields).event_format(JsonLines).with_writer(batch)).try_init()?;
        }
        (Style::Json, Destination::Stderr) => {
            let lines = lines.fmt_fields(JsonFields).event_format(JsonLines);
            registry.with(lines.with_writer(std::io::stderr)).try_init()?;
        }
    }
    Ok(Logging { style, _end: end })
}
