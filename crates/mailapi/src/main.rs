//! The mailapi server and its command line: configuration and wiring, without rules about mail.

mod background;
mod backup;
mod cli;
mod config;
mod data_dir;
mod database_file;
mod dns_challenges;
mod dns_keys;
mod failure;
mod first_token;
mod host_name;
mod hosted_certificates;
mod identity;
mod listeners;
mod logging;
mod mail_owner;
mod named_file;
mod open_files;
mod reload;
mod rights_thread;
mod served_database;
mod signals;
mod system;
mod terminal_text;
mod welcome;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Both rustls providers may be compiled in; without a choice the first TLS connection would panic. An error
    // means that the choice was made already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    cli::run()
}
