//! Logging in and out.

use std::time::Duration;

use mailapi_testkit::PASSWORD;

use crate::support::{ANN, Browser, check_structure, server};

#[tokio::test]
async fn wrong_credentials_are_refused_and_lock_as_in_the_api() {
    let app = server().await;
    let mut browser = Browser::new(&app);
    for _ in 0..5 {
        let answer = browser.post("/console/login", &[("email", ANN), ("password", "wrong")]).await;
        assert_eq!(answer.status, 401);
        check_structure("login", &answer.text());
        assert!(answer.text().contains("Invalid address or password.") && answer.text().contains(ANN));
        assert!(!answer.text().contains("wrong"), "the password is not shown");
    }
    let answer = browser.post("/console/login", &[("email", ANN), ("password", PASSWORD)]).await;
    assert_eq!(answer.status, 429, "locked");
    assert!(browser.cookie.is_empty());
}

#[tokio::test]
async fn a_page_without_a_session_leads_to_the_log_in_and_back() {
    let app = server().await;
    let mut browser = Browser::new(&app);
    let answer = browser.get("/console/messages?status=sent").await;
    let log_in = answer.header("location").to_owned();
    assert_eq!((answer.status, log_in.as_str()), (303, "/console/login?next=%2Fconsole%2Fmessages%3Fstatus%3Dsent"));
    assert!(browser.page(&log_in).await.contains("value=\"/console/messages?status=sent\""));
    let form = [("email", ANN), ("password", PASSWORD), ("next", "/console/messages?status=sent")];
    let answer = browser.post("/console/login", &form).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/console/messages?status=sent"));
    assert!(answer.header("set-cookie").starts_with("__Host-mailapi=maps_"));
    assert!(answer.header("set-cookie").ends_with("; Path=/; Max-Age=28800; Secure; HttpOnly; SameSite=Strict"));
    browser.page("/console/messages?status=sent").await;
}

#[tokio::test]
async fn a_log_out_ends_the_session_and_not_only_the_cookie() {
    let app = server().await;
    let mut browser = Browser::of(&app, ANN).await;
    let kept = browser.cookie.clone();
    let answer = browser.post("/console/logout", &[]).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/console/login?done=logged-out"));
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
    browser.cookie = kept;
    assert_eq!(browser.get("/console").await.header("location"), "/console/login?done=ended");
}

#[tokio::test]
async fn a_page_that_refreshes_itself_does_not_keep_a_session_open() {
    let app = server().await;
    let browser = Browser::of(&app, ANN).await;
    let refresh = async || {
        let request = browser.request(reqwest::Method::GET, "/console").header("Mailapi-Refresh", "1");
        mailapi_testkit::Answer::of(request).await.status
    };
    app.clock.advance(Duration::from_secs(6 * 60));
    assert_eq!(refresh().await, 200);
    app.clock.advance(Duration::from_secs(6 * 60));
    assert_eq!(refresh().await, 303, "the last act was ten minutes ago");
}

#[tokio::test]
async fn a_token_opens_the_console_until_it_is_revoked() {
    let app = server().await;
    let mut browser = Browser::new(&app);
    let answer = browser.post("/console/login/token", &[("token", "mapi_unknown")]).await;
    assert_eq!(answer.status, 401);
    assert!(!answer.text().contains("mapi_unknown"));
    let token = app.user("eve@a.example").await;
    let browser = Browser::with_token(&app, &token).await;
    assert!(browser.page("/console").await.contains("eve@a.example"));
    let id = app.get(&token, "/tokens/me").await.expect(200)["id"].clone();
    assert_eq!(app.delete(app.admin(), &format!("/tokens/{id}")).await.status, 200);
    assert_eq!(browser.get("/console").await.status, 303);
}

#[tokio::test]
async fn a_browser_that_keeps_no_cookie_gets_the_reason() {
    let app = server().await;
    let mut browser = Browser::new(&app);
    let answer = browser.post("/console/login", &[("email", ANN), ("password", PASSWORD)]).await;
    let to = answer.header("location").to_owned();
    assert!(!browser.page(&to).await.contains("did not keep"), "the cookie is there");
    browser.cookie.clear();
    let log_in = browser.get(&to).await.header("location").to_owned();
    assert!(browser.page(&log_in).await.contains("did not keep the session"));
}
