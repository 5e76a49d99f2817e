//! The command line: one file per command.

mod adopt_mail;
mod alias;
mod app_password;
mod backup;
mod config;
mod confirm;
mod dkim;
mod dns;
mod doctor;
mod domain;
mod events;
mod export;
mod follow;
mod import;
mod input_file;
mod migrate;
mod openapi;
mod output;
mod pages;
mod password;
mod queue;
mod restore;
mod rules;
mod serve;
mod setup;
mod table;
mod token;
mod user;
mod user_import;
mod webhook;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use mailapi_model::EmailAddress;
use mailapi_service::Caller;
use tokio::runtime::{Builder, Runtime};

use crate::config::{Config, DatabasePlace, LogFormat, environment};
use crate::failure::{Failure, Outcome};
use crate::identity::{Identity, become_user, database_elsewhere};
use crate::logging::{self, Destination};
use crate::rights_thread::RightsThread;
use crate::system::os_user;
use crate::wiring::Create;
pub(crate) use output::print;

/// Exit code for invalid arguments, as in shells and clap.
const USAGE: u8 = 2;

/// Heading of the options that every command accepts.
const GLOBAL_OPTIONS: &str = "Global options";

/// An HTTP/JSON mail API with a mail server built in.
///
/// Without a command, `mailapi` starts the server. Commands that manage domains, users, aliases and tokens work on the
/// same data directory, also while a server is running on it.
#[derive(Debug, Parser)]
#[command(name = "mailapi", version, max_term_width = 100)]
struct Arguments {
    /// The configuration file [default: mailapi.toml in the working directory, if there is one]
    ///
    /// Every setting can also come from the environment: MAILAPI_HTTP__LISTEN is `listen` in the section `[http]`.
    /// The file config/mailapi.default.toml describes all of them.
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL_OPTIONS)]
    config: Option<PathBuf>,

    /// Format of log lines [default: auto]
    #[arg(long, global = true, value_name = "FORMAT", help_heading = GLOBAL_OPTIONS)]
    log_format: Option<LogFormat>,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server (the default)
    ///
    /// The first start in an empty data directory creates the database and one admin token. It writes the token into
    /// the file `admin-token` and shows it once, but never in a JSON log. SIGTERM or Ctrl-C lets requests in flight
    /// finish and ends the server.
    Serve,
    /// Show what a mail server on this machine needs, and install it with --write
    ///
    /// Shows the configuration, a systemd unit and the DNS records, and checks the records, the ports and the addresses
    /// of this machine. docs/server.md describes all steps.
    Setup(setup::Setup),
    /// Follow the mail server's log, and nothing else
    ///
    /// For the host of a mail server whose API runs elsewhere, on the same database. SIGTERM or Ctrl-C ends it.
    Follow,
    /// Manage API tokens
    #[command(subcommand)]
    Token(token::Command),
    /// Manage mail domains
    #[command(subcommand)]
    Domain(domain::Command),
    /// Manage the DNS providers that take changes of domains' records
    #[command(subcommand)]
    Dns(dns::Command),
    /// Manage users, each with a mailbox
    #[command(subcommand)]
    User(user::Command),
    /// Manage aliases: addresses whose mail goes to other addresses
    #[command(subcommand)]
    Alias(alias::Command),
    /// Import mail into a user's mailbox: from mbox, a Maildir, or another IMAP server
    ///
    /// Folders, flags and dates are kept, and UIDs where a folder is new and empty. A second run imports what is missing.
    /// The last line counts what was imported, skipped and failed.
    Import(import::Import),
    /// Import the mailboxes of all users from another IMAP server
    ///
    /// The users exist already. Each is imported as by `mailapi import`; one that fails does not stop the others.
    ImportAll(import::ImportAll),
    /// Export a user's mailbox as a Maildir or as mbox files
    Export(export::Export),
    /// Show the log of events, or follow it
    ///
    /// Prints one line for each event that is kept, oldest first.
    Events(events::Events),
    /// List and change messages in the mail server's queue
    #[command(subcommand)]
    Queue(queue::Command),
    /// Manage webhooks, which send events to receivers by HTTP
    #[command(subcommand)]
    Webhook(webhook::Command),
    /// Save the database with all mail, and the other files of the data directory
    ///
    /// Works while a server runs, and writes only what no earlier backup in the directory has. A backup holds mail,
    /// password hashes and private keys.
    Backup(backup::Backup),
    /// Restore a backup into an empty data directory
    ///
    /// Checks the whole backup first. Run it as the user that runs the server, and before the server starts.
    Restore(restore::Restore),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Check the whole installation and suggest fixes
    ///
    /// Checks the database, the mail server, its tables and its log. The exit code is 1 if a check fails.
    Doctor,
    /// Print the OpenAPI document of the HTTP interface
    Openapi,
    /// Create the database, or bring its tables up to date
    ///
    /// The server does the same at its start. Other commands update the tables, but create no database.
    Migrate,
    /// Make this data directory the one that has the mail of accounts in PostgreSQL
    ///
    /// The built-in mail server works on one data directory, and refuses to start on another one. Use this command when the
    /// former directory is lost: the accounts get new, empty mailboxes. Otherwise move the directory, or restore a backup.
    AdoptMail,
}

