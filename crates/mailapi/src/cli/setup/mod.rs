//! `mailapi setup`: from a machine with a name in the DNS to a mail server.

mod accounts;
mod files;
mod machine;
mod questions;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use mailapi_model::{Clock as _, DomainName, EmailAddress};

use super::{print, runtime};
use crate::config::{Config, environment};
use crate::failure::{Failure, Outcome};
use crate::identity::{Identity, become_user};
use crate::logging::{self, Destination};
use crate::system::{ServiceUser, SystemClock};
use files::{Plan, PlannedFile};

/// The configuration file of a server that systemd starts.
const CONFIG_FILE: &str = "/etc/mailapi/mailapi.toml";
/// Where the documentation installs the program.
const USUAL_PROGRAM: &str = "/usr/local/bin/mailapi";

#[derive(Debug, Args)]
pub(super) struct Setup {
    /// The name of this server in the DNS, such as mx.example.org; asked for on a terminal
    #[arg(long, value_name = "NAME")]
    hostname: Option<DomainName>,
    /// The first mail domain, such as example.org; asked for on a terminal
    #[arg(long, value_name = "NAME")]
    domain: Option<DomainName>,
    /// The first mailbox; it also gets the postmaster's mail. Asked for on a terminal
    #[arg(long, value_name = "ADDRESS")]
    mailbox: Option<EmailAddress>,
    /// Write the files, and create the domain and the mailbox; its password comes from the standard input
    #[arg(long)]
    write: bool,
    /// Connect to this mail server, to check that mail can leave this network; port 25 by default
    #[arg(long, value_name = "HOST[:PORT]")]
    mx: Option<String>,
    /// The directory of the database and of all mail
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/mailapi/data")]
    data_dir: PathBuf,
    /// The file of the systemd unit
    #[arg(long, value_name = "FILE", default_value = "/etc/systemd/system/mailapi.service")]
    unit: PathBuf,
    /// The operating-system user that runs the server
    #[arg(long, value_name = "NAME", default_value = "mailapi")]
    user: String,
}

/// What the files are made of.
struct Choices {
    hostname: DomainName,
    domain: DomainName,
    mailbox: EmailAddress,
    config_file: PathBuf,
    data_dir: PathBuf,
    program: PathBuf,
    user: String,
    /// The address at which the listeners accept connections from everywhere.
    any_address: &'static str,
}

/// Shows what the server needs, and with `--write` creates it. `named` is the configuration file.
pub(super) fn run(setup: Setup, named: Option<&Path>) -> Outcome {
    let environment = environment::of_this_process();
    let choices = setup.choices(named)?;
    let plan = Plan::new(&choices, &setup.unit);
    let config = parsed(&plan.config, &environment)?;
    let user = if setup.write { owner(&choices.user)? } else { None };
    print(&plan.shown())?;
    if setup.write {
        logging::start(&config.log, Destination::Stderr, &config.data_dir)?;
        print(&plan.write(SystemClock::new().now())?)?;
    }
    // Only root can look at every port. The runtime ends here, because threads keep their identity.
    let machine = runtime()?.block_on(machine::findings(&config, &choices, setup.mx.as_deref()));
    match &user {
        Some(user) => {
            accounts::prepare_directory(&config.data_dir, user)?;
            become_user(user)?;
        }
        None => Identity::OfOwner.user(&config.data_dir, None)?.as_ref().map_or(Ok(()), become_user)?,
    }
    runtime()?.block_on(async {
        if setup.write {
            accounts::create(&config, &choices).await?;
        }
        accounts::show_records(&config, &choices.domain, setup.write).await
    })?;
    print(&machine)?;
    print(&next_steps(&setup, &choices))
}

impl Setup {
    fn choices(&self, named: Option<&Path>) -> Outcome<Choices> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(Failure::from);
        let hostname = questions::answer("hostname", self.hostname.clone(), "The name of this server in the DNS")?;
        let domain = questions::answer("domain", self.domain.clone(), "The first mail domain")?;
        let mailbox = questions::answer("mailbox", self.mailbox.clone(), "The first mailbox")?;
        if mailbox.domain() != domain {
            return Err(Failure::new(format!("{} is not in the domain {}", mailbox.shown(), domain.shown())));
        }
        Ok(Choices {
            hostname,
            domain,
            mailbox,
            config_file: absolute(named.unwrap_or_else(|| Path::new(CONFIG_FILE)))?,
            data_dir: absolute(&self.data_dir)?,
            program: own_program(),
            user: self.user.clone(),
            any_address: machine::any_address(),
        })
    }
}

/// Returns the path of this program. The system reveals it in /proc, which some containers lack.
fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from(USUAL_PROGRAM))
}

/// Checks the planned configuration as the server would.
fn parsed(file: &PlannedFile, environment: &[(OsString, OsString)]) -> Outcome<Config> {
    let name = file.path.display().to_string();
    let config = Config::from_layers(Some((&name, &file.text)), environment)?;
    config.check()?;
    Ok(config)
}

/// Returns the user that must own the data; `None` if this process is not root, and owns it itself.
fn owner(name: &str) -> Outcome<Option<ServiceUser>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let missing = || {
        Failure::new(format!(
            "there is no user {name}; create it with `useradd --system --home-dir /var/lib/mailapi --shell \
             /usr/sbin/nologin {name}`"
        ))
    };
    ServiceUser::named(name).map(Some).ok_or_else(missing)
}

fn next_steps(setup: &Setup, choices: &Choices) -> String {
    if !setup.write {
        return "\nNothing was written. --write writes both files, and creates the domain and the mailbox.\n"
            .to_owned();
    }
    let domain = choices.domain.as_str();
    format!(
        "\nNext: publish the records above, and start the server:\n  systemctl daemon-reload\n  systemctl enable --now \
         mailapi\n  mailapi --config {file} domain dns {domain}\n  mailapi --config {file} doctor\n",
        file = choices.config_file.display()
    )
}
