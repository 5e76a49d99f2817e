//! The HTTP/JSON API: routes, authentication, errors, limits, and the OpenAPI document.
//!
//! A handler translates: it takes a [`Caller`](caller::Caller), parses the request into types of `model`, calls the
//! operation of the same name in `service`, and serializes the result. `service` and `model` decide what an operation
//! does and who may call it.

mod answer;
mod body;
mod bounded_json;
mod byte_budget;
mod caller;
mod challenge;
mod client_address;
mod closing;
mod contents;
mod discard;
mod docs;

mod download;
mod error;
mod error_codes;
mod guard;
mod head_lines;
mod head_room;
mod health;
mod hosted;
mod http2;
mod interface;
mod json;
mod json_text;
mod large_json;
mod limits;
mod long_answer;
mod long_strings;
mod message_body;
mod metrics;
mod openapi;
mod operations;
mod parser_errors;
mod path;
mod query;
mod records;
mod request_body;
mod request_id;
mod request_layer;
mod response_cache;
mod router;
mod routes;
mod serve;
mod settings;
mod shape;
mod state;
mod wrapped_stream;
mod write_timeout;

pub use download::download;
pub use error::ApiError;
pub use interface::{Authenticated, BodyRoom, NoRoom, TokenUse, count_client, page, read_body};
pub use limits::RequestLimits;
pub use metrics::metrics_router;
pub use openapi::openapi_json;
pub use records::{
    alias_json, aliases_json, app_passwords_json, created_app_password_json, created_token_json, created_webhook_json,
    dkim_json, dns_applied_json, dns_changes_json, dns_plan_json, dns_rolled_back_json, domain_dns_json, domain_json,
    domain_security_json, domains_json, queue_json, queued_message_json, rules_from_json, rules_json, token_json,
    tokens_json, user_json, users_json, webhooks_json,
};
pub use response_cache::{FolderPage, PageForm, Unwritten};
pub use router::{router, router_with};
pub use routes::to_the_end;
pub use serve::{ApiListeners, serve};
pub use settings::HttpSettings;
pub use state::HttpState;
