//! The first domain and mailbox, and the domain's DNS records.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mailapi_files::{FileOwner, OpenDirectory};
use mailapi_model::{DomainName, EmailAddress};
use mailapi_service::Service;
use mailapi_service::domains::DomainError;
use mailapi_service::users::{CreateUser, UserError};

use super::Choices;
use crate::cli::dns::dns_table;
use crate::cli::user::new_password;
use crate::cli::{caller, print};
use crate::config::{Config, Database};
use crate::data_dir::{DIRECTORY_MODE, DataDir};
use crate::failure::{Failure, Outcome};
use crate::system::ServiceUser;
use crate::wiring::{self, Create, check_database};

/// Creates the data directory of `user`, or refuses one in which the server could not work.
pub(super) fn prepare_directory(path: &Path, user: &ServiceUser) -> Outcome {
    let shown = path.display();
    let name = user.shown();
    if let Ok(found) = path.metadata() {
        if found.uid() == user.uid {
            return Ok(());
        }
        return Err(Failure::new(format!(
            "the data directory {shown} does not belong to the user {name}; run `chown -R {name}: {shown}`"
        )));
    }
    let owner = FileOwner { uid: user.uid, gid: user.gid };
    let above = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let mut directory = OpenDirectory::open(above)?;
    // By handles, because the user owns each directory from the second on.
    for component in path.strip_prefix(above)?.components() {
        directory = directory.create_directory(component, DIRECTORY_MODE)?;
        directory.give_to(owner)?;
    }
    Ok(())
}

/// Creates the domain and the mailbox unless they exist.
pub(super) async fn create(config: &Config, choices: &Choices) -> Outcome {
    wiring::with_service(config, Create::Missing, async |service| {
        create_domain(&service, &choices.domain).await?;
        create_mailbox(&service, &choices.mailbox).await
    })
    .await
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
    fn only_new_directories_belong_to_the_user() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lib/mailapi/data");
        // Only root can give directories to others.
        let uid =
            if rustix::process::geteuid().is_root() { 65_534 } else { directory.path().metadata().unwrap().uid() };
        let user = ServiceUser { name: Some("mailapi".to_owned()), uid, gid: uid, groups: Vec::new() };
        prepare_directory(&path, &user).unwrap();
        for path in path.ancestors().take(3) {
            let found = path.metadata().unwrap();
            assert_eq!((found.uid(), found.mode() & 0o777), (uid, 0o700), "{}", path.display());
        }
        assert_eq!(directory.path().metadata().unwrap().uid(), rustix::process::geteuid().as_raw());
        prepare_directory(&path, &user).expect("it exists, and belongs to the user");
        let refused = prepare_directory(&path, &ServiceUser { uid: uid + 1, ..user }).unwrap_err().to_string();
        assert!(refused.contains("run `chown -R mailapi: "), "{refused}");
    }
}
