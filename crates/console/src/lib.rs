//! The console: pages for browsers at `/console`.
//!
//! A page translates, as a handler of the API does. It takes a [`Session`](session::Session), reads the query or the
//! form as [`Fields`](fields::Fields), calls the operation in `service`, and fills a template. The console has no
//! rights of its own: `service` checks the grants of the caller, who has the same token as in the API.
//!
//! To add a page:
//!
//! 1. Write `src/pages/NAME.rs` with a struct that derives `askama::Template`. Its first field is a
//!    [`Frame`](frame::Frame), which has the title, the navigation, the note of the last change, and the API calls.
//! 2. Write `templates/NAME.html`, which extends `layout.html` and fills the block `content`. A list includes
//!    `pager.html`.
//! 3. Add the routes in [`routes`], and the page to the navigation in `frame.rs`.
//! 4. A change is a `POST` that ends with [`done`](answer::done): a redirect to a page that shows a
//!    [`Note`](note::Note). Errors of operations convert to [`Failure`](failure::Failure) with `?`, and become a page
//!    with the status and the message of the API.
//! 5. Add the page to the table of `tests/pages/rights.rs`, which opens every page as every kind of caller.
//!
//! Pages work without JavaScript. With it, parts that have `data-refresh` load themselves again.

mod answer;
mod assets;
mod clean;
mod effort;
mod failure;
mod fields;
mod frame;
mod guard;
mod note;
mod pager;
mod pages;
mod plot;
mod session;
mod show;
mod upload;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{any, get, post};
use mailapi_http::HttpState;

use crate::pages::{
    account, aliases, domains, events, lockouts, log_in, mail, messages, overview, permissions, publishing, queue,
    rules, statistics, system, tokens, users, webhooks, write,
};

/// Every page, below `/console`.
pub fn routes() -> Router<HttpState> {
    Router::new()
        .route("/console", get(overview::show))
        .route("/console/", get(overview::redirect))
        .route("/console/login", get(log_in::show).post(log_in::with_password))
        .route("/console/login/token", post(log_in::with_token))
        .route("/console/logout", post(log_in::log_out))
        .route("/console/messages", get(messages::list))
        .route("/console/messages/{message_id}", get(messages::show))
        .route("/console/events", get(events::list))
        .route("/console/queue", get(queue::list))
        .route("/console/queue/{queue_id}", post(queue::act))
        .route("/console/domains", get(domains::list).post(domains::create))
        .route("/console/domains/{domain}", get(domains::show).post(domains::act))
        .route("/console/domains/{domain}/dns", get(publishing::show).post(publishing::act))
        .route("/console/mail", get(mail::choose))
        .route("/console/mail/{email}", get(mail::list))
        .route("/console/mail/{email}/{uid}", get(mail::show))
        .route("/console/mail/{email}/{uid}/html", get(mail::html))
        .route("/console/mail/{email}/{uid}/raw", get(mail::raw))
        .route("/console/mail/{email}/{uid}/attachment/{index}", get(mail::attachment))
        .route("/console/write", get(write::show).post(write::act))
        .route("/console/users", get(users::list).post(users::create))
        .route("/console/users/{email}", get(users::show).post(users::act))
        .route("/console/aliases", get(aliases::list).post(aliases::act))
        .route("/console/rules", get(rules::own))
        .route("/console/rules/{email}", get(rules::list).post(rules::act))
        .route("/console/rules/{email}/{place}", get(rules::edit).post(rules::save))
        .route("/console/lockouts", get(lockouts::list).post(lockouts::unlock))
        .route("/console/permissions", get(permissions::list).post(permissions::act))
        .route("/console/tokens", get(tokens::list).post(tokens::act))
        .route("/console/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/console/webhooks/{id}", get(webhooks::show).post(webhooks::act))
        .route("/console/account", get(account::show).post(account::act))
        .route("/console/statistics", get(statistics::show))
        .route("/console/system", get(system::show))
        .route("/console/assets/{file}", get(assets::file))
        .route("/console/{*rest}", any(log_in::unknown))
        .layer(from_fn(guard::guard))
}
