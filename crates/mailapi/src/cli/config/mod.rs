//! `mailapi config`.

mod dovecot;
mod files;
mod postfix;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mailapi_model::SecretText;

use super::print;
use crate::config::{Config, LookupDatabase};
use crate::failure::{Failure, Outcome};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Say whether the file and the environment make a configuration that a server would start with
    Check,
    /// Print all settings as they are in force, as a TOML file; secrets are left out
    Print,
    /// Print what Postfix needs: lookup tables in mailapi's database, and a script that sets main.cf and master.cf
    Postfix {
        #[command(flatten)]
        output: Output,
    },
    /// Print what Dovecot needs: a whole dovecot.conf, lookups in mailapi's database, and the master user
    Dovecot {
        #[command(flatten)]
        output: Output,
        /// Dovecot's version; `dovecot --version` tells it
        #[arg(long, value_enum, default_value = "2.3")]
        version: dovecot::Version,
        /// The certificate for mail programs, with its chain; without one, only this machine is listened to
        #[arg(long, value_name = "FILE", requires = "tls_key")]
        tls_cert: Option<PathBuf>,
        /// The certificate's private key
        #[arg(long, value_name = "FILE", requires = "tls_cert")]
        tls_key: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(super) struct Output {
    /// Write the files into this directory instead of printing them
    #[arg(long, value_name = "DIRECTORY")]
    write: Option<PathBuf>,
    /// The database user that only looks up; without one, mailapi's own
    #[arg(long, value_name = "NAME", requires = "lookup_password_file")]
    lookup_user: Option<String>,
    /// A file that holds that user's password
    #[arg(long, value_name = "FILE", requires = "lookup_user")]
    lookup_password_file: Option<PathBuf>,
}

impl Output {
    fn database(&self, config: &Config) -> Outcome<LookupDatabase> {
        let mut database = config.database.lookup(&config.data_dir)?;
        if let (LookupDatabase::Postgres(place), Some(user), Some(file)) =
            (&mut database, &self.lookup_user, &self.lookup_password_file)
        {
            let password = std::fs::read_to_string(file)
                .map_err(|error| Failure::new(format!("{} cannot be read: {error}", file.display())))?;
            place.user.clone_from(user);
            place.password = Some(SecretText::new(password.trim_end_matches(['\r', '\n']).to_owned()));
        }
        Ok(database)
    }

    /// Where the files will be, as the mail server sees it.
    fn directory(&self, usual: &str) -> String {
        let given = self.write.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        given.as_deref().map_or_else(|| usual.to_owned(), |path: &Path| path.display().to_string())
    }
}

pub(super) fn run(command: &Command, config: &Config) -> Outcome {
    match command {
        // It was loaded and checked before any command runs; what is left is what only a server reads.
        Command::Check => {
            config.check_files()?;
            print("the configuration is fine\n")
        }
        Command::Print => print(&config.to_toml()),
        Command::Postfix { output } => {
            let directory = output.directory(postfix::DIRECTORY);
            files::put(&postfix::files(config, &output.database(config)?, &directory)?, output.write.as_deref())
        }
        Command::Dovecot { output, version, tls_cert, tls_key } => {
            let directory = output.directory(dovecot::DIRECTORY);
            let certificate = tls_cert.as_deref().zip(tls_key.as_deref());
            let files = dovecot::files(config, &output.database(config)?, &directory, *version, certificate)?;
            files::put(&files, output.write.as_deref())
        }
    }
}