/// Returns the author of a command's changes.
fn caller() -> Caller {
    Caller::command_line(&os_user())
}

/// Logs that a command moved mail, with the members that the service gives to other changes.
fn audit_mail(mailbox: &EmailAddress, messages: u64, what: &'static str) {
    let (by, os_user) = (caller().name(), os_user());
    tracing::info!(target: "mailapi::audit", by, os_user, from = "this machine", %mailbox, messages, "{what}");
}

/// Returns the failure of a command about a user.
fn about(email: &EmailAddress, error: impl std::error::Error) -> Failure {
    Failure::new(format!("{}: {error}", email.shown()))
}

/// The option of commands that may be the first ones of an installation.
#[derive(Debug, Args)]
struct Init {
    /// Create the data directory and the database if they do not exist
    #[arg(long)]
    init: bool,
}

impl Init {
    const fn create(&self) -> Create {
        if self.init { Create::Missing } else { Create::Nothing }
    }
}

/// The option of commands that show records.
#[derive(Debug, Args)]
struct Shown {
    /// Print JSON with the same members as the API
    #[arg(long)]
    json: bool,
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return answer_to_arguments(&error),
    };
    match arguments.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::log_failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Starts the threads of a command. The process must have its identity before, which each thread inherits.
fn runtime() -> Outcome<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

impl Arguments {
    fn run(self) -> Outcome {
        match self.command.unwrap_or(Command::Serve) {
            // The document does not depend on the configuration, so an invalid one must not prevent it.
            Command::Openapi => openapi::run(),
            // The configuration does not exist yet.
            Command::Setup(setup) => setup::run(setup, self.config.as_deref()),
            command => {
                let environment = environment::of_this_process();
                let mut config = Config::load(self.config.as_deref(), &environment)?;
                config.log.format = self.log_format.unwrap_or(config.log.format);
                let place = command.take_identity(&config)?;
                runtime()?.block_on(command.run(&config, &environment, place))
            }
        }
    }
}

impl Command {
    /// Returns whose rights the command needs.
    fn identity(&self) -> Identity {
        match self {
            Self::Serve | Self::Follow => Identity::StartedByOwner,
            // It writes the configuration of other programs.
            Self::Config(_) => Identity::OfCaller,
            Self::Token(_)
            | Self::Domain(_)
            | Self::Dns(_)
            | Self::User(_)
            | Self::Alias(_)
            | Self::Import(_)
            | Self::ImportAll(_)
            | Self::Export(_)
            | Self::Events(_)
            | Self::Queue(_)
            | Self::Webhook(_)
            | Self::Backup(_)
            | Self::Restore(_)
            | Self::Openapi
            | Self::Setup(_)
            | Self::Doctor
            | Self::Migrate
            | Self::AdoptMail => Identity::OfOwner,
        }
    }

