//! `mailapi token`.

use clap::{Args, Subcommand, ValueEnum};
use mailapi_http::{created_token_json, token_json, tokens_json};
use mailapi_model::{EmailAddress, Timestamp, TokenId, TokenKind, TokenRecord};
use mailapi_service::Service;
use mailapi_service::tokens::CreateToken;

use super::pages::every_page;
use super::table::{fields, table};
use super::{Init, Shown, caller, print};
use crate::config::Config;
use crate::failure::Outcome;
use crate::wiring::{self, Create};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a token and print its value, which cannot be shown again
    Create(NewToken),
    /// List tokens, newest first
    List(Shown),
    /// Show one token, without its value
    Show {
        /// The token's number, from `mailapi token list`
        id: i64,
        #[command(flatten)]
        shown: Shown,
    },
    /// Revoke a token, which cannot be undone
    Revoke {
        /// The token's number, from `mailapi token list`
        id: i64,
    },
}

#[derive(Debug, Args)]
pub(super) struct NewToken {
    /// Whether the token gives access to everything, or to one mailbox
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Kind,
    /// The token's name in lists
    #[arg(long)]
    name: String,
    /// The mailbox that a user token is bound to
    #[arg(long, value_name = "ADDRESS", required_if_eq("kind", "user"))]
    email: Option<EmailAddress>,
    /// When the token expires: a date or a time such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse_date_or_time)]
    expires_at: Option<Timestamp>,
    #[command(flatten)]
    init: Init,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Gives access to everything
    Admin,
    /// Gives access to its mailbox only
    User,
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    let create_missing =
        if let Command::Create(arguments) = &command { arguments.init.create() } else { Create::Nothing };
    wiring::with_service(config, create_missing, async |service| match command {
        Command::Create(arguments) => create(&service, arguments).await,
        Command::List(shown) => list(&service, &shown).await,
        Command::Show { id, shown } => show(&service, TokenId(id), &shown).await,
        Command::Revoke { id } => Ok(service.revoke_token(&caller(), TokenId(id)).await?),
    })
    .await
}

async fn create(service: &Service, arguments: NewToken) -> Outcome {
    let NewToken { kind, name, email, expires_at, init: _, shown } = arguments;
    let kind = match kind {
        Kind::Admin => TokenKind::Admin,
        Kind::User => TokenKind::User,
    };
    let new = CreateToken { name, kind, email, expires_at };
    let (record, value) = service.create_token(&caller(), new).await?;
    match shown.json {
        true => print(&created_token_json(record, &value)),
        false => print(&format!("{}\n", value.expose())),
    }
}

async fn list(service: &Service, shown: &Shown) -> Outcome {
    let caller = caller();
    let tokens = every_page(|page| service.list_tokens(&caller, page)).await?;
    if shown.json {
        return print(&tokens_json(tokens));
    }
    let rows: Vec<_> = tokens.iter().map(row).collect();
    print(&table(["ID", "TYPE", "STATE", "PREFIX", "EMAIL", "NAME", "LAST USED", "EXPIRES"], &rows))
}

async fn show(service: &Service, id: TokenId, shown: &Shown) -> Outcome {
    let token = service.get_token(&caller(), id).await?;
    if shown.json {
        return print(&token_json(token));
    }
    let [id, kind, state, prefix, email, name, last_used, expires] = row(&token);
    print(&fields(&[
        ("id", id),
        ("type", kind),
        ("state", state),
        ("prefix", prefix),
        ("email", email),
        ("name", name),
        ("created", token.created_at.to_string()),
        ("last used", last_used),
        ("expires", expires),
    ]))
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
