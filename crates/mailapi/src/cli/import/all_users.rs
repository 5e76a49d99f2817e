//! `mailapi import-all`: the mailboxes of all users of an IMAP server.

use std::io::{self, BufReader};

use clap::Args;
use mailapi_model::{EmailAddress, SecretText};
use mailapi_service::Service;
use mailapi_service::users::UserQuery;

use super::from_imap::{import_mailbox, tls};
use super::report::Report;
use super::{Chosen, ImapServer, Target};
use crate::cli::input_file::InputFile;
use crate::cli::pages::every_page;
use crate::cli::user_import::{Lines, fields};
use crate::cli::{about, caller, password, print};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::rights_thread::RightsThread;
use crate::wiring::{self, Create, MailServer};

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportAll {
    #[command(flatten)]
    server: ImapServer,
    /// A CSV file whose first line names the columns: email, user and password; without it, all users are imported
    ///
    /// `user` is the name at the server, by default the address. `password` is needed unless there is a master user.
    #[arg(long, value_name = "FILE", required_unless_present = "master_user")]
    accounts: Option<InputFile>,
    /// A user that may read other users' mailboxes
    #[arg(long, value_name = "USER")]
    master_user: Option<String>,
    /// A file whose first line is the master user's password
    #[arg(long, value_name = "FILE", requires = "master_user")]
    password_file: Option<InputFile>,
    #[command(flatten)]
    chosen: Chosen,
}

pub(in crate::cli) async fn run(arguments: ImportAll, config: &Config) -> Outcome {
    if config.is_external() {
        return Err(Failure::new(
            "the mailboxes are Dovecot's, which imports them itself: doveadm backup -R for each user",
        ));
    }
    wiring::with_assembly(config, Create::Nothing, async |assembly| {
        let MailServer::Embedded(embedded) = &assembly.mail else { return Ok(()) };
        let ImportAll { server, accounts, master_user, password_file, chosen } = arguments;
        let (tls, chosen) = (tls(&server)?, chosen.for_several());
        let master = master_user.map(|user| master(user, password_file.as_ref(), &server.host)).transpose()?;
        let mut failed = 0;
        let accounts = match &accounts {
            Some(file) => read(file, master.is_some(), &mut failed)?,
            None => all(&assembly.service).await?,
        };
        let place = RightsThread::start()?;
        for Account { email, user, password } in accounts {
            let settings = match (&master, password) {
                (Some((name, password)), _) => server.settings(user, Some(name.clone()), password.clone()),
                (None, Some(password)) => server.settings(user, None, password),
                (None, None) => continue,
            };
            let mut report = Report::new();
            let outcome = match assembly.service.get_user(&caller(), &email).await {
                Ok(_) => {
                    let target = Target { store: embedded.message_store(), email: &email, place: &place };
                    let outcome = import_mailbox(&target, (&settings, &tls), &chosen, &mut report).await;
                    if outcome.is_ok() {
                        embedded.message_store().end_import(&email).await?;
                    }
                    outcome
                }
                Err(error) => Err(about(&email, error)),
            };
            if let Err(failure) = report.end(&email, outcome) {
                failed += 1;
                print(&format!("{}: failed: {failure}\n", email.shown()))?;
            }
        }
        match failed {
            0 => Ok(()),
            failed => Err(Failure::new(format!("{failed} mailboxes not imported completely"))),
        }
    })
    .await
}

fn master(user: String, file: Option<&InputFile>, host: &str) -> Outcome<(String, SecretText)> {
    let password = match file {
        Some(file) => password::read_file(file)?,
        None => password::read_known(&format!("Password of {user} at {host}: "))?,
    };
    Ok((user, password))
}

/// A mailbox to import.
#[derive(Debug)]
struct Account {
    email: EmailAddress,
    /// The name at the server.
    user: String,
    password: Option<SecretText>,
}

async fn all(service: &Service) -> Outcome<Vec<Account>> {
    let (caller, query) = (caller(), UserQuery::default());
    let mut users = every_page(|page| service.list_users(&caller, query.clone(), page)).await?;
    users.sort_by(|one, other| one.account.email.cmp(&other.account.email));
    users.dedup_by(|one, other| one.account.email == other.account.email);
    let accounts = users.into_iter().map(|user| user.account.email);
    Ok(accounts.map(|email| Account { user: email.as_str().to_owned(), email, password: None }).collect())
}

