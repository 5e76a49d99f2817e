//! `mailapi token`.

use clap::{Args, Subcommand, ValueEnum};
use mailapi_model::{EmailAddress, Timestamp, TokenId, TokenKind, TokenRecord};
use mailapi_service::tokens::CreateToken;
use mailapi_service::{Caller, Service};

use super::pages::every_page;
use super::print;
use super::table::table;
use crate::config::Config;
use crate::failure::Outcome;
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a token and print its value, which cannot be shown again
    Create(Create),
    /// List tokens, newest first
    List,
    /// Switch a token off for good
    Revoke {
        /// The token's number, from `mailapi token list`
        id: i64,
    },
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Whether the token reaches everything, or one mailbox
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Kind,
    /// What the token is called in lists
    #[arg(long)]
    name: String,
    /// The mailbox that a user token is bound to
    #[arg(long, value_name = "ADDRESS", required_if_eq("kind", "user"))]
    email: Option<EmailAddress>,
    /// When the token ends by itself: a date or a time such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse_date_or_time)]
    expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Reaches everything
    Admin,
    /// Reaches the mailbox it is bound to
    User,
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    wiring::with_service(config, async |service| match command {
        Command::Create(arguments) => create(&service, arguments).await,
        Command::List => list(&service).await,
        Command::Revoke { id } => Ok(service.revoke_token(&Caller::operator(), TokenId(id)).await?),
    })
    .await
}

async fn create(service: &Service, arguments: Create) -> Outcome {
    let Create { kind, name, email, expires_at } = arguments;
    let kind = match kind {
        Kind::Admin => TokenKind::Admin,
        Kind::User => TokenKind::User,
    };
    let new = CreateToken { name, kind, email, expires_at };
    let (_, value) = service.create_token(&Caller::operator(), new).await?;
    print(&format!("{}\n", value.expose()))
}

async fn list(service: &Service) -> Outcome {
    let operator = Caller::operator();
    let tokens = every_page(|page| service.list_tokens(&operator, page)).await?;
    let rows: Vec<_> = tokens.iter().map(row).collect();
    print(&table(["ID", "TYPE", "STATE", "PREFIX", "EMAIL", "NAME", "LAST USED", "EXPIRES"], &rows))
}

fn row(token: &TokenRecord) -> [String; 8] {
    let time = |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
    [
        token.id.to_string(),
        if token.is_session { "session".to_owned() } else { token.kind.as_str().to_owned() },
        if token.is_active { "active" } else { "revoked" }.to_owned(),
        token.prefix.clone(),
        token.email.as_ref().map_or_else(|| "-".to_owned(), |email| email.shown().to_owned()),
        token.name.clone(),
        time(token.last_used_at),
        time(token.expires_at),
    ]
}
