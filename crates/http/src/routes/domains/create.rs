//! `POST /domains`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::DomainName;
use serde::Serialize;
use utoipa::ToSchema;

use super::DomainRecord;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::shape::ShortText;
use crate::state::HttpState;

request_body! {
    /// A domain to create.
    pub(crate) struct CreateDomain as "CreateDomain" {
        /// Domain name; internationalized names as Unicode or in ASCII form (`xn--`).
        domain: DomainName,
        /// Note for admins: one line of at most 200 characters.
        description: Option<ShortText>,
    }
    example { "domain": "example.test", "description": "Main domain" }
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
    body: JsonBody<CreateDomain>,
) -> Result<(StatusCode, Json<DomainCreated>), ApiError> {
    let CreateDomain { domain: name, description } = body.read()?;
    let service = state.service().clone();
    let domain = to_the_end(async move { service.create_domain(&caller, name, description).await }).await??;
    Ok((StatusCode::CREATED, Json(DomainCreated { success: true, domain: domain.into() })))
}