/// Reads the file. Lines that cannot be read are reported and counted.
fn read(file: &InputFile, has_master: bool, failed: &mut u64) -> Outcome<Vec<Account>> {
    let in_file = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", file.display()));
    let failed_read = |error: io::Error| in_file(&error);
    let mut lines = Lines::new(BufReader::new(file.reader().map_err(failed_read)?));
    let header = lines.next().map_err(failed_read)?.ok_or_else(|| in_file(&"the file is empty"))?;
    let columns = header.and_then(|header| Columns::read(&header, has_master)).map_err(|error| in_file(&error))?;
    let mut accounts = Vec::new();
    while let Some(line) = lines.next().map_err(failed_read)? {
        match line.and_then(|line| columns.account(&line)) {
            Ok(account) => accounts.extend(account),
            Err(reason) => {
                *failed += 1;
                print(&format!("line {}: failed: {reason}\n", lines.number()))?;
            }
        }
    }
    Ok(accounts)
}

/// The columns, in the order of the file.
#[derive(Debug)]
struct Columns {
    names: Vec<String>,
    has_master: bool,
}

impl Columns {
    const KNOWN: [&str; 3] = ["email", "user", "password"];

    fn read(header: &str, has_master: bool) -> Result<Self, String> {
        let names: Vec<String> = fields(header)?.iter().map(|name| name.trim().to_owned()).collect();
        if names.iter().any(|name| !Self::KNOWN.contains(&name.as_str())) {
            return Err(format!("line 1: unknown column; the columns are {}", Self::KNOWN.join(", ")));
        }
        let columns = Self { names, has_master };
        match () {
            () if columns.place("email").is_none() => Err("line 1: the column `email` is missing".to_owned()),
            () if !has_master && columns.place("password").is_none() => {
                Err("line 1: the column `password` is missing, and there is no --master-user".to_owned())
            }
            () => Ok(columns),
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Reads a line; `None` for an empty one.
    fn account(&self, line: &str) -> Result<Option<Account>, String> {
        if line.is_empty() {
            return Ok(None);
        }
        let fields = fields(line)?;
        if fields.len() != self.names.len() {
            return Err(format!("there are {} fields instead of {}", fields.len(), self.names.len()));
        }
        let field = |name| self.place(name).and_then(|at| fields.get(at)).filter(|text| !text.is_empty());
        let email = field("email").map_or("", |email| email.trim());
        let email: EmailAddress = email.parse().map_err(|error| format!("email: {error}"))?;
        let user = field("user").map_or_else(|| email.as_str().to_owned(), |user| user.trim().to_owned());
        let password = field("password").cloned().map(SecretText::new);
        if password.is_none() && !self.has_master {
            return Err("password: is required".to_owned());
        }
        Ok(Some(Account { email, user, password }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accounts_are_read_with_their_names_at_the_server() {
        let columns = Columns::read("user,email,password", false).unwrap();
        let account = columns.account("ann1,ann@example.org,\"a,b\"").unwrap().unwrap();
        let password = account.password.map(|password| password.expose().clone());
        assert_eq!(
            (account.user.as_str(), account.email.as_str(), password.as_deref()),
            ("ann1", "ann@example.org", Some("a,b"))
        );
        let account = columns.account(",ann@example.org,x").unwrap().unwrap();
        assert_eq!(account.user, "ann@example.org");
        for (line, reason) in
            [("ann@example.org", "1 fields instead of 3"), (",ann@example.org,", "password"), (",ann,x", "email: ")]
        {
            let error = columns.account(line).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Columns::read("email", false).is_err() && Columns::read("user", true).is_err());
        assert!(Columns::read("email", true).unwrap().account("ann@example.org").unwrap().unwrap().password.is_none());
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(line in "(,|\"|email|user|[a-z@.]{1,6}|\\PC){0,12}") {
            let _ = Columns::read(&line, true);
            let _ = Columns::read("email,user,password", false).unwrap().account(&line);
        }
    }
}
