//! A browser without JavaScript.

use mailapi_service::Settings;
use mailapi_testkit::{Answer, PASSWORD, TestApp};
use reqwest::{Method, RequestBuilder, redirect};

/// The administrator's mailbox of [`server`].
pub(crate) const ROOT: &str = "root@a.example";
/// A user without rights.
pub(crate) const ANN: &str = "ann@a.example";

/// The field of a form that asks for the password again.
pub(crate) const PROOF: (&str, &str) = ("proof", PASSWORD);

/// A server with an admin and two users in one domain.
pub(crate) async fn server() -> TestApp {
    server_named("mail.local").await
}

/// The same server under another host name.
pub(crate) async fn server_named(host: &str) -> TestApp {
    server_with(|settings| settings.mail_host = host.to_owned()).await
}

/// The same server with other settings.
pub(crate) async fn server_with(change: impl FnOnce(&mut Settings)) -> TestApp {
    let app = TestApp::start_with(|settings| {
        change(&mut settings.service);
        settings.service.admins.insert(ROOT.parse().unwrap());
    })
    .await;
    for mailbox in [ROOT, ANN, "bob@a.example"] {
        app.mailbox(mailbox, None).await;
    }
    app
}

/// A browser: it keeps one cookie, and follows no redirects.
pub(crate) struct Browser {
    client: reqwest::Client,
    base: String,
    pub(crate) cookie: String,
}

impl Browser {
    /// A browser that was never here.
    pub(crate) fn new(app: &TestApp) -> Self {
        // The bytes on the wire, also if a crate of the workspace lets the client unpack them.
        let client = reqwest::Client::builder().no_gzip().no_deflate().redirect(redirect::Policy::none());
        let client = client.build().unwrap();
        Self { client, base: format!("http://{}", app.address()), cookie: String::new() }
    }

    /// A browser that is logged in with the address and the password of a mailbox.
    pub(crate) async fn of(app: &TestApp, email: &str) -> Self {
        let mut browser = Self::new(app);
        let answer = browser.post("/console/login", &[("email", email), ("password", PASSWORD)]).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        browser
    }

    /// A browser that is logged in with a token.
    pub(crate) async fn with_token(app: &TestApp, token: &str) -> Self {
        let mut browser = Self::new(app);
        let answer = browser.post("/console/login/token", &[("token", token)]).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        browser
    }

    /// Opens a page.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    /// Opens a page that must be there, and checks its structure.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let html = answer.text();
        check_structure(path, &html);
        html
    }

    /// Sends a form of this console.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.request(Method::POST, path).header("Sec-Fetch-Site", "same-origin");
        let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(body);
        let answer = Answer::of(request).await;
        if let Some(cookie) = answer.header("set-cookie").split(';').next().filter(|cookie| !cookie.is_empty()) {
            self.cookie = cookie.to_owned();
        }
        answer
    }

    /// Starts a request with the cookie.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        if self.cookie.is_empty() { request } else { request.header("Cookie", &self.cookie) }
    }
}

/// What the policy for content forbids, and what people with a screen reader need.
pub(crate) fn check_structure(path: &str, html: &str) {
    let count = |text: &str| html.matches(text).count();
    assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"), "{path}: {html}");
    assert_eq!((count("<h1"), count("<main id=\"content\""), count("<title>")), (1, 1, 1 + count("<rect")), "{path}");
    for forbidden in [" style=", "<style", "javascript:", " onclick=", " onload=", "<script>", "=\"http", "=\"//"] {
        let found = html.find(forbidden).filter(|place| !html[*place..].starts_with("=\"http://www.w3.org/2000/svg"));
        assert!(found.is_none(), "{path} has {forbidden}");
    }
    let mut ids: Vec<&str> = values(html, " id=\"").collect();
    let labelled: Vec<&str> = values(html, "<label for=\"").collect();
    for id in &labelled {
        assert!(ids.contains(id), "{path}: a label is for the missing {id}");
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "{path} has an id twice: {ids:?}");
}

fn values<'a>(html: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    html.match_indices(before).map(|(place, found)| {
        let rest = &html[place + found.len()..];
        &rest[..rest.find('"').unwrap_or(rest.len())]
    })
}
