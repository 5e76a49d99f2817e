//! Dangerous acts ask for the password again.

use mailapi_testkit::{PASSWORD, TestApp};
use serde_json::{Value, json};

use crate::support::{ANN, Browser, ROOT, check_structure, server};

/// A form: its page, and its fields without the proof.
type Act = (&'static str, &'static [(&'static str, &'static str)]);

const BOB: &str = "/console/users/bob@a.example";

/// What destroys mail or a name, and what gives access that outlives the session.
const ACTS: &[Act] = &[
    ("/console/domains/a.example", &[("act", "delete"), ("confirm", "a.example")]),
    ("/console/domains/a.example", &[("act", "dkim"), ("algorithm", "ed25519-sha256")]),
    (BOB, &[("act", "purge"), ("confirm", "bob@a.example")]),
    (BOB, &[("act", "delete"), ("confirm", "bob@a.example")]),
    (BOB, &[("act", "reset")]),
    (BOB, &[("act", "create-app-password"), ("name", "Phone")]),
    ("/console/account", &[("act", "create-app-password"), ("name", "Phone")]),
    ("/console/permissions", &[("email", ANN), ("domain", "a.example"), ("permission", "view_stats")]),
    ("/console/tokens", &[("act", "create"), ("name", "Script")]),
    ("/console/tokens", &[("act", "revoke"), ("id", "1")]),
];

/// What the acts would change.
async fn state(app: &TestApp) -> Vec<Value> {
    let mut found = Vec::new();
    for path in ["/domains/a.example", "/domains/a.example/dkim", "/permissions", "/tokens", "/users/bob@a.example"] {
        let mut answer = app.get(app.admin(), path).await.expect(200);
        if let Some(tokens) = answer.get_mut("tokens").and_then(|tokens| tokens.as_array_mut()) {
            tokens.iter_mut().for_each(|token| token["last_used_at"] = json!(null));
        }
        found.push(answer);
    }
    for email in [ROOT, "bob@a.example"] {
        found.push(app.get(app.admin(), &format!("/users/{email}/app-passwords")).await.expect(200));
    }
    found
}

async fn send(browser: &mut Browser, (path, fields): Act, proof: &str) -> u16 {
    let fields = [fields, &[("proof", proof)]].concat();
    let answer = browser.post(path, &fields).await;
    assert!(proof.len() < 6 || !answer.text().contains(proof), "the proof is not on the page");
    answer.status
}

#[tokio::test]
async fn without_the_right_password_no_dangerous_act_happens() {
    let app = server().await;
    let before = state(&app).await;
    let mut root = Browser::of(&app, ROOT).await;
    for act in ACTS {
        assert_eq!(send(&mut root, *act, "").await, 422, "{act:?}");
        assert_eq!(send(&mut root, *act, "wrong one").await, 401, "{act:?}");
        // A new login clears the failures.
        app.clock.advance(app.service.settings().login_lockout);
        root = Browser::of(&app, ROOT).await;
    }
    assert_eq!(state(&app).await, before);
}

#[tokio::test]
async fn failures_of_a_proof_lock_the_log_in() {
    let app = server().await;
    let mut root = Browser::of(&app, ROOT).await;
    for _ in 0..5 {
        assert_eq!(send(&mut root, ACTS[2], "wrong one").await, 401);
    }
    assert_eq!(send(&mut root, ACTS[2], PASSWORD).await, 429, "the right one too");
    let log_in = json!({ "email": ROOT, "password": PASSWORD });
    assert_eq!(app.post("", "/auth/login", log_in).await.status, 429);
    assert_eq!(app.get(app.admin(), "/users/bob@a.example").await.status, 200);
}

#[tokio::test]
async fn with_a_token_the_same_token_is_the_proof() {
    let app = server().await;
    let other = json!({ "name": "Other", "token_type": "admin" });
    let other = app.post(app.admin(), "/tokens", other).await.expect(201)["token"].as_str().unwrap().to_owned();
    let mut admin = Browser::with_token(&app, app.admin()).await;
    for wrong in [&other, PASSWORD, "x", "mapi_", &app.admin()[1..]] {
        assert_eq!(send(&mut admin, ACTS[3], wrong).await, 401);
    }
    assert_eq!(send(&mut admin, ACTS[3], app.admin()).await, 429, "five failures lock");
    let mut second = Browser::with_token(&app, &other).await;
    assert_eq!(send(&mut second, ACTS[3], &other).await, 303, "another token is not locked");
    assert_eq!(app.get(&other, "/users/bob@a.example").await.status, 404);
    app.clock.advance(app.service.settings().login_lockout);
    assert_eq!(send(&mut admin, ACTS[4], app.admin()).await, 404, "and the lock ends");
}

