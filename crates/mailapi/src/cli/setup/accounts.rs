//! The first domain and mailbox, and the domain's DNS records.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown, lchown};
use std::path::{Path, PathBuf};

use mailapi_model::{DomainName, EmailAddress};
use mailapi_service::Service;
use mailapi_service::domains::DomainError;
use mailapi_service::users::{CreateUser, UserError};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Choices;
use crate::cli::domain::dns_table;
use crate::cli::user::new_password;
use crate::cli::{caller, print};
use crate::config::{Config, Database};
use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::system::ServiceUser;
use crate::wiring::{self, Create, check_database};

/// Creates the domain and the mailbox unless they exist. A new data directory, and new files in an existing one, belong to
/// `user`.
pub(super) async fn create(config: &Config, choices: &Choices, user: Option<ServiceUser>) -> Outcome {
    let before = Before::of(&config.data_dir, user.as_ref(), &choices.user)?;
    let created = wiring::with_service(config, Create::Missing, async |service| {
        create_domain(&service, &choices.domain).await?;
        create_mailbox(&service, &choices.mailbox).await
    });
    let created = created.await;
    // Also after a failure: the next attempt finds the files, and then leaves their owner alone.
    if let Some(user) = user {
        let failed = |error| Failure::new(format!("the owner of {} cannot be set: {error}", config.data_dir.display()));
        before.give_new_to(&user).map_err(failed)?;
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

/// The data directory before this process writes to it.
enum Before {
    /// It does not exist; this is the highest directory of its path that does not.
    Missing(PathBuf),
    /// It has these entries.
    Existing(PathBuf, HashSet<OsString>),
}

impl Before {
    /// Refuses a directory in which the server could not work.
    fn of(path: &Path, user: Option<&ServiceUser>, name: &str) -> Outcome<Self> {
        if let Some(new) = first_new(path) {
            return Ok(Self::Missing(new));
        }
        if user.is_some_and(|user| path.metadata().is_ok_and(|directory| directory.uid() != user.uid)) {
            let path = path.display();
            return Err(Failure::new(format!(
                "the data directory {path} does not belong to the user {name}; run `chown -R {name}: {path}`"
            )));
        }
        Ok(Self::Existing(path.to_owned(), entries(path)?))
    }

    fn give_new_to(&self, user: &ServiceUser) -> io::Result<()> {
        match self {
            Self::Missing(new) => give_to(user, new),
            Self::Existing(path, before) => {
                entries(path)?.difference(before).try_for_each(|name| give_file_to(user, &path.join(name)))
            }
        }
    }
}

fn entries(path: &Path) -> io::Result<HashSet<OsString>> {
    std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// Gives a file that this process created in a directory of the user, who may have replaced it by a link to a file of
/// others meanwhile.
fn give_file_to(user: &ServiceUser, path: &Path) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // SQLite removes its other files.
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let found = file.metadata()?;
    let is_ours = found.is_file() && found.nlink() == 1 && found.uid() == rustix::process::geteuid().as_raw();
    if is_ours { fchown(&file, Some(user.uid), Some(user.gid)) } else { Ok(()) }
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

    #[test]
    fn new_files_in_a_directory_of_the_server_are_given_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, file) = (directory.path(), |name: &str| directory.path().join(name));
        std::fs::write(file("old"), "").unwrap();
        // Only root can give files to others.
        let uid = if rustix::process::geteuid().is_root() { 65_534 } else { path.metadata().unwrap().uid() };
        let user = ServiceUser { uid, gid: path.metadata().unwrap().gid() };
        std::os::unix::fs::chown(path, Some(uid), None).unwrap();
        let before = Before::of(path, Some(&user), "mailapi").unwrap();
        std::fs::write(file("new"), "").unwrap();
        std::os::unix::fs::symlink(file("old"), file("link")).unwrap();
        std::fs::hard_link(file("old"), file("second-name")).unwrap();
        assert!(before.give_new_to(&user).is_err(), "a link is not followed");
        std::fs::remove_file(file("link")).unwrap();
        before.give_new_to(&user).unwrap();
        assert_eq!(file("new").metadata().unwrap().uid(), uid);
        assert_eq!(file("old").metadata().unwrap().uid(), rustix::process::geteuid().as_raw());
        let other = ServiceUser { uid: uid + 1, ..user };
        let refused = Before::of(path, Some(&other), "mailapi").err().unwrap();
        assert!(refused.to_string().contains("run `chown -R mailapi: "), "{refused}");
    }
}
