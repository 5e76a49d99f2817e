//! `GET /tokens`.

use axum::http::StatusCode;

use crate::support::App;

#[tokio::test]
async fn an_admin_sees_all_and_others_their_own() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    assert_eq!(app.get(&ann, "/tokens?limit=none").await.assert_invalid(), ["limit"]);
    let own = app.get(&ann, "/tokens").await.assert(StatusCode::OK);
    assert_eq!((&own["total"], &own["tokens"][0]["email"]), (&1.into(), &"ann@example.org".into()));
    let all = app.get(&app.admin, "/tokens?limit=2").await.assert(StatusCode::OK);
    assert_eq!((&all["total"], all["tokens"].as_array().unwrap().len()), (&3.into(), 2));
    assert_eq!(all["tokens"][0]["email"], "bob@example.org", "newest first");
}
