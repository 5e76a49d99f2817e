//! `mailapi user app-password`.

use clap::Subcommand;
use mailapi_http::{app_passwords_json, created_app_password_json};
use mailapi_model::{AppPassword, AppPasswordId, EmailAddress};
use mailapi_service::Service;

use super::pages::every_page;
use super::table::table;
use super::{Shown, about, caller, print};
use crate::failure::Outcome;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add an app password and print its value, which cannot be shown again
    Add {
        /// The user's address
        email: EmailAddress,
        /// The app password's name in lists, such as the mail program and the device
        #[arg(long)]
        name: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// List a user's app passwords, newest first
    List {
        /// The user's address
        email: EmailAddress,
        #[command(flatten)]
        shown: Shown,
    },
    /// Revoke an app password, which cannot be undone, and end its sessions
    Remove {
        /// The user's address
        email: EmailAddress,
        /// The app password's number, from `mailapi user app-password list`
        id: i64,
    },
}

pub(super) async fn run(command: Command, service: &Service) -> Outcome {
    match command {
        Command::Add { email, name, shown } => add(service, &email, &name, &shown).await,
        Command::List { email, shown } => list(service, &email, &shown).await,
        Command::Remove { email, id } => {
            let removed = service.revoke_app_password(&caller(), &email, AppPasswordId(id)).await;
            removed.map_err(|error| about(&email, error))
        }
    }
}

async fn add(service: &Service, email: &EmailAddress, name: &str, shown: &Shown) -> Outcome {
    let added = service.create_app_password(&caller(), email, name).await;
    let (record, value) = added.map_err(|error| about(email, error))?;
    match shown.json {
        true => print(&created_app_password_json(record, &value)),
        false => print(&format!("{}\n", value.expose())),
    }
}

async fn list(service: &Service, email: &EmailAddress, shown: &Shown) -> Outcome {
    let caller = caller();
    let listed = every_page(|page| service.list_app_passwords(&caller, email, page)).await;
    let app_passwords = listed.map_err(|error| about(email, error))?;
    if shown.json {
        return print(&app_passwords_json(app_passwords));
    }
    let rows: Vec<_> = app_passwords.iter().map(row).collect();
    print(&table(["ID", "NAME", "CREATED", "LAST USED"], &rows))
}

fn row(app_password: &AppPassword) -> [String; 4] {
    [
        app_password.id.to_string(),
        app_password.name.clone(),
        app_password.created_at.to_string(),
        app_password.last_used_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
    ]
}
