//! `mailapi-dns` changes DNS records through the HTTP APIs of hosted providers.
//!
//! The server starts it and talks to it on its standard input and output; see `mailapi-hosted-dns` for the lines. It has no
//! settings, reads no files but the certificates of authorities, and writes none.

mod change;
mod library;
mod limits;
mod session;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use session::SessionEnd;

const USAGE: &str = concat!(
    "mailapi-dns ",
    env!("CARGO_PKG_VERSION"),
    " changes DNS records at hosted providers for mailapi, which starts it. It reads an account and jobs as lines of JSON \
     from its standard input, and answers each job with a line.\n"
);

/// Exit status if the first line does not name an account.
const NO_ACCOUNT: u8 = 2;

fn main() -> ExitCode {
    let asks_for_help = std::env::args_os().skip(1).any(|argument| argument == "--help" || argument == "--version");
    if asks_for_help || std::io::stdin().is_terminal() {
        let written = std::io::stdout().lock().write_all(USAGE.as_bytes());
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if limits::set().is_err() {
        return ExitCode::FAILURE;
    }
    // One thread resolves names of hosts, and one waits for input.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let end = runtime.block_on(session::run());
    // A thread may still wait for input.
    runtime.shutdown_background();
    match end {
        SessionEnd::Done => ExitCode::SUCCESS,
        SessionEnd::NoAccount => ExitCode::from(NO_ACCOUNT),
    }
}
