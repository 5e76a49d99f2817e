//! Every page, as every kind of caller.

use mailapi_model::Permission;
use serde_json::json;

use crate::support::{ANN, Browser, ROOT, server};

/// A page, and who may open it besides admins.
struct Page(&'static str, Who);

/// Who may open a page.
enum Who {
    /// Every caller.
    All,
    /// Every caller with a mailbox.
    Owners,
    /// Admins alone.
    Admins,
    /// Callers with this permission on a domain.
    With(Permission),
}

const PAGES: &[Page] = &[
    Page("/console", Who::All),
    Page("/console/write", Who::All),
    Page("/console/messages", Who::All),
    Page("/console/statistics", Who::All),
    Page("/console/queue", Who::Admins),
    Page("/console/domains", Who::With(Permission::ManageDomains)),
    Page("/console/domains/a.example/dns", Who::Admins),
    Page("/console/users", Who::With(Permission::ManageUsers)),
    Page("/console/aliases", Who::With(Permission::ManageUsers)),
    Page("/console/rules", Who::Owners),
    Page("/console/permissions", Who::Admins),
    Page("/console/tokens", Who::All),
    Page("/console/webhooks", Who::All),
    Page("/console/events", Who::All),
    Page("/console/lockouts", Who::Admins),
    Page("/console/account", Who::Owners),
    Page("/console/system", Who::Admins),
];

#[tokio::test]
async fn without_a_session_every_page_leads_to_the_log_in() {
    let app = server().await;
    let browser = Browser::new(&app);
    for Page(path, _) in PAGES {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, 303, "{path}");
        assert!(answer.header("location").starts_with("/console/login"), "{path}");
    }
}

#[tokio::test]
async fn each_caller_opens_the_pages_of_its_rights() {
    let app = server().await;
    let admin = Browser::of(&app, ROOT).await;
    let token = Browser::with_token(&app, app.admin()).await;
    let user = Browser::of(&app, ANN).await;
    let mut delegates = Vec::new();
    for permission in Permission::ALL {
        let email = format!("{}@a.example", permission.as_str().replace('_', "-"));
        app.mailbox(&email, None).await;
        let grant = json!({ "email": email, "permission": permission.as_str(), "domain": "a.example" });
        assert_eq!(app.post(app.admin(), "/permissions", grant).await.status, 201);
        delegates.push((permission, Browser::of(&app, &email).await));
    }
    for Page(path, who) in PAGES {
        admin.page(path).await;
        let has_mailbox_page = token.get(path).await.status == 200;
        assert_eq!(has_mailbox_page, !matches!(who, Who::Owners), "{path}: an admin token has no mailbox");
        check(path, &user, matches!(who, Who::All | Who::Owners)).await;
        for (held, delegate) in &delegates {
            let is_allowed = match who {
                Who::All | Who::Owners => true,
                Who::Admins => false,
                Who::With(permission) => permission == held,
            };
            check(path, delegate, is_allowed).await;
        }
    }
}

/// The page opens and the navigation shows it, or neither.
async fn check(path: &str, browser: &Browser, is_allowed: bool) {
    if is_allowed {
        browser.page(path).await;
    } else {
        assert_eq!(browser.get(path).await.status, 403, "{path}");
    }
    let is_linked = browser.page("/console").await.contains(&format!("<li><a href=\"{path}\""));
    assert_eq!(is_linked, is_allowed, "{path} in the navigation");
}
