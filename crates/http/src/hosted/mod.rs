//! The pages of mail domains: policies for other mail servers, and settings for mail programs. Their paths are fixed by
//! standards, so they are not part of the API. The host of a request names the domain; other hosts have no pages.

mod programs;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use mailapi_model::{DomainName, EmailAddress};
use mailapi_tls::ServerTls;

use crate::error::{ApiError, ErrorCode};
use crate::guard;
use crate::state::HttpState;

/// Outlook sends some hundred bytes.
const MAX_QUESTION_BYTES: usize = 16 * 1024;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const XML: HeaderValue = HeaderValue::from_static("text/xml; charset=utf-8");

/// Requests for a domain's pages are not limited: many servers ask from one address. All others are unknown paths.
pub(crate) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/.well-known/mta-sts.txt", get(sts_policy))
        .route("/mail/config-v1.1.xml", get(autoconfig))
        .route("/.well-known/autoconfig/mail/config-v1.1.xml", get(autoconfig))
        .route("/autodiscover/autodiscover.xml", post(autodiscover))
        .route("/Autodiscover/Autodiscover.xml", post(autodiscover))
}

/// The policy of RFC 8461 section 3.3.
async fn sts_policy(State(state): State<HttpState>, request: Request) -> Response {
    let Some(domain) = host(&request).and_then(|host| domain_at(host, "mta-sts.")) else {
        return unknown(request, state).await;
    };
    let certificate = state.settings().tls.as_ref();
    let is_verifiable = certificate.is_some_and(|tls| is_verifiable(tls, &state));
    match state.service().sts_policy(&domain, is_verifiable).await {
        Ok(Some(policy)) => ([(CONTENT_TYPE, TEXT)], policy.text()).into_response(),
        Ok(None) => unknown(request, state).await,
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// Whether other servers can verify the certificate of the SMTP listener: it is for the mail server, valid, and issued by
/// an authority.
fn is_verifiable(tls: &ServerTls, state: &HttpState) -> bool {
    let now = state.clock().now().as_seconds();
    let is_valid = tls.validity().is_some_and(|validity| (validity.begins_at..validity.expires_at).contains(&now));
    is_valid && tls.is_for(state.service().mail_host()) && !tls.is_self_issued()
}

/// Settings for Thunderbird and the programs that use its form.
async fn autoconfig(State(state): State<HttpState>, request: Request) -> Response {
    let found = host(&request).and_then(|host| domain_at(host, "autoconfig.").or_else(|| host.parse().ok()));
    let Some(domain) = found else { return unknown(request, state).await };
    match state.service().program_settings(&domain).await {
        Ok(Some(settings)) => ([(CONTENT_TYPE, XML)], programs::autoconfig(&domain, &settings)).into_response(),
        Ok(None) => unknown(request, state).await,
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// Settings for Outlook. The question names an address; the answer repeats it, whether or not there is such a mailbox.
async fn autodiscover(State(state): State<HttpState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(state.settings().body_pause, to_bytes(body, MAX_QUESTION_BYTES)).await;
    let request = Request::from_parts(parts, axum::body::Body::empty());
    let Ok(Ok(question)) = read else { return ApiError::from(ErrorCode::BadRequest).into_response() };
    let address = programs::address_in(&String::from_utf8_lossy(&question));
    let asked = address.filter(|address| host(&request).is_some_and(|host| may_answer(host, address, &state)));
    let Some(address) = asked else { return unknown(request, state).await };
    match state.service().program_settings(&address.domain()).await {
        Ok(Some(settings)) => ([(CONTENT_TYPE, XML)], programs::autodiscover(&address, &settings)).into_response(),
        Ok(None) => unknown(request, state).await,
        Err(error) => ApiError::from(error).into_response(),
    }
}

fn may_answer(host: &str, address: &EmailAddress, state: &HttpState) -> bool {
    let domain = address.domain();
    let is_of_domain = domain_at(host, "autodiscover.").or_else(|| host.parse().ok()) == Some(domain);
    is_of_domain || state.service().is_own_host(&host.to_ascii_lowercase())
}

/// The answer to every unknown path, which counts against the client's address.
async fn unknown(request: Request, state: HttpState) -> Response {
    guard::unknown_path.call(request, state).await
}

/// Returns the host of a request, without its port.
fn host(request: &Request) -> Option<&str> {
    let named = || request.headers().get(HOST)?.to_str().ok();
    let authority = request.uri().authority().map(|authority| authority.as_str()).or_else(named)?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    Some(host.strip_suffix('.').unwrap_or(host))
}

/// Returns the domain of a host with this first label.
fn domain_at(host: &str, label: &str) -> Option<DomainName> {
    let (first, domain) = host.split_at_checked(label.len())?;
    first.eq_ignore_ascii_case(label).then(|| domain.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use proptest::prelude::*;

    use super::*;

    fn host_of(value: &str) -> Option<String> {
        let request = Request::get("/").header(HOST, value).body(Body::empty()).ok()?;
        host(&request).map(str::to_owned)
    }

    #[test]
    fn a_host_has_no_port_and_no_final_dot() {
        assert_eq!(host_of("mta-sts.example.org:443").as_deref(), Some("mta-sts.example.org"));
        assert_eq!(host_of("mta-sts.example.org.").as_deref(), Some("mta-sts.example.org"));
        assert_eq!(domain_at("MTA-STS.Example.org", "mta-sts."), "example.org".parse().ok());
        for other in ["example.org", "mta-sts.", "mta-sts", "xmta-sts.example.org", "mta-sts..org", "é"] {
            assert_eq!(domain_at(other, "mta-sts."), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_host_makes_it_panic(text in "\\PC{0,40}") {
            let _ = host_of(&text);
            let _ = domain_at(&text, "mta-sts.");
        }
    }
}
