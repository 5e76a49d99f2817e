//! The OpenAPI document. Its paths come from the routes, so it cannot contain a path that does not exist.

mod event_samples;
mod finish;
mod responses;
mod samples;
mod shapes;

use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Components, ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Server};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{ErrorBody, ErrorDetail};
use crate::router;
use crate::shape::ErrorCodeName;

const TOKEN: &str = "token";

/// The SPDX expression of the crates' manifests.
const LICENSE: &str = env!("CARGO_PKG_LICENSE");

const DESCRIPTION: &str = "\
Send mail, follow its delivery, and read mailboxes over HTTP and JSON.

**Authentication.** Send a token in the header `X-MAILAPI-TOKEN`: an API token, or the session token that \
`POST /api/v1/auth/login` returns. Only logging in and signing up need no token. An admin token has full access. A user \
token has access to its own mailbox, and to what an admin granted to that mailbox.

**Responses.** Every body is a JSON object with a boolean `success`, except downloads and `GET /api/v1/tokens/me`. Times \
are in UTC, such as `2026-11-20T10:15:30.123Z`. Requests may use any offset; filters also accept a date. Lists take \
`limit` and `offset` and return `total`; events are read by cursor instead.

**Errors.** Every error is an `ApiError`: `success` is false, `error` is a code for programs, and `message` is a sentence \
for people. With `VALIDATION_ERROR`, `details` lists every invalid field.

**Headers.** Every response has `X-Request-Id`: the value from the request if it has 1 to 128 letters, digits, `-`, `_`, \
`.` or `:`, otherwise a new one. Responses to valid tokens have `RateLimit-Limit`, `RateLimit-Remaining` and \
`RateLimit-Reset` (seconds). By default each token may make 100 requests a minute and 1000 an hour. A 429 has \
`Retry-After` in seconds.";

/// The document as `mailapi openapi` prints it: pretty, with a line end.
#[must_use]
pub fn openapi_json() -> String {
    let mut text = serde_json::to_string_pretty(&finished(None)).unwrap_or_default();
    text.push('\n');
    text
}

/// The document as the server returns it. `public_url` is the address of the server, if it is configured.
pub(crate) fn served(public_url: Option<&str>) -> Vec<u8> {
    serde_json::to_vec(&finished(public_url)).unwrap_or_default()
}

fn finished(public_url: Option<&str>) -> Option<finish::Ordered> {
    finish::finish(&document(public_url).to_json().ok()?)
}

fn document(public_url: Option<&str>) -> OpenApi {
    let mut document = router::document();
    let public_url = public_url.map(|url| url.trim_end_matches('/'));
    document.servers = Some(vec![Server::new(public_url.unwrap_or("/"))]);
    shapes::simplify(&mut document);
    responses::complete(&mut document);
    samples::add(&mut document, public_url);
    event_samples::add(&mut document);
    document
}

/// The document without paths.
pub(crate) fn frame() -> OpenApi {
    let mut components = Components::new();
    let header = ApiKeyValue::with_description("X-MAILAPI-TOKEN", "API token or session token.");
    components.add_security_scheme(TOKEN, SecurityScheme::ApiKey(ApiKey::Header(header)));
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    components.schemas.insert(ErrorDetail::name().into_owned(), ErrorDetail::schema());
    components.schemas.insert(ErrorCodeName::name().into_owned(), ErrorCodeName::schema());
    let info = InfoBuilder::new()
        .title("mailapi")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .contact(Some(ContactBuilder::new().name(Some("The mailapi maintainers")).build()))
        .license(Some(LicenseBuilder::new().name(LICENSE).identifier(Some(LICENSE)).build()))
        .build();
    let tag = |(name, text): (&str, &str)| TagBuilder::new().name(name).description(Some(text)).build();
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .security(Some([SecurityRequirement::new(TOKEN, [""; 0])]))
        .tags(Some(TAGS.map(tag)))
        .build()
}

const TAGS: [(&str, &str); 13] = [
    ("mail", "Send messages and follow their delivery."),
    ("events", "The log of events, by cursor or as a stream."),
    ("queue", "The mail server's queue, for admins."),
    ("mailbox", "Read folders, messages and attachments. Reading never changes flags."),
    ("stats", "Delivery statistics of sent mail and counts of received mail, per recipient."),
    ("tokens", "API tokens."),
    ("auth", "Sessions for users who log in with the password of their mailbox, and self-signup."),
    ("permissions", "Permissions that admins grant to users, each for one domain."),
    ("domains", "Mail domains with their DNS records and DKIM keys."),
    ("users", "User accounts and their mailboxes."),
    ("aliases", "Addresses whose mail goes to other addresses."),
    ("webhooks", "Sending events to HTTP receivers, signed as Standard Webhooks specifies."),
    ("service", "Health checks and documentation. No token is needed."),
];
