//! The documentation pages, which load nothing from another host.

use std::io::Read;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use crate::support::{Answer, App};

async fn ask(app: &App, path: &str) -> Answer {
    app.send(Request::get(path).body(Body::empty()).unwrap()).await
}

fn text(answer: &Answer) -> String {
    if answer.header("content-encoding") != "gzip" {
        return String::from_utf8(answer.bytes.to_vec()).unwrap();
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.bytes[..]).read_to_string(&mut text).unwrap();
    text
}

/// Returns the addresses in `src="…"` and `href="…"`.
fn loaded(page: &str) -> Vec<&str> {
    let after = |attribute| page.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap());
    after("src=\"").chain(after("href=\"")).collect()
}

#[tokio::test]
async fn each_page_and_all_that_it_loads_is_here() {
    let app = App::start().await;
    for page in ["/docs", "/redoc"] {
        let answer = ask(&app, page).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "text/html; charset=utf-8"));
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("//"), "{policy}");
        let html = text(&answer);
        assert!(loaded(&html).len() >= 2, "{html}");
        for asset in loaded(&html) {
            assert!(!asset.contains("//") && !asset.starts_with('/'), "{asset}: also behind a proxy with a path");
            let asset = ask(&app, &format!("/{asset}")).await;
            assert_eq!(asset.status.as_u16(), 200);
            assert!(asset.header("cache-control").starts_with("public"));
        }
        assert!(!html.contains("<script>"), "the policy forbids scripts inside the page");
    }
}

#[tokio::test]
async fn swagger_ui_shows_our_document_and_sends_it_nowhere() {
    let app = App::start().await;
    let script = text(&ask(&app, "/docs/start.js").await);
    assert!(script.contains("url: \"openapi.json\"") && script.contains("validatorUrl: \"none\""), "{script}");
    assert!(!script.contains("petstore"));
    ask(&app, "/docs/index.html").await.assert_error(404, "NOT_FOUND");
    let redirect = ask(&app, "/docs/").await;
    assert_eq!((redirect.status.as_u16(), redirect.header("location")), (308, "../docs"));
}

#[tokio::test]
async fn swagger_ui_has_no_bar_and_shows_each_error_once() {
    let app = App::start().await;
    let script = text(&ask(&app, "/docs/start.js").await);
    assert!(script.contains("layout: \"BaseLayout\"") && !script.contains("Standalone"), "{script}");
    ask(&app, "/docs/swagger-ui-standalone-preset.js").await.assert_error(404, "NOT_FOUND");
    let page = text(&ask(&app, "/docs").await);
    // The page hides repeated error bodies by class names, which must be those of the bundle.
    let bundle = text(&ask(&app, "/docs/swagger-ui-bundle.js").await);
    for name in ["data-code", "response-col_description__inner", "response-col_links"] {
        assert!(page.contains(name) && bundle.contains(name), "{name}");
    }
}

#[tokio::test]
async fn redoc_loads_no_picture_of_its_vendor() {
    let app = App::start().await;
    let bundle = text(&ask(&app, "/redoc/redoc.standalone.js").await);
    assert!(bundle.len() > 1_000_000, "the bundle is whole");
    for gone in ["cdn.redoc.ly", "sourceMappingURL=redoc"] {
        assert!(!bundle.contains(gone), "{gone}");
    }
}

#[tokio::test]
async fn the_served_document_and_its_samples_name_the_server() {
    let sample = |document: &Value| {
        let operation = &document["paths"]["/api/v1/mail/send"]["post"];
        operation["x-codeSamples"][0]["source"].as_str().unwrap().lines().next().unwrap().to_owned()
    };
    let app = App::start().await;
    let document = ask(&app, "/openapi.json").await.json();
    assert_eq!(document["servers"][0]["url"], "/");
    assert_eq!(sample(&document), "curl http://127.0.0.1:8080/api/v1/mail/send \\");
    let app = App::with(|_, http| http.public_url = Some("https://mail.example.org/".to_owned())).await;
    let document = ask(&app, "/openapi.json").await.json();
    assert_eq!(document["servers"][0]["url"], "https://mail.example.org");
    assert_eq!(sample(&document), "curl https://mail.example.org/api/v1/mail/send \\");
}

#[tokio::test]
async fn the_root_leads_to_the_documentation() {
    let app = App::start().await;
    let answer = ask(&app, "/").await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (307, "/docs"));
}
