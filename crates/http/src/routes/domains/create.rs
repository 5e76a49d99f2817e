//! `POST /domains`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DomainName, Violations};
use serde::Serialize;
use utoipa::ToSchema;

use super::DomainRecord;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::routes::to_the_end;
use crate::shape::ShortText;
use crate::state::HttpState;

/// A domain to create.
#[derive(ToSchema)]
#[schema(example = json!({ "domain": "example.test", "description": "Main domain" }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct CreateDomain {
    /// Domain name; internationalized names as Unicode or in ASCII form (`xn--`).
    #[schema(format = IdnHostname)]
    domain: String,
    /// Note for admins: one line of at most 200 characters.
    #[schema(value_type = Option<ShortText>)]
    description: Option<String>,
}

/// The new domain.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainCreated {
    /// Always true.
    success: bool,
    /// The new domain.
    domain: DomainRecord,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, DomainExists]);

/// Create a domain
///
/// For admins. The domain is active at once and has a DKIM key.
#[utoipa::path(post, path = "/domains", tag = "domains", operation_id = "create_domain", request_body = CreateDomain,
    responses((status = 201, description = "The domain was created.", body = DomainCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    body: JsonBody,
) -> Result<(StatusCode, Json<DomainCreated>), ApiError> {
    let (name, description) = read(body.members)?;
    let service = state.service().clone();
    let domain = to_the_end(async move { service.create_domain(&caller, name, description).await }).await??;
    Ok((StatusCode::CREATED, Json(DomainCreated { success: true, domain: domain.into() })))
}

fn read(mut members: Members) -> Result<(DomainName, Option<String>), Violations> {
    let mut violations = Violations::none();
    let name = members.required_parsed("domain", &mut violations);
    let description = members.one_line("description", &mut violations);
    let name = violations.or(name)?;
    Ok((name, description))
}
