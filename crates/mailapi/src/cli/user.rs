//! `mailapi user`.

use clap::{Args, Subcommand};
use mailapi_model::{DomainName, EmailAddress, PasswordRule, Quota, SecretText};
use mailapi_service::users::{CreateUser, User, UserQuery};
use mailapi_service::{Caller, Service};

use super::pages::every_page;
use super::table::table;
use super::{password, print};
use crate::config::{ByteSize, Config};
use crate::failure::{Failure, Outcome};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a user with a mailbox; the password is read from the standard input
    ///
    /// On a terminal the password is asked for twice and not shown. Otherwise it is the first line of the standard
    /// input. It has at least 8 characters.
    Add(Add),
    /// List users, newest first; `?` where the mailbox server does not tell what a mailbox holds
    List {
        /// Only those of this domain
        #[arg(long)]
        domain: Option<DomainName>,
    },
    /// Remove a user with the mailbox, all mail in it, and the user's tokens
    Remove {
        /// The user's address
        email: EmailAddress,
    },
    /// Set a new password, read from the standard input, and end the user's sessions
    Passwd {
        /// The user's address
        email: EmailAddress,
    },
}

#[derive(Debug, Args)]
pub(super) struct Add {
    /// The user's address; its domain must exist
    email: EmailAddress,
    /// What the user is called
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// How much mail the mailbox may hold, such as 2GiB [default: limits.default_quota]
    #[arg(long, value_name = "SIZE")]
    quota: Option<ByteSize>,
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    wiring::with_service(config, async |service| match command {
        Command::Add(arguments) => add(&service, arguments).await,
        Command::List { domain } => list(&service, domain).await,
        Command::Remove { email } => {
            let removed = service.delete_user(&Caller::operator(), &email).await;
            removed.map_err(|error| about(&email, error))
        }
        Command::Passwd { email } => {
            // Asked first, so that nobody types a password twice for a mistyped address.
            service.get_user(&Caller::operator(), &email).await.map_err(|error| about(&email, error))?;
            let changed = service.set_password(&Caller::operator(), &email, new_password()?).await;
            changed.map_err(|error| about(&email, error))
        }
    })
    .await
}

async fn add(service: &Service, arguments: Add) -> Outcome {
    let Add { email, name, quota } = arguments;
    let password = new_password()?;
    let quota_bytes = quota.map(|ByteSize(bytes)| bytes);
    let new = CreateUser { email: email.clone(), password, name, quota_bytes };
    service.create_user(&Caller::operator(), new).await.map(drop).map_err(|error| about(&email, error))
}

async fn list(service: &Service, domain: Option<DomainName>) -> Outcome {
    let (operator, query) = (Caller::operator(), UserQuery { domain, ..UserQuery::default() });
    let users = every_page(|page| service.list_users(&operator, query.clone(), page)).await?;
    let rows: Vec<_> = users.iter().map(row).collect();
    print(&table(["EMAIL", "NAME", "STATE", "ADMIN", "MESSAGES", "BYTES", "QUOTA"], &rows))
}

fn row(user: &User) -> [String; 7] {
    let held = |octets_or_messages: fn(&Quota) -> u64| {
        user.quota.as_ref().map(octets_or_messages).map_or_else(|| "?".to_owned(), |number| number.to_string())
    };
    [
        user.account.email.shown().to_owned(),
        user.account.name.clone(),
        if user.account.active { "enabled" } else { "disabled" }.to_owned(),
        if user.is_admin { "yes" } else { "no" }.to_owned(),
        held(|quota| quota.messages),
        held(|quota| quota.used_bytes),
        user.account.quota_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
    ]
}

fn new_password() -> Outcome<SecretText> {
    Ok(PasswordRule::parse("password", password::read_new()?.into_inner())?)
}

fn about(email: &EmailAddress, error: impl std::error::Error) -> Failure {
    Failure::new(format!("{}: {error}", email.shown()))
}
