//! `mailapi domain dkim`: the keys that sign a domain's mail.

use clap::Subcommand;
use mailapi_http::dkim_json;
use mailapi_model::{DkimAlgorithm, DkimState, DomainKey, DomainName};
use mailapi_service::Service;

use super::domain::about;
use super::table::{fields, table};
use super::{Shown, caller, print};
use crate::failure::Outcome;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the keys of a domain, newest first, and the records of those that are not retired
    List {
        /// The domain's name
        name: DomainName,
        #[command(flatten)]
        shown: Shown,
    },
    /// Create a key under a new selector; the old one signs until the record of the new one is found
    Rotate {
        /// The domain's name
        name: DomainName,
        /// rsa-sha256 or ed25519-sha256; keys of both sign side by side
        #[arg(long, default_value_t = DkimAlgorithm::Rsa2048)]
        algorithm: DkimAlgorithm,
        #[command(flatten)]
        shown: Shown,
    },
}

pub(super) async fn run(service: &Service, command: Command) -> Outcome {
    let (name, shown) = match command {
        Command::List { name, shown } => (name, shown),
        Command::Rotate { name, algorithm, shown } => {
            service.rotate_dkim(&caller(), &name, algorithm).await.map_err(|error| about(&name, error))?;
            (name, shown)
        }
    };
    let keys = service.list_dkim_keys(&caller(), &name).await.map_err(|error| about(&name, error))?;
    if shown.json { print(&dkim_json(&name, keys)) } else { print(&text(&name, &keys)) }
}

/// Formats the keys, and what DNS must have of them.
fn text(name: &DomainName, keys: &[DomainKey]) -> String {
    let rows: Vec<_> = keys.iter().map(row).collect();
    let mut text = table(["SELECTOR", "ALGORITHM", "STATE", "SINCE"], &rows);
    for DomainKey { key, .. } in keys.iter().filter(|key| key.state() != DkimState::Retired) {
        text.push('\n');
        text += &fields(&[("TXT record", key.dns_name(name)), ("value", key.dns_value())]);
    }
    text
}

fn row(key: &DomainKey) -> [String; 4] {
    let (state, steps) = (key.state(), key.steps);
    let since = match state {
        DkimState::Pending => None,
        DkimState::Published => steps.published_at,
        DkimState::Active => steps.active_at,
        DkimState::Retiring => steps.retiring_at,
        DkimState::Retired => steps.retired_at,
    };
    [
        key.key.selector.clone(),
        key.key.algorithm.as_str().to_owned(),
        state.as_str().to_owned(),
        since.unwrap_or(key.key.created_at).to_string(),
    ]
}
