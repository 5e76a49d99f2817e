//! `mailapi config`.

use clap::Subcommand;

use super::print;
use crate::config::Config;
use crate::failure::Outcome;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Say whether the file and the environment make a configuration that a server would start with
    Check,
    /// Print all settings as they are in force, as a TOML file; secrets are left out
    Print,
}

pub(super) fn run(command: &Command, config: &Config) -> Outcome {
    match command {
        // It was loaded and checked before any command runs; what is left is what only a server reads.
        Command::Check => {
            config.check_files()?;
            print("the configuration is fine\n")
        }
        Command::Print => print(&config.to_toml()),
    }
}
