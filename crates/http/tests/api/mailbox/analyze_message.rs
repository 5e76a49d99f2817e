//! `GET /mailbox/{email}/messages/{uid}/security`.

use serde_json::json;

use super::{bobs_mailbox, refuses_strangers, refuses_unknown_folders, refuses_unknown_messages};
use crate::support::App;

#[tokio::test]
async fn what_does_not_exist_is_refused() {
    refuses_strangers("/mailbox/{}/messages/1/security").await;
    refuses_unknown_folders("/mailbox/bob@example.org/messages/1/security?folder={}").await;
    refuses_unknown_messages("/mailbox/bob@example.org/messages/{}/security").await;
}

#[tokio::test]
async fn it_is_off_unless_the_operator_switches_it_on() {
    let app = App::with(|settings, _| settings.security_analysis = false).await;
    app.domain("example.org").await;
    let bob = app.user("bob@example.org").await;
    app.deliver("bob@example.org", "Subject: Hi\n\nHello.\n").await;
    let error = app.get(&bob, "/mailbox/bob@example.org/messages/1/security").await;
    error.assert_error(403, "ANALYSIS_OFF");
    // Who may not read the mailbox learns nothing.
    app.get(&bob, "/mailbox/ann@example.org/messages/1/security").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn signs_are_named_with_what_they_were_seen_in() {
    let (app, _, bob) = bobs_mailbox().await;
    let fraud = "\
From: \"support@bank.com\" <ann@examp1e.org>
To: bob@example.org
Subject: Your account
Content-Type: text/html

<a href=http://192.0.2.1/login>https://www.bank.com/</a>
";
    app.append("bob@example.org", "Projects/2026", fraud).await;
    let seen = app.get(&bob, "/mailbox/bob@example.org/messages/2/security?folder=Projects/2026").await.json();
    let reasons = seen["reasons"].as_array().unwrap();
    let codes: Vec<_> = reasons.iter().map(|reason| reason["code"].as_str().unwrap()).collect();
    assert_eq!(
        codes,
        ["lookalike_sender", "name_is_address", "link_shows_other_host", "link_to_number", "first_contact"]
    );
    assert_eq!((&seen["verdict"], &seen["score"], &seen["partial"]), (&json!("dangerous"), &json!(100), &json!(false)));
    assert_eq!(reasons[0]["evidence"], json!(["examp1e.org, and not example.org"]));
    assert_eq!(
        seen["sender"],
        json!({
            "address": "ann@examp1e.org", "reply_to_differs": false, "display_name_is_an_address": true,
            "lookalike_of": "example.org", "first_contact": true
        })
    );
    assert_eq!(seen["links"][0]["host"], "192.0.2.1");
    assert_eq!(
        seen["authentication"],
        json!({ "source": "none", "spf": null, "dkim": [], "dmarc": null, "arc": null })
    );
    // Reading changes nothing.
    let listed = app.get(&bob, "/mailbox/bob@example.org/messages/2?folder=Projects/2026").await.json();
    assert_eq!(listed["flags"], json!([]));
}

#[tokio::test]
async fn honest_mail_is_clean_and_known_people_are_known() {
    let (app, _, bob) = bobs_mailbox().await;
    let first = app.get(&bob, "/mailbox/bob@example.org/messages/1/security").await.json();
    let files = first["attachments"].as_array().unwrap();
    assert_eq!(files.iter().map(|file| &file["index"]).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((&first["verdict"], &first["sender"]["first_contact"]), (&json!("suspicious"), &json!(true)));
    assert_eq!(first["reasons"][0]["code"], "page_runs_code", "the attached page has a script");
    app.deliver("bob@example.org", "From: ann@example.org\nSubject: Again\n\nHello.\n").await;
    let second = app.get(&bob, "/mailbox/bob@example.org/messages/2/security").await.json();
    assert_eq!((&second["verdict"], &second["sender"]["first_contact"]), (&json!("clean"), &json!(false)));
    // A message without an author has no contact.
    let plans = app.get(&bob, "/mailbox/bob@example.org/messages/1/security?folder=Projects/2026").await.json();
    assert_eq!((&plans["sender"]["address"], &plans["sender"]["first_contact"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn who_imitates_a_correspondent_is_found() {
    let (app, _, bob) = bobs_mailbox().await;
    for to in ["Carl Stone <carl@partner.net>", "Ann Lee <ann@example.org>"] {
        app.append("bob@example.org", "Sent", &format!("From: bob@example.org\nTo: {to}\nSubject: Hi\n\nHello.\n"))
            .await;
    }
    let cases = [
        ("Carl Stone <carl@partner.net>", None),
        ("Carl Stone <carl@partners.net>", None),
        ("Carl Stone <carl@partn\u{435}r.net>", Some("lookalike_correspondent")),
        ("Ann Lee <ann.lee@mail.example.com>", Some("known_name")),
        ("Ann Leeds <ann.leeds@mail.example.com>", None),
    ];
    for (uid, (from, expected)) in (2..).zip(cases) {
        app.deliver("bob@example.org", &format!("From: {from}\nSubject: Pay\n\nNow.\n")).await;
        let path = format!("/mailbox/bob@example.org/messages/{uid}/security");
        let seen = app.get(&bob, &path).await.json();
        let codes: Vec<_> =
            seen["reasons"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
        let counting: Vec<_> = codes.into_iter().filter(|code| *code != "first_contact").collect();
        assert_eq!(counting, expected.into_iter().collect::<Vec<_>>(), "{from}: {seen}");
    }
}
