//! The OpenAPI document. Its paths come from the routes themselves, so it cannot name one that does not exist.

mod responses;
mod shapes;

use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Components, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Server};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{ErrorBody, ErrorDetail};
use crate::router::documented_routes;
use crate::shape::ErrorCodeName;

const TOKEN: &str = "token";

/// The expression of SPDX that stands in the crates' manifests.
const LICENSE: &str = env!("CARGO_PKG_LICENSE");

const DESCRIPTION: &str = "\
Sends mail, says what became of it, and reads mailboxes, over HTTP and JSON.

**Tokens.** Every operation of `/api/v1` but logging in and signing up needs a token in the header \
`X-MAILAPI-TOKEN`: an API token, or the session token that logging in gives. An admin token reaches everything; a user token reaches the mailbox it is bound to, and what an admin has delegated to that mailbox.

**Answers.** Every body is a JSON object with a boolean `success`, but for downloads and `GET /api/v1/tokens/me`. \
Errors have `success: false`, a code in `error`, a sentence in `message`, and with `VALIDATION_ERROR` every broken rule \
in `details`. Times are UTC, such as `2026-11-20T10:15:30.123Z`; in requests any offset will do, and a bare date where \
a filter takes one. Every list takes `limit` and `offset` and tells its `total`.

**Headers.** Every answer carries `X-Request-Id`: the request's own, when it has 1 to 128 letters, digits, `-`, `_`, \
`.` or `:`, and a new one otherwise. Every answer to a token that works carries `RateLimit-Limit`, \
`RateLimit-Remaining` and `RateLimit-Reset` (seconds) of the window that is full first: by default 100 requests a \
minute and 1000 an hour for each token. A 429 says in `Retry-After` how many seconds to wait.";

/// The document as `mailapi openapi` prints it: pretty, with a line end.
#[must_use]
pub fn openapi_json() -> String {
    let mut text = document(None).to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The document, naming the place where the service is reached, when that is known.
pub(crate) fn document(public_url: Option<&str>) -> OpenApi {
    let (_, mut document) = documented_routes().split_for_parts();
    let place = public_url.map_or("/", |url| url.trim_end_matches('/'));
    document.servers = Some(vec![Server::new(place)]);
    shapes::simplify(&mut document);
    responses::complete(&mut document);
    document
}

/// The document before any path is in it.
pub(crate) fn frame() -> OpenApi {
    let mut components = Components::new();
    let header = ApiKeyValue::with_description("X-MAILAPI-TOKEN", "An API token or a session token.");
    components.add_security_scheme(TOKEN, SecurityScheme::ApiKey(ApiKey::Header(header)));
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    components.schemas.insert(ErrorDetail::name().into_owned(), ErrorDetail::schema());
    components.schemas.insert(ErrorCodeName::name().into_owned(), ErrorCodeName::schema());
    let info = InfoBuilder::new()
        .title("mailapi")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
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

const TAGS: [(&str, &str); 9] = [
    ("mail", "Sending, and what became of it."),
    ("mailbox", "Reading folders, messages and attachments. Reading leaves every flag as it is."),
    ("stats", "What became of sent mail, and how much came in, counted per recipient."),
    ("tokens", "API tokens."),
    ("auth", "Sessions of people who log in with their mailbox's password, and signing up."),
    ("permissions", "Rights that admins delegate to users, one domain at a time."),
    ("domains", "Mail domains, their DNS records and their DKIM keys."),
    ("users", "Accounts and their mailboxes."),
    ("service", "The service itself: health and documentation. No token is needed."),
];