    /// Takes the identity of the command. Returns a thread for the places that the caller names.
    fn take_identity(&self, config: &Config) -> Outcome<Option<RightsThread>> {
        let database = match config.database.place(&config.data_dir) {
            Ok(DatabasePlace::Sqlite(file)) => database_elsewhere(file, &config.data_dir)?,
            // The command itself reports a wrong setting.
            Ok(DatabasePlace::Postgres(_)) | Err(_) => None,
        };
        let user = self.identity().user(&config.data_dir, database.as_deref())?;
        let place = match self {
            Self::Backup(arguments) => arguments.place(user.as_ref()).map(Some)?,
            // They read a place, or write it by handles alone.
            Self::Import(_) | Self::Export(_) | Self::Restore(_) => Some(RightsThread::start()?),
            Self::Doctor if config.is_external() => Some(doctor::table_reader()?),
            _ => None,
        };
        user.as_ref().map_or(Ok(()), become_user)?;
        Ok(place)
    }

    async fn run(self, config: &Config, environment: &[(OsString, OsString)], place: Option<RightsThread>) -> Outcome {
        let destination =
            if matches!(self, Self::Serve | Self::Follow) { Destination::Stdout } else { Destination::Stderr };
        let logging = logging::start(&config.log, destination, &config.data_dir)?;
        let ignored = Config::ignored_variables(environment);
        if !ignored.is_empty() {
            tracing::warn!(variables = ignored.join(", "), "ignored environment variables that are not settings");
        }
        // `config check` prints them with its result.
        if !matches!(self, Self::Config(config::Command::Check)) {
            config.warnings().iter().for_each(|setting| tracing::warn!(setting, "outdated setting"));
        }
        match self {
            Self::Serve => serve::run(config, logging.style).await,
            Self::Follow => follow::run(config).await,
            Self::Token(command) => token::run(command, config).await,
            Self::Domain(command) => domain::run(command, config).await,
            Self::Dns(command) => dns::run(command, config).await,
            Self::User(command) => user::run(command, config).await,
            Self::Alias(command) => alias::run(command, config).await,
            Self::Import(arguments) => {
                import::run(arguments, config, place.map_or_else(RightsThread::start, Ok)?).await
            }
            Self::ImportAll(arguments) => import::run_all(arguments, config).await,
            Self::Export(arguments) => {
                export::run(arguments, config, place.map_or_else(RightsThread::start, Ok)?).await
            }
            Self::Events(arguments) => events::run(arguments, config).await,
            Self::Queue(command) => queue::run(command, config).await,
            Self::Webhook(command) => webhook::run(command, config).await,
            Self::Backup(arguments) => backup::run(arguments, config, place.map_or_else(RightsThread::start, Ok)?),
            Self::Restore(arguments) => {
                restore::run(&arguments, config, place.map_or_else(RightsThread::start, Ok)?).await
            }
            Self::Config(command) => config::run(&command, config),
            // Both ran before the configuration was read.
            Self::Openapi | Self::Setup(_) => Ok(()),
            Self::Doctor => doctor::run(config, &place.map_or_else(RightsThread::start, Ok)?).await,
            Self::Migrate => migrate::run(config).await,
            Self::AdoptMail => adopt_mail::run(config).await,
        }
    }
}

/// Prints help and version as results; reports every other case as an error in one line.
fn answer_to_arguments(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return error.print().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    // For `mailapi user` alone, the list of its commands is the most useful answer.
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(USAGE);
    }
    let text = error.render().to_string();
    // The first paragraph is the reason, over several lines when arguments are missing; usage follows.
    let first = text.split("\n\n").next().unwrap_or_default();
    let what = Failure::new(first.trim_start_matches("error:").trim_end_matches("Usage:"));
    output::log_failure(&Failure::new(format!("{what} (see --help)")));
    ExitCode::from(USAGE)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
