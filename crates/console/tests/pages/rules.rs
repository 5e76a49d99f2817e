//! Rules of a mailbox.

use mailapi_testkit::PASSWORD;
use serde_json::{Value, json};

use crate::support::{ANN, Browser, PROOF, ROOT, server};

const LIST: &str = "/console/rules/ann@a.example";
const NEW: &str = "/console/rules/ann@a.example/new";

/// The hidden field that names the rules of the page.
async fn was(browser: &Browser) -> String {
    let page = browser.page(LIST).await;
    // Without rules, only the form of a new one has it.
    let page = if page.contains("name=\"was\"") { page } else { browser.page(NEW).await };
    page.split("name=\"was\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

async fn save(browser: &mut Browser, path: &str, fields: &[(&str, &str)]) -> mailapi_testkit::Answer {
    let was = was(browser).await;
    let fields = [fields, &[("act", "save"), ("was", &was)]].concat();
    browser.post(path, &fields).await
}

async fn stored(app: &mailapi_testkit::TestApp) -> Value {
    app.get(app.admin(), "/users/ann@a.example/rules").await.expect(200)["rules"].take()
}

const NEWS: &[(&str, &str)] = &[
    ("name", "Lists"),
    ("enabled", "yes"),
    ("test-0", "header contains"),
    ("header-0", "List-Id"),
    ("value-0", "news"),
    ("test-1", "size over"),
    ("value-1", "1000"),
    ("folder", "Lists"),
    ("flags", "\\Seen $Label1"),
    ("stop", "yes"),
];

#[tokio::test]
async fn only_the_owner_and_admins_see_and_change_rules() {
    let app = server().await;
    let grant = json!({ "email": "bob@a.example", "permission": "manage_users", "domain": "a.example" });
    assert_eq!(app.post(app.admin(), "/permissions", grant).await.status, 201);
    let mut bob = Browser::of(&app, "bob@a.example").await;
    for path in [LIST, NEW] {
        assert_eq!(bob.get(path).await.status, 403, "{path}");
        for act in ["more", "save", "delete"] {
            assert_eq!(bob.post(path, &[("act", act), ("rule", "0")]).await.status, 403, "{path} {act}");
        }
    }
    Browser::of(&app, ROOT).await.page(LIST).await;
    assert_eq!(stored(&app).await, json!([]));
}

#[tokio::test]
async fn a_rule_with_faults_and_one_of_an_old_page_are_refused() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    for (fields, place) in [
        (&[("name", "x")][..], "actions"),
        (&[("value-0", "x"), ("stop", "yes")], "condition"),
        (&[("test-0", "size over"), ("value-0", "big"), ("stop", "yes")], "size"),
        (&[("test-0", "body is"), ("value-0", "x"), ("stop", "yes")], "field"),
        (&[("forward", "nobody"), PROOF], "forward"),
        (&[("vacation_days", "7"), ("stop", "yes")], "vacation"),
        (&[("test-0", "verdict is spam"), ("reject", "No.")], "type"),
    ] {
        let answer = save(&mut ann, NEW, fields).await;
        assert!(answer.status == 422 && answer.text().contains(place), "{place}: {}", answer.text());
    }
    let old = was(&ann).await;
    assert_eq!(save(&mut ann, NEW, NEWS).await.status, 303);
    let answer = ann.post(LIST, &[("act", "delete"), ("rule", "0"), ("was", &old)]).await;
    assert!(answer.status == 422 && answer.text().contains("changed meanwhile"));
    for rule in ["1", "x", "-1", ""] {
        let now = was(&ann).await;
        assert_eq!(ann.post(LIST, &[("act", "delete"), ("rule", rule), ("was", &now)]).await.status, 404, "{rule}");
        assert_eq!(ann.get(&format!("{LIST}/1")).await.status, 404);
    }
    assert_eq!(stored(&app).await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn rules_are_added_edited_ordered_and_deleted() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    let answer = save(&mut ann, NEW, NEWS).await;
    assert_eq!(answer.header("location"), "/console/rules/ann@a.example?done=rule-created");
    let away = [("name", "Away"), ("vacation", "Back\r\nsoon."), ("vacation_days", "3"), ("vacation_subject", "Away")];
    save(&mut ann, NEW, &away).await;
    let condition = json!({ "field": "header", "name": "List-Id", "op": "contains", "value": "news" });
    let news = json!({
        "name": "Lists", "enabled": true,
        "match": { "all": [condition, { "field": "size", "op": "over", "value": "1000" }] },
        "actions": [
            { "type": "folder", "folder": "Lists" }, { "type": "flag", "flag": "\\Seen" },
            { "type": "flag", "flag": "$Label1" }, { "type": "stop" }
        ]
    });
    let answer = json!({ "type": "vacation", "text": "Back\nsoon.", "subject": "Away", "days": 3, "addresses": [] });
    let away = json!({ "name": "Away", "enabled": false, "match": { "all": [] }, "actions": [answer] });
    assert_eq!(stored(&app).await, json!([news, away]));
    let form = ann.page("/console/rules/ann@a.example/0").await;
    assert!(form.contains("value=\"List-Id\"") && form.contains("value=\"\\Seen $Label1\""), "{form}");
    let now = was(&ann).await;
    ann.post(LIST, &[("act", "up"), ("rule", "1"), ("was", &now)]).await;
    let now = was(&ann).await;
    ann.post(LIST, &[("act", "enable"), ("rule", "0"), ("was", &now)]).await;
    let mut away = away;
    away["enabled"] = json!(true);
    assert_eq!(stored(&app).await, json!([away, news]));
    save(&mut ann, "/console/rules/ann@a.example/0", &[("name", "Off"), ("reject", "Gone.")]).await;
    assert_eq!(stored(&app).await[0]["actions"], json!([{ "type": "reject", "text": "Gone." }]));
    let now = was(&ann).await;
    ann.post(LIST, &[("act", "delete"), ("rule", "0"), ("was", &now)]).await;
    assert_eq!(stored(&app).await, json!([news]));
    let page = ann.page("/console/rules").await;
    assert!(page.contains("List-Id contains “news”") && page.contains("it has more than 1000 bytes"), "{page}");
}

#[tokio::test]
async fn a_new_address_for_copies_needs_the_password() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    let forward = ("forward", "eve@elsewhere.example");
    assert_eq!(save(&mut ann, NEW, &[forward]).await.status, 422);
    assert_eq!(save(&mut ann, NEW, &[forward, ("proof", "wrong one")]).await.status, 401);
    assert_eq!(stored(&app).await, json!([]));
    assert_eq!(save(&mut ann, NEW, &[forward, ("proof", PASSWORD)]).await.status, 303);
    let again = save(&mut ann, "/console/rules/ann@a.example/0", &[forward, ("name", "Copies")]).await;
    assert_eq!(again.status, 303, "{}", again.text());
    assert_eq!(stored(&app).await[0]["name"], "Copies");
}

#[tokio::test]
async fn more_rows_keep_what_was_typed() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    let fields = [NEWS, &[("act", "more"), ("was", "x"), ("vacation", "<b>")]].concat();
    let page = ann.post(NEW, &fields).await.text();
    assert!(
        page.contains("id=\"value-3\"") && page.contains("value=\"news\"") && page.contains("&#60;b&#62;"),
        "{page}"
    );
    assert_eq!(stored(&app).await, json!([]));
}
