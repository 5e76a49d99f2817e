//! `mailapi queue`.

use clap::{Args, Subcommand};
use mailapi_http::{queue_json, queued_message_json};
use mailapi_model::{DomainName, EmailAddress, QueueId, QueueState, Timestamp};
use mailapi_service::Service;
use mailapi_service::queue::{QueueChange, QueueEntry, QueueFilter, QueuedFor};

use super::pages::every_page;
use super::table::{fields, table};
use super::{Shown, caller, print};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::wiring::{self, Create};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List messages that are not finished, those that wait longest first
    List(List),
    /// Show a message with its recipients
    Show {
        /// The queue id, from `mailapi queue list`
        id: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Make the waiting recipients of a message due now
    Retry {
        /// The queue id, from `mailapi queue list`
        id: String,
    },
    /// Start no further delivery attempt until the message is released
    Hold {
        /// The queue id, from `mailapi queue list`
        id: String,
    },
    /// End the hold of a message, and make it due now
    Release {
        /// The queue id, from `mailapi queue list`
        id: String,
    },
    /// Remove a message; its waiting recipients become `bounced`, and the sender gets no notice
    Cancel {
        /// The queue id, from `mailapi queue list`
        id: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only messages from or to an address of this domain
    #[arg(long)]
    domain: Option<DomainName>,
    /// Only messages to this address
    #[arg(long, value_name = "ADDRESS")]
    recipient: Option<EmailAddress>,
    /// Only messages with a recipient in this state: queued, active, deferred, held or sent
    #[arg(long)]
    state: Option<QueueState>,
    #[command(flatten)]
    shown: Shown,
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    wiring::with_service(config, Create::Nothing, async |service| match command {
        Command::List(arguments) => list(&service, arguments).await,
        Command::Show { id, shown } => show(&service, id, &shown).await,
        Command::Retry { id } => change(&service, id, QueueChange::Retry).await,
        Command::Hold { id } => change(&service, id, QueueChange::Hold).await,
        Command::Release { id } => change(&service, id, QueueChange::Release).await,
        Command::Cancel { id } => change(&service, id, QueueChange::Cancel).await,
    })
    .await
}

async fn list(service: &Service, arguments: List) -> Outcome {
    let List { domain, recipient, state, shown } = arguments;
    let (caller, filter) = (caller(), QueueFilter { domain, recipient, state });
    let entries = every_page(|page| service.list_queue(&caller, &filter, page)).await?;
    if shown.json {
        return print(&queue_json(entries));
    }
    let rows: Vec<_> = entries.iter().map(row).collect();
    print(&table(["QUEUE ID", "QUEUED AT", "SIZE", "STATE", "SENDER", "RECIPIENTS", "LAST REPLY"], &rows))
}

async fn show(service: &Service, id: String, shown: &Shown) -> Outcome {
    let id = QueueId(id);
    let entry = service.queued_message(&caller(), &id).await.map_err(|error| failed(&id, &error))?;
    if shown.json {
        return print(&queued_message_json(entry));
    }
    let rows: Vec<_> = entry.recipients.iter().map(recipient_row).collect();
    let text = fields(&[
        ("queue_id", entry.queue_id.0.clone()),
        ("message_id", entry.message_id.map(|id| id.to_string()).unwrap_or_default()),
        ("sender", entry.sender.clone()),
        ("size", entry.size.to_string()),
        ("queued_at", entry.queued_at.to_string()),
        ("expires_at", time(entry.expires_at)),
        ("recipients", entry.recipient_count.to_string()),
    ]);
    print(&format!("{text}\n{}", table(["RECIPIENT", "STATE", "ATTEMPTS", "NEXT ATTEMPT", "LAST REPLY"], &rows)))
}

async fn change(service: &Service, id: String, change: QueueChange) -> Outcome {
    let id = QueueId(id);
    service.change_queued_message(&caller(), &id, change).await.map_err(|error| failed(&id, &error))
}

fn failed(id: &QueueId, error: &dyn std::error::Error) -> Failure {
    Failure::new(format!("{id}: {error}"))
}

fn row(entry: &QueueEntry) -> [String; 7] {
    let mut states: Vec<_> = entry.recipients.iter().map(|recipient| recipient.state.as_str()).collect();
    states.sort_unstable();
    states.dedup();
    let first = entry.recipients.first().map(|recipient| recipient.email.clone()).unwrap_or_default();
    let more = entry.recipient_count.saturating_sub(1);
    let last_reply = entry.recipients.iter().find_map(|recipient| recipient.last_reply.clone());
    [
        entry.queue_id.0.clone(),
        entry.queued_at.to_string(),
        entry.size.to_string(),
        states.join(","),
        if entry.sender.is_empty() { "<>".to_owned() } else { entry.sender.clone() },
        if more > 0 { format!("{first} and {more} more") } else { first },
        last_reply.unwrap_or_default(),
    ]
}

fn recipient_row(recipient: &QueuedFor) -> [String; 5] {
    [
        recipient.email.clone(),
        recipient.state.as_str().to_owned(),
        recipient.attempts.map_or_else(|| "-".to_owned(), |attempts| attempts.to_string()),
        time(recipient.next_attempt_at),
        recipient.last_reply.clone().unwrap_or_default(),
    ]
}

fn time(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.to_string())
}
