//! Costs as a function of the data on a server: `mailapi-bench scale`. Each group writes a table.

mod accounts;
mod bulk;
mod clients;
mod events;
mod external;
mod folders;
mod grown;
mod log;
mod memory;
mod recipients;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::machine;
use crate::measure::Plan;
use crate::outcome::{Failure, Outcome};
use crate::server::Product;
use grown::Grown;

/// What is made larger and larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Folders of 1,000 to 1,000,000 messages
    Folders,
    /// Up to 10,000,000 recipients of sent mail
    Recipients,
    /// Up to 100,000 users in 10,000 domains
    Accounts,
    /// Up to 10,000,000 events in the log
    Events,
    /// Up to 1,000 clients at once
    Clients,
    /// Memory at rest, and for each idle connection and open mailbox
    Memory,
    /// Up to 1,000,000 lines of Postfix' log in one go
    Log,
    /// Folders of 1,000 to 1,000,000 messages in front of Dovecot
    ExternalFolders,
}

/// The sizes of all groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Messages per folder.
    folders: &'static [usize],
    /// Recipients of sent mail; multiples of a thousand.
    recipients: &'static [usize],
    /// Users; multiples of a hundred.
    accounts: &'static [usize],
    /// Events in the log.
    events: &'static [usize],
    /// Parallel clients.
    clients: &'static [usize],
    /// Idle HTTP connections; a quarter as many of IMAP.
    idle_connections: usize,
    /// Lines of a log.
    log: &'static [usize],
    /// Messages per folder in Dovecot.
    external_folders: &'static [usize],
    plan: Plan,
    /// Whether figures are printed; in small sizes they are meaningless.
    is_shown: bool,
}

/// The sizes of the figures in the documentation.
const FULL: Size = Size {
    folders: &[1_000, 10_000, 100_000, 1_000_000],
    recipients: &[10_000, 100_000, 1_000_000, 10_000_000],
    accounts: &[1_000, 10_000, 100_000],
    events: &[10_000, 100_000, 1_000_000, 10_000_000],
    clients: &[1, 10, 100, 1_000],
    idle_connections: 1_000,
    log: &[10_000, 100_000, 1_000_000],
    external_folders: &[1_000, 100_000, 1_000_000],
    plan: Plan { rounds: 5, window: Duration::from_millis(400), warm_up: Duration::from_millis(200) },
    is_shown: true,
};

/// Sizes to verify that everything works.
const SMALL: Size = Size {
    folders: &[100, 1_100],
    recipients: &[2_000, 4_000],
    accounts: &[100, 200],
    events: &[1_000, 100_000],
    clients: &[1, 20],
    idle_connections: 40,
    log: &[600, 1_200],
    external_folders: &[100, 300],
    plan: Plan { rounds: 1, window: Duration::from_millis(50), warm_up: Duration::from_millis(20) },
    is_shown: false,
};

/// Which groups, and where the figures go.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The groups to measure [default: all]
    groups: Vec<Group>,
    /// Use small sizes, to check that the groups work
    #[arg(long)]
    small: bool,
    /// The directory for a table of each group
    #[arg(long, value_name = "DIRECTORY")]
    write: Option<PathBuf>,
}

/// Measures groups one after the other.
pub(crate) async fn run(arguments: &Arguments, product: &Product) -> Outcome {
    let size = if arguments.small { SMALL } else { FULL };
    let groups = if arguments.groups.is_empty() { Group::value_variants() } else { &arguments.groups };
    for group in groups {
        let machine = machine::in_short()?;
        let grown = group.measure(product, &size).await?;
        if let Some(directory) = &arguments.write {
            std::fs::create_dir_all(directory)?;
            let name = group.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            let text = format!("{}\nWritten by `mailapi-bench scale {name}`. {machine}\n", grown.text()?);
            std::fs::write(directory.join(format!("{name}.md")), text)?;
        }
    }
    Ok(())
}

/// Runs all groups in small sizes to verify that they work.
pub(crate) async fn go_through(product: &Product) -> Outcome {
    for group in Group::value_variants() {
        group.measure(product, &SMALL).await?;
        writeln!(std::io::stdout(), "{group:?} works")?;
    }
    Ok(())
}

impl Group {
    async fn measure(self, product: &Product, size: &Size) -> Outcome<Grown> {
        let grown = match self {
            Self::Folders => folders::measure(product, size).await,
            Self::Recipients => recipients::measure(product, size).await,
            Self::Accounts => accounts::measure(product, size).await,
            Self::Events => events::measure(product, size).await,
            Self::Clients => clients::measure(product, size).await,
            Self::Memory => memory::measure(product, size).await,
            Self::Log => log::measure(product, size).await,
            Self::ExternalFolders => external::measure(product, size).await,
        };
        grown.map_err(|failure| Failure::new(format!("{self:?}: {failure:?}")))
    }
}
