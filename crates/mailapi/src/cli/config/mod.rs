//! `mailapi config`.

mod files;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use mailapi_backend_external::printed::{
    Certificate, DovecotConfiguration, DovecotVersion, LookupDatabase, PostfixConfiguration, PrintedFile,
};
use mailapi_model::SecretText;

use super::print;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::host_name;
use crate::named_file;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check the settings, and name the file and the data directory
    Check,
    /// Print the effective settings as a TOML file, without secrets
    Print,
    /// Print lookup tables for Postfix, and a script that sets main.cf and master.cf
    Postfix {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        proof: Proof,
    },
    /// Print a whole dovecot.conf, with lookups in mailapi's database and the master user
    Dovecot {
        #[command(flatten)]
        output: Output,
        /// Dovecot's version, as `dovecot --version` prints it
        #[arg(long, value_enum, default_value = "2.3")]
        version: Version,
        #[command(flatten)]
        proof: Proof,
    },
}

/// The certificate that the server presents.
#[derive(Debug, Args)]
pub(super) struct Proof {
    /// The certificate for mail programs, with its chain; without one, Dovecot listens on the loopback address only,
    /// and Postfix keeps its present certificate
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Proof {
    fn certificate(&self) -> Certificate<'_> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }
}

/// Versions of Dovecot, as written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Version {
    /// 2.3, as in Debian 12
    #[value(name = "2.3")]
    V2_3,
    /// 2.4, as in Debian 13
    #[value(name = "2.4")]
    V2_4,
}

impl From<Version> for DovecotVersion {
    fn from(version: Version) -> Self {
        match version {
            Version::V2_3 => Self::V2_3,
            Version::V2_4 => Self::V2_4,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Output {
    /// Write the files into this directory instead of printing them
    #[arg(long, value_name = "DIRECTORY")]
    write: Option<PathBuf>,
    /// A database user that may only read; without one, mailapi's own user
    #[arg(long, value_name = "NAME", requires = "lookup_password_file")]
    lookup_user: Option<String>,
    /// A file that holds that user's password
    #[arg(long, value_name = "FILE", requires = "lookup_user")]
    lookup_password_file: Option<PathBuf>,
}

impl Output {
    fn database(&self, config: &Config) -> Outcome<LookupDatabase> {
        if config.mail.external.users.is_set() {
            // The printed files would make Postfix and Dovecot look mailboxes up in mailapi's database.
            return Err(Failure::new(
                "mail.external.users is set: keep the present configuration of Postfix and Dovecot, and add the lines \
                 from the operating guide",
            ));
        }
        let mut database = config.database.lookup(&config.data_dir)?;
        if let (LookupDatabase::Postgres(place), Some(user), Some(file)) =
            (&mut database, &self.lookup_user, &self.lookup_password_file)
        {
            let password = named_file::read_text(file)
                .map_err(|error| Failure::new(format!("{} cannot be read: {error}", file.display())))?;
            place.user.clone_from(user);
            place.password = Some(SecretText::new(password.trim_end_matches(['\r', '\n']).to_owned()));
        }
        Ok(database)
    }

    /// Path of the files, as the mail server sees it.
    fn directory(&self, usual: &str) -> String {
        let given = self.write.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        given.as_deref().map_or_else(|| usual.to_owned(), |path: &Path| path.display().to_string())
    }
}

pub(super) fn run(command: &Command, config: &Config) -> Outcome {
    match command {
        // The configuration was loaded and checked before the command; only the files that a server reads remain.
        Command::Check => {
            config.check_files()?;
            let note = host_name::missing(config).map(|why| format!("note: {why}; {}\n", host_name::ADVICE));
            let warnings: String = config.warnings().iter().map(|warning| format!("warning: {warning}\n")).collect();
            print(&format!("the configuration is valid: {}\n{warnings}{}", config.origin(), note.unwrap_or_default()))
        }
        Command::Print => print(&config.to_toml()),
        Command::Postfix { output, proof } => {
            let directory = output.directory(PostfixConfiguration::DIRECTORY);
            let files = postfix(config, &output.database(config)?, &directory, proof.certificate());
            files::put(&files, output.write.as_deref())
        }
        Command::Dovecot { output, version, proof } => {
            let directory = output.directory(DovecotConfiguration::DIRECTORY);
            let files = dovecot(config, &output.database(config)?, &directory, *version, proof.certificate())?;
            files::put(&files, output.write.as_deref())
        }
    }
}

fn postfix(
    config: &Config,
    database: &LookupDatabase,
    directory: &str,
    certificate: Certificate<'_>,
) -> Vec<PrintedFile> {
    let external = &config.mail.external;
    let (smtp_port, syslog_name) = (external.smtp.port, external.syslog_name());
    PostfixConfiguration { database, smtp_port, syslog_name, certificate }.files(directory)
}

fn dovecot(
    config: &Config,
    database: &LookupDatabase,
    directory: &str,
    version: Version,
    certificate: Certificate<'_>,
) -> Outcome<Vec<PrintedFile>> {
    let external = &config.mail.external;
    let configuration = DovecotConfiguration {
        database,
        version: version.into(),
        imap_port: external.imap.port,
        master_user: &external.imap.master_user,
        master_password: external.imap.password()?,
        master_separator: &external.imap.master_separator,
        require_app_passwords: config.auth.require_app_passwords,
        doveadm: external.doveadm_port().zip(external.doveadm_key()?),
        applies_rules: external.rules,
        certificate,
    };
    Ok(configuration.files(directory))
}
