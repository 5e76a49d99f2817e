//! The first domain and mailbox, and the domain's DNS records.

use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use mailapi_model::{DomainName, EmailAddress};
use mailapi_service::Service;
use mailapi_service::domains::DomainError;
use mailapi_service::users::{CreateUser, UserError};

use super::Choices;
use crate::cli::domain::dns_table;
use crate::cli::user::new_password;
use crate::cli::{caller, print};
use crate::config::{Config, Database};
use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::system::ServiceUser;
use crate::wiring::{self, Create, check_database};

/// Creates the domain and the mailbox unless they exist. A new data directory belongs to `user`.
pub(super) async fn create(config: &Config, choices: &Choices, user: Option<ServiceUser>) -> Outcome {
    let new = first_new(&config.data_dir);
    let created = wiring::with_service(config, Create::Missing, async |service| {
        create_domain(&service, &choices.domain).await?;
        create_mailbox(&service, &choices.mailbox).await
    });
    let created = created.await;
    // Also after a failure: the next attempt finds the directory, and then leaves its owner alone.
    if let (Some(new), Some(user)) = (new, user) {
        let failed = |error| Failure::new(format!("the owner of {} cannot be set: {error}", new.display()));
        give_to(&user, &new).map_err(failed)?;
    }
    created
}

async fn create_domain(service: &Service, domain: &DomainName) -> Outcome {
    match service.create_domain(&caller(), domain.clone(), None).await {
        Ok(_) => print(&format!("domain {}: created\n", domain.shown())),
        Err(DomainError::Exists) => print(&format!("domain {}: exists\n", domain.shown())),
        Err(error) => Err(Failure::new(format!("{}: {error}", domain.shown()))),
    }
}

async fn create_mailbox(service: &Service, email: &EmailAddress) -> Outcome {
    let failed = |error| Failure::new(format!("{}: {error}", email.shown()));
    match service.check_new_user(&caller(), email).await {
        Ok(()) => {}
        Err(UserError::Exists) => return print(&format!("mailbox {}: exists\n", email.shown())),
        Err(error) => return Err(failed(error)),
    }
    let (password, name) = (new_password()?.into(), String::new());
    let new = CreateUser { email: email.clone(), password, name, quota_bytes: None };
    service.create_user(&caller(), new).await.map_err(failed)?;
    print(&format!("mailbox {}: created\n", email.shown()))
}

/// Returns the highest directory of the path that does not exist yet.
fn first_new(path: &Path) -> Option<PathBuf> {
    path.ancestors().take_while(|ancestor| !ancestor.exists()).last().map(Path::to_owned)
}

/// Gives a directory that this process created, with everything in it. A directory comes after its content: its new owner
/// could replace the content by links to files of others.
fn give_to(user: &ServiceUser, path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give_to(user, &entry?.path())?;
        }
    }
    lchown(path, Some(user.uid), Some(user.gid))
}

/// Prints the zone file of the domain, and what DNS has of its records.
pub(super) async fn show_records(config: &Config, domain: &DomainName, is_written: bool) -> Outcome {
    let exists = || DataDir::existing(&config.data_dir).and_then(|directory| check_database(config, &directory));
    if is_written || exists().is_ok() {
        return wiring::with_service(config, Create::Nothing, async |service| {
            match service.get_domain(&caller(), domain).await {
                Err(DomainError::NotFound) => preview(config, domain).await,
                _ => show(&service, domain, true).await,
            }
        })
        .await;
    }
    preview(config, domain).await
}

/// Shows the records of a domain that does not exist: it is created in a directory that is removed again.
async fn preview(config: &Config, domain: &DomainName) -> Outcome {
    let directory = tempfile::tempdir()?;
    let mut config = config.clone();
    // The environment may name a database elsewhere.
    (config.data_dir, config.database) = (directory.path().to_owned(), Database::default());
    wiring::with_service(&config, Create::Missing, async |service| {
        service.create_domain(&caller(), domain.clone(), None).await?;
        show(&service, domain, false).await
    })
    .await
}

/// Without `has_key` the domain's DKIM key is not the one that will sign, so its record is left out.
async fn show(service: &Service, domain: &DomainName, has_key: bool) -> Outcome {
    let setup = service.get_dns(&caller(), domain).await?;
    let mut zone_file = setup.zone_file;
    if !has_key {
        zone_file = without_key(&zone_file);
    }
    let records: Vec<_> = setup.records.into_iter().filter(|record| has_key || record.purpose != "DKIM").collect();
    print(&format!("### DNS records\n{zone_file}\n### What DNS has\n{}\n", dns_table(&records)))
}

/// Removes the DKIM records from a zone file, each with the comment before it.
fn without_key(zone_file: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in zone_file.lines() {
        if !line.contains("._domainkey.") {
            lines.push(line);
        } else if lines.last().is_some_and(|before| before.starts_with("; ") && before.ends_with(':')) {
            lines.pop();
        }
    }
    lines.push("; DKIM: --write creates the key, and then shows its record.\n");
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_an_unused_key_is_not_shown() {
        let shown = without_key(
            "; DNS records\na. 1 IN MX 10 b.\n; Not checked:\ns._domainkey.a. 1 IN TXT \"p=x\"\nc. 1 IN MX 1 d.\n",
        );
        let expected = "; DNS records\na. 1 IN MX 10 b.\nc. 1 IN MX 1 d.\n; DKIM: --write creates the key, and then shows its record.\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn only_new_directories_change_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(first_new(directory.path()), None);
        assert_eq!(first_new(&directory.path().join("lib/data")), Some(directory.path().join("lib")));
    }
}
