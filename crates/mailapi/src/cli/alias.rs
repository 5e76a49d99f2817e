//! `mailapi alias`.

use clap::Subcommand;
use mailapi_http::{alias_json, aliases_json};
use mailapi_model::{Alias, DomainName, EmailAddress};
use mailapi_service::Service;
use mailapi_service::aliases::{AliasError, AliasQuery, CreateAlias};

use super::pages::every_page;
use super::table::{fields, table};
use super::{Shown, caller, print};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::wiring::{self, Create};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add an alias
    Add {
        /// The alias's address; '*@example.org' is the catch-all of example.org
        address: EmailAddress,
        /// The addresses that receive its mail
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<EmailAddress>,
        /// A user who may send from it; may be repeated
        #[arg(long = "sender", value_name = "USER")]
        senders: Vec<EmailAddress>,
        /// Refuse mail to it until it is activated
        #[arg(long)]
        inactive: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// List aliases, newest first
    List {
        /// Only aliases of this domain
        #[arg(long)]
        domain: Option<DomainName>,
        /// Only aliases with this text in the address or in a member's address
        #[arg(long, value_name = "TEXT")]
        q: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show one alias
    Show {
        /// The alias's address
        address: EmailAddress,
        #[command(flatten)]
        shown: Shown,
    },
    /// Remove an alias; its members and their mail stay
    Remove {
        /// The alias's address
        address: EmailAddress,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    wiring::with_service(config, Create::Nothing, async |service| match command {
        Command::Add { address, members, senders, inactive, shown } => {
            add(&service, CreateAlias { address, members, senders, active: !inactive }, &shown).await
        }
        Command::List { domain, q, shown } => list(&service, AliasQuery { domain, q }, &shown).await,
        Command::Show { address, shown } => show(&service, &address, &shown).await,
        Command::Remove { address } => {
            service.delete_alias(&caller(), &address).await.map_err(|error| about(&address, &error))
        }
    })
    .await
}

async fn add(service: &Service, new: CreateAlias, shown: &Shown) -> Outcome {
    let address = new.address.clone();
    let alias = service.create_alias(&caller(), new).await.map_err(|error| about(&address, &error))?;
    if shown.json { print(&alias_json(alias)) } else { Ok(()) }
}

async fn list(service: &Service, query: AliasQuery, shown: &Shown) -> Outcome {
    let caller = caller();
    let aliases = every_page(|page| service.list_aliases(&caller, query.clone(), page)).await?;
    if shown.json {
        return print(&aliases_json(aliases));
    }
    let rows: Vec<_> = aliases.iter().map(row).collect();
    print(&table(["ADDRESS", "STATE", "CREATED", "MEMBERS"], &rows))
}

async fn show(service: &Service, address: &EmailAddress, shown: &Shown) -> Outcome {
    let alias = service.get_alias(&caller(), address).await.map_err(|error| about(address, &error))?;
    if shown.json {
        return print(&alias_json(alias));
    }
    let [address, state, created, members] = row(&alias);
    let senders = listed(&alias.senders);
    print(&fields(&[
        ("address", address),
        ("state", state),
        ("created", created),
        ("members", members),
        ("senders", senders),
    ]))
}

fn about(address: &EmailAddress, error: &AliasError) -> Failure {
    Failure::new(format!("{}: {error}", address.shown()))
}

fn row(alias: &Alias) -> [String; 4] {
    [
        alias.address.shown().to_owned(),
        if alias.active { "active" } else { "inactive" }.to_owned(),
        alias.created_at.to_string(),
        listed(&alias.members),
    ]
}

fn listed(addresses: &[EmailAddress]) -> String {
    addresses.iter().map(EmailAddress::shown).collect::<Vec<_>>().join(", ")
}
