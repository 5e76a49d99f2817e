//! `mailapi user`.

use clap::{Args, Subcommand};
use mailapi_http::{user_json, users_json};
use mailapi_model::{DomainName, EmailAddress, PasswordRule, Quota, SaveSent, SecretText};
use mailapi_service::Service;
use mailapi_service::users::{CreateUser, User, UserQuery};

use super::confirm::confirm;
use super::pages::every_page;
use super::table::{fields, table};
use super::{Init, Shown, about, app_password, caller, password, print, rules, user_import};
use crate::config::{ByteSize, Config};
use crate::failure::Outcome;
use crate::wiring::{self, Create};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a user with a mailbox; the password is read from the standard input
    ///
    /// On a terminal the password is asked for twice and not shown. Otherwise it is the first line of the standard
    /// input. It has at least 8 characters.
    Add(Add),
    /// Add the users of a CSV file, with their passwords or password hashes
    ///
    /// The first line names the columns: email, name, quota_bytes, and password_hash or password. A hash has one of the
    /// schemes {SHA512-CRYPT}, {SSHA512} and {BLF-CRYPT}. Each line is reported; users that exist are skipped.
    Import(user_import::Import),
    /// List users, newest first; `?` where the mail server did not report a mailbox's usage
    List {
        /// Only users of this domain
        #[arg(long)]
        domain: Option<DomainName>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show one user
    Show {
        /// The user's address
        email: EmailAddress,
        #[command(flatten)]
        shown: Shown,
    },
    /// Remove a user with the mailbox, all mail in it, and the user's tokens; asks first on a terminal
    Remove {
        /// The user's address
        email: EmailAddress,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Manage passwords of single mail programs, for IMAP and submission
    #[command(subcommand)]
    AppPassword(app_password::Command),
    /// Show or replace the rules for messages that arrive, in the JSON of the API
    #[command(subcommand)]
    Rules(rules::Command),
    /// Set or print which messages of a user are copied to the folder Sent
    SaveSent {
        /// The user's address
        email: EmailAddress,
        /// off, api (those sent through the API) or all (also those from mail programs); without it, prints the present
        /// value
        which: Option<SaveSent>,
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
    /// The user's display name
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// How much mail the mailbox may hold, such as 2GiB [default: limits.default_quota]
    #[arg(long, value_name = "SIZE")]
    quota: Option<ByteSize>,
    #[command(flatten)]
    init: Init,
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    let create = if let Command::Add(arguments) = &command { arguments.init.create() } else { Create::Nothing };
    wiring::with_service(config, create, async |service| match command {
        Command::Add(arguments) => add(&service, arguments).await,
        Command::Import(arguments) => user_import::run(arguments, &service).await,
        Command::List { domain, shown } => list(&service, domain, &shown).await,
        Command::Show { email, shown } => show(&service, &email, &shown).await,
        Command::Remove { email, yes } => remove(&service, &email, yes).await,
        Command::AppPassword(command) => app_password::run(command, &service).await,
        Command::Rules(command) => rules::run(command, &service).await,
        Command::SaveSent { email, which } => save_sent(&service, &email, which).await,
        Command::Passwd { email } => {
            // A mistyped address fails before the command asks for a password.
            service.get_user(&caller(), &email).await.map_err(|error| about(&email, error))?;
            let changed = service.set_password(&caller(), &email, new_password()?).await;
            changed.map_err(|error| about(&email, error))
        }
    })
    .await
}

async fn add(service: &Service, arguments: Add) -> Outcome {
    let Add { email, name, quota, init: _ } = arguments;
    // An address that cannot be added fails before the command asks for a password.
    service.check_new_user(&caller(), &email).await.map_err(|error| about(&email, error))?;
    let password = new_password()?.into();
    let quota_bytes = quota.map(|ByteSize(bytes)| bytes);
    let new = CreateUser { email: email.clone(), password, name, quota_bytes };
    service.create_user(&caller(), new).await.map(drop).map_err(|error| about(&email, error))
}

async fn list(service: &Service, domain: Option<DomainName>, shown: &Shown) -> Outcome {
    let (caller, query) = (caller(), UserQuery { domain, ..UserQuery::default() });
    let users = every_page(|page| service.list_users(&caller, query.clone(), page)).await?;
    if shown.json {
        return print(&users_json(users));
    }
    let rows: Vec<_> = users.iter().map(row).collect();
    print(&table(["EMAIL", "NAME", "STATE", "ADMIN", "MESSAGES", "BYTES", "QUOTA"], &rows))
}

async fn show(service: &Service, email: &EmailAddress, shown: &Shown) -> Outcome {
    let user = service.get_user(&caller(), email).await.map_err(|error| about(email, error))?;
    if shown.json {
        return print(&user_json(user));
    }
    let [address, name, state, admin, messages, bytes, quota] = row(&user);
    print(&fields(&[
        ("email", address),
        ("name", name),
        ("state", state),
        ("admin", admin),
        ("messages", messages),
        ("bytes", bytes),
        ("quota", quota),
        ("created", user.account.created_at.to_string()),
        ("last login", user.account.last_login_at.map_or_else(|| "-".to_owned(), |at| at.to_string())),
    ]))
}

async fn save_sent(service: &Service, email: &EmailAddress, which: Option<SaveSent>) -> Outcome {
    match which {
        Some(which) => service.set_preferences(&caller(), email, which).await.map_err(|error| about(email, error)),
        None => {
            let present = service.get_preferences(&caller(), email).await.map_err(|error| about(email, error))?;
            print(&format!("{present}\n"))
        }
    }
}

async fn remove(service: &Service, email: &EmailAddress, yes: bool) -> Outcome {
    if !yes {
        service.get_user(&caller(), email).await.map_err(|error| about(email, error))?;
        confirm(&format!("This removes {} and all mail in this mailbox.", email.shown()))?;
    }
    service.delete_user(&caller(), email).await.map_err(|error| about(email, error))
}

fn row(user: &User) -> [String; 7] {
    let held = |bytes_or_messages: fn(&Quota) -> u64| {
        user.quota.as_ref().map(bytes_or_messages).map_or_else(|| "?".to_owned(), |number| number.to_string())
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

/// Reads a new password, and checks it.
pub(super) fn new_password() -> Outcome<SecretText> {
    Ok(PasswordRule::parse("password", password::read_new()?.into_inner())?)
}
