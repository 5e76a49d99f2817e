//! How the process tells what it does.

mod json;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};
use crate::failure::Outcome;
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

/// Starts logging for the rest of the process.
pub(crate) fn start(log: &Log, destination: Destination) -> Outcome<Style> {
    let format = log.format;
    let filter = match destination {
        // Where everything listens is told whatever level is set, since nothing else could tell it.
        Destination::Stdout => log.filter()?.add_directive(concat!(env!("CARGO_PKG_NAME"), "::welcome=info").parse()?),
        // A command does its work in silence; only what goes wrong on the way is worth a line beside its answer.
        Destination::Stderr => EnvFilter::new("warn"),
    };
    let (style, colours) = match destination {
        Destination::Stdout => (Style::of(format, &std::io::stdout()), std::io::stdout().is_terminal()),
        Destination::Stderr => (Style::of(format, &std::io::stderr()), std::io::stderr().is_terminal()),
    };
    let writer = move || -> Box<dyn std::io::Write> {
        match destination {
            Destination::Stdout => Box::new(std::io::stdout()),
            Destination::Stderr => Box::new(std::io::stderr()),
        }
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours);
    let registry = tracing_subscriber::registry().with(filter);
    match style {
        Style::Human => registry.with(lines).try_init()?,
        Style::Json => registry.with(lines.fmt_fields(JsonFields).event_format(JsonLines)).try_init()?,
    }
    Ok(style)
}
