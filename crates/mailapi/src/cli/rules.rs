//! `mailapi user rules`.

use std::io::Read;

use clap::Subcommand;
use mailapi_http::{rules_from_json, rules_json};
use mailapi_model::{EmailAddress, Violations};
use mailapi_service::Service;
use mailapi_service::users::UserError;

use super::input_file::InputFile;
use super::{about, caller, print};
use crate::failure::{Failure, Outcome};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the rules of a user's mailbox
    Get {
        /// The user's address
        email: EmailAddress,
    },
    /// Replace all rules of a user's mailbox
    Set {
        /// The user's address
        email: EmailAddress,
        /// A file with the rules, as `get` prints them
        file: InputFile,
    },
}

pub(super) async fn run(command: Command, service: &Service) -> Outcome {
    match command {
        Command::Get { email } => {
            let rules = service.get_rules(&caller(), &email).await.map_err(|error| about(&email, error))?;
            print(&rules_json(&rules))
        }
        Command::Set { email, file } => set(service, &email, &file).await,
    }
}

async fn set(service: &Service, email: &EmailAddress, file: &InputFile) -> Outcome {
    let mut json = Vec::new();
    let read = file.reader().and_then(|mut reader| reader.read_to_end(&mut json));
    read.map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    let rules = rules_from_json(&json).map_err(|violations| in_file(file, &violations))?;
    let replaced = service.replace_rules(&caller(), email, rules).await;
    replaced.map(drop).map_err(|error| match error {
        UserError::Invalid(violations) => in_file(file, &violations),
        error => about(email, error),
    })
}

fn in_file(file: &InputFile, violations: &Violations) -> Failure {
    Failure::new(format!("{}: {violations}", file.display()))
}
