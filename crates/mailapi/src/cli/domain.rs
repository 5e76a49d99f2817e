//! `mailapi domain`.

use clap::Subcommand;
use mailapi_http::{domain_json, domain_security_json, domains_json};
use mailapi_model::{Domain, DomainName};
use mailapi_service::Service;
use mailapi_service::domains::DomainProtection;

use super::confirm::confirm;
use super::dkim;
use super::dns::{self, DomainDns};
use super::pages::every_page;
use super::table::{fields, table};
use super::{Init, Shown, caller, print};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::wiring::{self, Create};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a mail domain; it is active at once and gets a DKIM key
    Add {
        /// The domain's name, such as example.org
        name: DomainName,
        /// A note for its admins
        #[arg(long)]
        description: Option<String>,
        #[command(flatten)]
        init: Init,
    },
    /// List mail domains, newest first
    List(Shown),
    /// Show one mail domain, with the DNS record of its DKIM key
    Show {
        /// The domain's name
        name: DomainName,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show the DNS records that a mail domain needs, and which are published; plan and make changes
    Dns(DomainDns),
    /// Show how well the DNS records protect a mail domain, and the next step
    Security {
        /// The domain's name
        name: DomainName,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show the DKIM keys of a mail domain with their steps and records; create a new one
    #[command(subcommand)]
    Dkim(dkim::Command),
    /// Remove a mail domain that has no users
    Remove {
        /// The domain's name
        name: DomainName,
        /// Remove its users and all their mail with it; asks first on a terminal
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    let create = if let Command::Add { init, .. } = &command { init.create() } else { Create::Nothing };
    wiring::with_service(config, create, async |service| match command {
        Command::Add { name, description, init: _ } => add(&service, name, description).await,
        Command::List(shown) => list(&service, &shown).await,
        Command::Show { name, shown } => show(&service, &name, &shown).await,
        Command::Dns(dns) => dns::run_of_domain(&service, dns).await,
        Command::Security { name, shown } => security(&service, &name, &shown).await,
        Command::Dkim(command) => dkim::run(&service, command).await,
        Command::Remove { name, force, yes } => remove(&service, &name, force, yes).await,
    })
    .await
}

async fn add(service: &Service, name: DomainName, description: Option<String>) -> Outcome {
    let added = service.create_domain(&caller(), name.clone(), description).await;
    added.map(drop).map_err(|error| about(&name, error))
}

async fn list(service: &Service, shown: &Shown) -> Outcome {
    let caller = caller();
    let domains = every_page(|page| service.list_domains(&caller, page)).await?;
    if shown.json {
        return print(&domains_json(domains));
    }
    let rows: Vec<_> = domains.iter().map(row).collect();
    print(&table(["DOMAIN", "STATE", "USERS", "DKIM SELECTOR", "CREATED", "DESCRIPTION"], &rows))
}

async fn show(service: &Service, name: &DomainName, shown: &Shown) -> Outcome {
    let domain = service.get_domain(&caller(), name).await.map_err(|error| about(name, error))?;
    // A domain that waits for approval has no DKIM key yet.
    let key = service.list_dkim_keys(&caller(), name).await.map_err(|error| about(name, error))?;
    let key = key.into_iter().next().map(|key| key.key);
    if shown.json {
        return print(&domain_json(domain, key.as_ref()));
    }
    let verified = domain.verified_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let [shown_name, state, users, selector, created, description] = row(&domain);
    let (dkim_name, dkim_value) = key.map(|key| (key.dns_name(name), key.dns_value())).unwrap_or_default();
    print(&fields(&[
        ("domain", shown_name),
        ("state", state),
        ("users", users),
        ("created", created),
        ("verified", verified),
        ("description", description),
        ("DKIM selector", selector),
        ("DKIM record", dkim_name),
        ("DKIM value", dkim_value),
    ]))
}

async fn security(service: &Service, name: &DomainName, shown: &Shown) -> Outcome {
    let posture = service.domain_posture(&caller(), name).await.map_err(|error| about(name, error))?;
    if shown.json {
        return print(&domain_security_json(posture));
    }
    let rows: Vec<_> = posture.protections.iter().map(protection).collect();
    let summary = [("level", posture.level.as_str().to_owned()), ("next step", posture.next_step.unwrap_or_default())];
    print(&format!("{}\n{}", table(["PROTECTION", "LEVEL", "NOW"], &rows), fields(&summary)))
}

fn protection(protection: &DomainProtection) -> [String; 3] {
    [protection.kind.to_owned(), protection.level.as_str().to_owned(), protection.text.clone()]
}

async fn remove(service: &Service, name: &DomainName, force: bool, yes: bool) -> Outcome {
    if force && !yes {
        let domain = service.get_domain(&caller(), name).await.map_err(|error| about(name, error))?;
        confirm(&format!("This removes {} and its {} users with all their mail.", name.shown(), domain.user_count))?;
    }
    service.delete_domain(&caller(), name, force).await.map_err(|error| about(name, error))
}

pub(super) fn about(name: &DomainName, error: impl std::error::Error) -> Failure {
    Failure::new(format!("{}: {error}", name.shown()))
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