#[tokio::test]
async fn an_admin_unlocks_the_proofs_of_a_token() {
    let app = server().await;
    let mut admin = Browser::with_token(&app, app.admin()).await;
    for _ in 0..5 {
        assert_eq!(send(&mut admin, ACTS[3], "x").await, 401);
    }
    assert_eq!(send(&mut admin, ACTS[3], app.admin()).await, 429);
    let mut root = Browser::of(&app, ROOT).await;
    let page = root.page("/console/lockouts").await;
    let id = page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(page.contains(&format!(">Token {id}</th>")), "{page}");
    let listed = app.get(app.admin(), "/auth/lockouts").await.expect(200);
    assert_eq!(listed["lockouts"][0]["token_id"].to_string(), id);
    assert_eq!((&listed["lockouts"][0]["mailbox"], &listed["lockouts"][0]["client"]), (&Value::Null, &Value::Null));
    assert_eq!(root.post("/console/lockouts", &[("token", "first")]).await.status, 422);
    assert_eq!(root.post("/console/lockouts", &[("token", &id)]).await.status, 303);
    assert!(root.page("/console/lockouts").await.contains("None."));
    assert_eq!(send(&mut admin, ACTS[3], app.admin()).await, 303);
}

#[tokio::test]
async fn no_session_unlocks_its_own_proof() {
    let app = server().await;
    let mut admin = Browser::with_token(&app, app.admin()).await;
    let mut root = Browser::of(&app, ROOT).await;
    for browser in [&mut admin, &mut root] {
        for _ in 0..5 {
            assert_eq!(send(browser, ACTS[3], "x").await, 401);
        }
    }
    let listed = app.get(app.admin(), "/auth/lockouts").await.expect(200);
    let id = listed["lockouts"].as_array().unwrap().iter().find_map(|lockout| lockout["token_id"].as_i64()).unwrap();
    assert_eq!(admin.post("/console/lockouts", &[("token", &id.to_string())]).await.status, 422);
    assert_eq!(root.post("/console/lockouts", &[("mailbox", ROOT)]).await.status, 422);
    assert_eq!(send(&mut admin, ACTS[3], app.admin()).await, 429);
    let locked = root.post(ACTS[3].0, &[ACTS[3].1, &[("proof", PASSWORD)]].concat()).await;
    assert_eq!(locked.status, 429);
    assert!(locked.text().contains("Try again in 15 minutes."), "{}", locked.text());
    assert_eq!(admin.post("/console/lockouts", &[("mailbox", ROOT)]).await.status, 303, "another admin may");
}

#[tokio::test]
async fn the_page_of_a_wrong_proof_has_the_form_again() {
    let app = server().await;
    let mut root = Browser::of(&app, ROOT).await;
    let fields =
        [("act", "create"), ("name", "Backup \"2\" & <more>"), ("token_type", "admin"), ("proof", "wrong one")];
    let answer = root.post("/console/tokens", &fields).await;
    let html = answer.text();
    check_structure("/console/tokens", &html);
    assert_eq!(answer.status, 401);
    assert!(html.contains("<h1>Your password is wrong.</h1>"), "{html}");
    assert!(html.contains("<form method=\"post\" action=\"/console/tokens\""), "{html}");
    assert!(html.contains("name=\"name\" value=\"Backup &#34;2&#34; &#38; &#60;more&#62;\""), "{html}");
    assert!(html.contains("name=\"token_type\" value=\"admin\"") && !html.contains("wrong one"), "{html}");
    assert!(html.contains(">Your password</label>"), "{html}");
    // Further failures lock the login; the page then has no form.
    for _ in 0..4 {
        root.post("/console/tokens", &fields).await;
    }
    let locked = root.post("/console/tokens", &fields).await;
    assert_eq!(locked.status, 429);
    assert!(!locked.text().contains("<form"), "{}", locked.text());
}

#[tokio::test]
async fn a_page_asks_for_what_the_caller_logged_in_with() {
    let app = server().await;
    let page = Browser::of(&app, ROOT).await.page("/console/tokens").await;
    assert!(page.contains(">Your password <"), "{page}");
    let page = Browser::with_token(&app, app.admin()).await.page("/console/tokens").await;
    assert!(page.contains(">Your API token <") && page.contains("Revoke the token"), "{page}");
}
