//! `mailapi webhook`.

use clap::{Args, Subcommand};
use mailapi_http::{created_webhook_json, webhooks_json};
use mailapi_model::{DomainName, EmailAddress, WebhookId, WebhookSigning};
use mailapi_service::Service;
use mailapi_service::events::{EventCursor, TypePattern};
use mailapi_service::webhooks::{CreateWebhook, Replay, ReplayedEvents, Webhook, public_key};

use super::pages::every_page;
use super::table::table;
use super::{Shown, caller, print};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::wiring::{self, Create};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Register a receiver of events and print its secret, which cannot be shown again
    Add(NewWebhook),
    /// List webhooks, newest first
    List(Shown),
    /// Send a test message to a webhook
    Test {
        /// The webhook's number, from `mailapi webhook list`
        id: i64,
    },
    /// Send events again, with the same identifiers as before
    ///
    /// With `--only failed`, the default, prints the number of these events. The server sends them in the
    /// background.
    Replay(ReplayedEventsOf),
    /// Remove a webhook
    Remove {
        /// The webhook's number, from `mailapi webhook list`
        id: i64,
    },
}

#[derive(Debug, Args)]
pub(super) struct NewWebhook {
    /// The receiver's URL, such as https://example.org/webhook
    url: String,
    /// Types of events, such as message.delivered, message.* or *
    #[arg(long, value_name = "TYPES", value_delimiter = ',', default_value = "message.*")]
    types: Vec<TypePattern>,
    /// Only events of this domain
    #[arg(long)]
    domain: Option<DomainName>,
    /// Only events of this mailbox
    #[arg(long, value_name = "ADDRESS")]
    mailbox: Option<EmailAddress>,
    /// A note
    #[arg(long, default_value = "")]
    description: String,
    /// How messages are signed: v1 (HMAC with a secret) or v1a (Ed25519 with a public key)
    #[arg(long, value_name = "KIND", default_value_t = WebhookSigning::V1)]
    signing: WebhookSigning,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
pub(super) struct ReplayedEventsOf {
    /// The webhook's number, from `mailapi webhook list`
    id: i64,
    /// Events after this position, which `GET /events` returns as `cursor`; 0 is the beginning
    #[arg(long, value_name = "CURSOR")]
    after: EventCursor,
    /// Events up to this position, only with `--only failed` [default: the last event that was attempted]
    #[arg(long, value_name = "CURSOR")]
    before: Option<EventCursor>,
    /// failed (those that the receiver did not get) or all
    #[arg(long, value_name = "WHICH", default_value_t = ReplayedEvents::Failed)]
    only: ReplayedEvents,
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    wiring::with_service(config, Create::Nothing, async |service| match command {
        Command::Add(arguments) => add(&service, arguments).await,
        Command::List(shown) => list(&service, &shown).await,
        Command::Test { id } => test(&service, WebhookId(id)).await,
        Command::Replay(arguments) => replay(&service, &arguments).await,
        Command::Remove { id } => Ok(service.delete_webhook(&caller(), WebhookId(id)).await?),
    })
    .await
}

async fn add(service: &Service, arguments: NewWebhook) -> Outcome {
    let NewWebhook { url, types, domain, mailbox, description, signing, shown } = arguments;
    let caller = caller();
    let new = CreateWebhook { url, types, domain, mailbox, description, signing, secret: None, enabled: true };
    let (webhook, secret) = service.create_webhook(&caller, new).await?;
    if shown.json {
        return print(&created_webhook_json(webhook, secret, &caller));
    }
    let key = secret.map(mailapi_model::Secret::into_inner).or_else(|| public_key(&webhook)).unwrap_or_default();
    print(&format!("{key}\n"))
}

async fn list(service: &Service, shown: &Shown) -> Outcome {
    let caller = caller();
    let webhooks = every_page(|page| service.list_webhooks(&caller, page)).await?;
    if shown.json {
        return print(&webhooks_json(webhooks));
    }
    let rows: Vec<_> = webhooks.iter().map(row).collect();
    print(&table(["ID", "STATE", "URL", "TYPES", "EVENTS OF", "LAST SUCCESS", "DESCRIPTION"], &rows))
}

async fn test(service: &Service, id: WebhookId) -> Outcome {
    let result = service.test_webhook(&caller(), id).await?;
    let status = result.status.map(|status| format!("the receiver answered with status {status}"));
    let outcome = status.or(result.error).unwrap_or_default();
    if result.delivered { print(&format!("{outcome}\n")) } else { Err(Failure::new(outcome)) }
}

async fn replay(service: &Service, arguments: &ReplayedEventsOf) -> Outcome {
    let &ReplayedEventsOf { id, after, before, only } = arguments;
    let count = service.replay_webhook(&caller(), WebhookId(id), Replay { after, before, only }).await?;
    match count {
        Some(count) => print(&format!("{count}\n")),
        None => Ok(()),
    }
}

fn row(webhook: &Webhook) -> [String; 7] {
    let mailbox = webhook.mailbox.as_ref().map(|mailbox| mailbox.shown().to_owned());
    let domain = webhook.domain.as_ref().map(|domain| domain.shown().to_owned());
    let state = match webhook.disabled_because {
        Some(because) if !webhook.enabled => format!("disabled ({because})"),
        _ if webhook.failing_since.is_some() => "failing".to_owned(),
        _ => "enabled".to_owned(),
    };
    [
        webhook.id.to_string(),
        state,
        webhook.url.clone(),
        webhook.types.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        mailbox.or(domain).unwrap_or_else(|| "everything".to_owned()),
        webhook.last_success_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
        webhook.description.clone(),
    ]
}
