//! The layer around all pages: the headers of every response, and the check of the origin of every change.

use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::failure::Failure;

/// Scripts and styles come from files of this server only. No page may be framed; forms are sent to this server only.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'",
);

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects changes that another site requested, and adds the headers.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let is_allowed = request.method().is_safe() || is_same_origin(request.headers(), request.uri());
    let mut response = if is_allowed { next.run(request).await } else { Failure::CrossSite.into_response() };
    write_headers(response.headers_mut());
    response
}

fn write_headers(headers: &mut HeaderMap) {
    let mut usual = |name: HeaderName, value: HeaderValue| {
        headers.entry(name).or_insert(value);
    };
    usual(header::CONTENT_SECURITY_POLICY, POLICY);
    // With `no-referrer`, browsers would send `Origin: null` with our own forms.
    usual(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    usual(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    usual(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    usual(PERMISSIONS_POLICY, HeaderValue::from_static("camera=(), geolocation=(), microphone=(), payment=(), usb=()"));
}

/// Whether a page of this console sent the request. Browsers set both headers, and no page can change them. A browser
/// leaves out `Sec-Fetch-Site` on plain HTTP; then `Origin` must be the host that the request names.
fn is_same_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if headers.contains_key(FETCH_SITE) {
        return text(FETCH_SITE) == Some("same-origin");
    }
    // HTTP/2 names the host in the request line.
    let host = text(header::HOST).or_else(|| uri.authority().map(|authority| authority.as_str()));
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_some() && origin == host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(headers: &[(HeaderName, &'static str)], uri: &'static str) -> bool {
        let pairs = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        is_same_origin(&pairs.collect(), &Uri::from_static(uri))
    }

    #[test]
    fn only_our_own_pages_may_send_forms() {
        let host = (header::HOST, "mail.example.test");
        let origin = |origin| (header::ORIGIN, origin);
        let site = |site| (FETCH_SITE, site);
        assert!(!allowed(std::slice::from_ref(&host), "/console"), "neither header");
        assert!(!allowed(&[host.clone(), origin("https://evil.example")], "/console"));
        assert!(!allowed(&[host.clone(), origin("null")], "/console"));
        for other in ["cross-site", "same-site", "none", "same-origin, same-origin"] {
            assert!(!allowed(&[host.clone(), origin("https://mail.example.test"), site(other)], "/console"), "{other}");
        }
        assert!(allowed(&[host.clone(), site("same-origin")], "/console"));
        assert!(allowed(&[host, origin("http://mail.example.test")], "/console"));
        assert!(allowed(&[origin("https://mail.example.test")], "https://mail.example.test/console"), "HTTP/2");
    }
}
