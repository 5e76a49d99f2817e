//! `mailapi domain`.

use clap::Subcommand;
use mailapi_model::{Domain, DomainName};
use mailapi_service::{Caller, Service};

use super::pages::every_page;
use super::print;
use super::table::table;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a mail domain; it is active at once and gets a DKIM key
    Add {
        /// The domain's name, such as example.org
        name: DomainName,
        /// What is noted about it
        #[arg(long)]
        description: Option<String>,
    },
    /// List mail domains, newest first
    List,
    /// Remove a mail domain that has no users
    Remove {
        /// The domain's name
        name: DomainName,
        /// Remove its users and all their mail with it
        #[arg(long)]
        force: bool,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    wiring::with_service(config, async |service| match command {
        Command::Add { name, description } => add(&service, name, description).await,
        Command::List => list(&service).await,
        Command::Remove { name, force } => {
            let removed = service.delete_domain(&Caller::operator(), &name, force).await;
            removed.map_err(|error| Failure::new(format!("{}: {error}", name.shown())))
        }
    })
    .await
}

async fn add(service: &Service, name: DomainName, description: Option<String>) -> Outcome {
    let added = service.create_domain(&Caller::operator(), name.clone(), description).await;
    added.map(drop).map_err(|error| Failure::new(format!("{}: {error}", name.shown())))
}

async fn list(service: &Service) -> Outcome {
    let operator = Caller::operator();
    let domains = every_page(|page| service.list_domains(&operator, page)).await?;
    let rows: Vec<_> = domains.iter().map(row).collect();
    print(&table(["DOMAIN", "STATE", "USERS", "DKIM SELECTOR", "CREATED", "DESCRIPTION"], &rows))
}

fn row(domain: &Domain) -> [String; 6] {
    [
        domain.name.shown().to_owned(),
        if domain.active { "active" } else { "inactive" }.to_owned(),
        domain.user_count.to_string(),
        domain.dkim_selector.clone().unwrap_or_else(|| "-".to_owned()),
        domain.created_at.to_string(),
        domain.description.clone().unwrap_or_default(),
    ]
}
