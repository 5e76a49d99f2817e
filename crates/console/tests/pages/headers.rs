//! The headers of every response, and forms of other sites.

use mailapi_testkit::Answer;
use reqwest::Method;

use crate::support::{ANN, Browser, server};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let app = server().await;
    let browser = Browser::of(&app, ANN).await;
    for (name, value) in [("Sec-Fetch-Site", "cross-site"), ("Origin", "https://evil.example"), ("X-Other", "x")] {
        let request = browser.request(Method::POST, "/console/logout").header(name, value);
        let answer = Answer::of(request).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
        assert!(answer.text().contains("CROSS_SITE_REQUEST"));
    }
    browser.page("/console").await;
}

#[tokio::test]
async fn every_response_has_the_policy_and_is_not_cached() {
    let app = server().await;
    let browser = Browser::of(&app, ANN).await;
    for path in ["/console", "/console/login", "/console/nothing", "/console/messages?status=lost"] {
        let answer = browser.get(path).await;
        assert_eq!(answer.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin", "{path}");
        assert!(answer.header("content-type").starts_with("text/html"), "{path}");
    }
}
