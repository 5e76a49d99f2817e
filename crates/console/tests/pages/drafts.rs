//! Drafts: saving, continuing, sending and deleting them.

use mailapi_testkit::{Answer, TestApp};
use reqwest::Method;
use serde_json::json;

use crate::support::{ANN, Browser, ROOT, server};

const BOUNDARY: &str = "----boundary";
const LIST: &str = "/console/mail/ann@a.example?folder=Drafts";

/// Sends the form with these fields, and with a file if it has a name.
async fn send(browser: &Browser, fields: &[(&str, &str)], file: Option<(&str, &str)>) -> Answer {
    let field = |(name, value): &(&str, &str)| {
        format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = file.map(|(name, content)| {
        format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"attachment\"; filename=\"{name}\"\r\n\
             Content-Type: text/plain\r\n\r\n{content}\r\n"
        )
    });
    let body = fields.iter().map(field).collect::<String>() + &file.unwrap_or_default();
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let request = browser.request(Method::POST, "/console/write").header("Sec-Fetch-Site", "same-origin");
    Answer::of(request.header("Content-Type", kind).body(format!("{body}--{BOUNDARY}--\r\n"))).await
}

/// Saves a draft, and returns the address of its form.
async fn save(browser: &Browser, fields: &[(&str, &str)], file: Option<(&str, &str)>) -> String {
    let fields: Vec<_> = fields.iter().copied().chain([("act", "save")]).collect();
    let answer = send(browser, &fields, file).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let location = answer.header("location").to_owned();
    assert!(location.starts_with("/console/write?draft=") && location.ends_with("&done=draft-saved"), "{location}");
    location
}

/// The UID of the draft whose form has this address.
fn uid(form: &str) -> &str {
    form.split("draft=").nth(1).unwrap().split('&').next().unwrap()
}

fn value<'a>(page: &'a str, name: &str) -> &'a str {
    let field = page.split(&format!("name=\"{name}\"")).nth(1).unwrap_or_else(|| panic!("no {name} in {page}"));
    field.split("value=\"").nth(1).unwrap().split('"').next().unwrap()
}

async fn total(app: &TestApp, folder: &str) -> u64 {
    let path = format!("/mailbox/ann@a.example/messages?folder={folder}");
    app.get(app.admin(), &path).await.json()["total"].as_u64().unwrap()
}

#[tokio::test]
async fn foreign_and_missing_drafts_do_not_open() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let form = save(&ann, &[("from", ANN), ("text", "x")], None).await;
    let bob = Browser::of(&app, "bob@a.example").await;
    let grant = json!({ "email": "bob@a.example", "permission": "view_mailbox", "domain": "a.example" });
    assert_eq!(app.post(app.admin(), "/permissions", grant).await.status, 201);
    let foreign = [("mailbox", ANN), ("draft", uid(&form)), ("from", "bob@a.example"), ("text", "x")];
    assert_eq!(bob.get(&format!("/console/write?mailbox={ANN}&draft={}", uid(&form))).await.status, 403);
    for act in ["save", "delete"] {
        let fields: Vec<_> = foreign.into_iter().chain([("act", act)]).collect();
        assert_eq!(send(&bob, &fields, None).await.status, 403, "{act}");
    }
    assert!(!bob.page(LIST).await.contains("Continue writing"), "reading is not enough");
    assert_eq!(total(&app, "Drafts").await, 1);
    for missing in ["999", "0", "x", "-1"] {
        assert_eq!(ann.get(&format!("/console/write?draft={missing}")).await.status, 404, "{missing}");
    }
    let fields = [("from", ANN), ("draft", "999"), ("keep", "0"), ("text", "x"), ("act", "save")];
    assert_eq!(send(&ann, &fields, None).await.status, 404, "its files are missing");
    assert_eq!(send(&ann, &[("from", ANN), ("act", "delete")], None).await.status, 404);
    let wrong = send(&ann, &[("from", ANN), ("to", "nobody"), ("act", "save")], None).await;
    assert!(wrong.status == 422 && wrong.text().contains("<dt>to[0]</dt>"), "{}", wrong.text());
}

#[tokio::test]
async fn a_draft_is_continued_with_all_that_it_has() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let fields = [
        ("from", ANN),
        ("to", "\"Lee, Bob\" <bob@a.example>, eve@b.example"),
        ("cc", "Carl <carl@b.example>"),
        ("bcc", "dan@b.example, \"Müller, Käthe\" <kaethe@b.example>"),
        ("subject", "Tea & cake"),
        ("text", "\r\nAt noon?\r\n\r\nAnn"),
        ("in_reply_to", "<1@b.example>"),
    ];
    let form = save(&ann, &fields, Some(("plan.txt", "the plan"))).await;
    let page = ann.page(&form).await;
    assert!(page.contains("The draft is saved."), "{page}");
    assert_eq!(value(&page, "to"), "&#34;Lee, Bob&#34; &#60;bob@a.example&#62;, eve@b.example");
    assert_eq!(value(&page, "cc"), "Carl &#60;carl@b.example&#62;");
    assert_eq!(value(&page, "bcc"), "dan@b.example, &#34;Müller, Käthe&#34; &#60;kaethe@b.example&#62;");
    assert_eq!(value(&page, "subject"), "Tea &#38; cake");
    assert_eq!(value(&page, "in_reply_to"), "&#60;1@b.example&#62;");
    assert!(page.contains("rows=\"14\">\n\nAt noon?\n\nAnn</textarea>"), "{page}");
    assert!(page.contains("name=\"keep\" value=\"0\" checked> Keep plan.txt"), "{page}");
    assert!(page.contains("POST /mailbox/{email}/drafts") && page.contains("DELETE /mailbox/{email}/drafts/{uid}"));
    let list = ann.page(LIST).await;
    assert!(list.contains(&format!("href=\"/console/write?draft={}\">Continue writing", uid(&form))), "{list}");
    let mail = ann.page(&format!("/console/mail/ann@a.example/{}?folder=Drafts", uid(&form))).await;
    assert!(mail.contains("Continue writing") && !mail.contains("/console/write?from="), "{mail}");
    assert!(!ann.page("/console/mail/ann@a.example").await.contains("Continue writing"));
}

#[tokio::test]
async fn a_saved_draft_keeps_the_files_that_are_checked() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let first = save(&ann, &[("from", ANN), ("text", "one")], Some(("plan.txt", "the plan"))).await;
    let again = [("from", ANN), ("text", "two"), ("draft", uid(&first)), ("keep", "0")];
    let second = save(&ann, &again, Some(("more.txt", "more"))).await;
    assert_eq!(total(&app, "Drafts").await, 1);
    let page = ann.page(&second).await;
    assert!(page.contains("Keep plan.txt") && page.contains("Keep more.txt"), "{page}");
    let path = format!("/console/mail/ann@a.example/{}/attachment", uid(&second));
    assert_eq!(ann.get(&format!("{path}/0?folder=Drafts")).await.text(), "the plan");
    assert_eq!(ann.get(&format!("{path}/1?folder=Drafts")).await.text(), "more");
    let third = save(&ann, &[("from", ANN), ("text", "two"), ("draft", uid(&second)), ("keep", "1")], None).await;
    let page = ann.page(&third).await;
    assert!(!page.contains("Keep plan.txt") && page.contains("Keep more.txt"), "{page}");
    let fourth = save(&ann, &[("from", ANN), ("text", "two"), ("draft", uid(&third))], None).await;
    let page = ann.page(&fourth).await;
    assert!(!page.contains("Files of the draft") && page.contains("\ntwo</textarea>"), "{page}");
    assert_eq!(total(&app, "Drafts").await, 1);
}

#[tokio::test]
async fn a_sent_draft_is_removed_and_sent_once() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let written = [("from", ANN), ("to", "bob@a.example"), ("bcc", "root@a.example"), ("subject", "Tea")];
    let form = save(&ann, &written, Some(("plan.txt", "the plan"))).await;
    let page = ann.page(&form).await;
    let (key, draft) = (value(&page, "key").to_owned(), [("draft", uid(&form)), ("keep", "0"), ("text", "x")]);
    let fields: Vec<_> = written.into_iter().chain(draft).chain([("key", key.as_str())]).collect();
    let refused: Vec<_> = fields.iter().map(|(name, value)| (*name, if *name == "to" { "" } else { *value })).collect();
    assert_eq!(send(&ann, &refused, None).await.status, 422);
    assert_eq!(total(&app, "Drafts").await, 1, "a mail that is not sent stays a draft");
    let first = send(&ann, &fields, None).await;
    assert!(first.status == 303 && first.header("location").ends_with("?done=sent"), "{}", first.text());
    assert_eq!(total(&app, "Drafts").await, 0);
    assert_eq!(send(&ann, &fields, None).await.header("location"), first.header("location"));
    app.settle().await;
    let bob = Browser::of(&app, "bob@a.example").await;
    assert_eq!(bob.get("/console/mail/bob@a.example/1/attachment/0").await.text(), "the plan");
    assert_eq!(bob.get("/console/mail/bob@a.example/2").await.status, 404);
    let raw = bob.get("/console/mail/bob@a.example/1/raw").await.text();
    assert!(!raw.contains("root@a.example"), "{raw}");
    let root = Browser::of(&app, ROOT).await;
    assert!(root.page("/console/mail/root@a.example").await.contains(">Tea</a>"));
}

#[tokio::test]
async fn a_refused_mail_is_shown_as_it_was_typed() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let form = save(&ann, &[("from", ANN), ("text", "one")], Some(("plan.txt", "the plan"))).await;
    let key = value(&ann.page(&form).await, "key").to_owned();
    let typed = [
        ("from", ANN),
        ("to", "nobody"),
        ("bcc", "eve@b.example"),
        ("subject", "Tea"),
        ("text", "\r\nAt <noon>?"),
        ("in_reply_to", "<1@b.example>"),
        ("draft", uid(&form)),
        ("key", &key),
    ];
    for act in ["save", ""] {
        let fields: Vec<_> = typed.into_iter().chain([("act", act)]).collect();
        let answer = send(&ann, &fields, Some(("new.txt", "new"))).await;
        let page = answer.text();
        assert!(answer.status == 422 && page.contains("role=\"alert\"") && page.contains("<dt>to[0]</dt>"), "{page}");
        assert!(page.contains("Choose the new attachments again"), "{page}");
        for (name, expected) in [("to", "nobody"), ("bcc", "eve@b.example"), ("subject", "Tea")] {
            assert_eq!(value(&page, name), expected, "{name}");
        }
        assert_ne!(value(&page, "key"), key, "the mail was not sent, so the form is a new one");
        assert_eq!(value(&page, "draft"), uid(&form));
        assert!(page.contains("rows=\"14\">\n\nAt &#60;noon&#62;?</textarea>"), "{page}");
        assert!(page.contains("name=\"keep\" value=\"0\"> Keep plan.txt"), "it was not checked: {page}");
    }
    let other = [("from", ANN), ("text", "x"), ("act", "sent")];
    assert_eq!(send(&ann, &other, None).await.status, 404, "another act sends nothing");
    let gone = typed.into_iter().filter(|(name, _)| *name != "draft").chain([("draft", "999"), ("keep", "0")]);
    let page = send(&ann, &gone.collect::<Vec<_>>(), None).await.text();
    assert!(
        page.contains("At &#60;noon&#62;?") && !page.contains("name=\"draft\""),
        "a new draft can be saved: {page}"
    );
    assert!(page.contains("Choose the new attachments again"), "its files are gone: {page}");
    assert_eq!(total(&app, "Drafts").await, 1);
}

#[tokio::test]
async fn a_mail_that_every_recipient_refuses_is_a_draft() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let written = [("from", ANN), ("to", "nobody@a.example"), ("subject", "Tea"), ("text", "At noon?")];
    let answer = send(&ann, &written, Some(("plan.txt", "the plan"))).await;
    assert!(answer.header("location").ends_with("?done=refused-draft"), "{}", answer.text());
    assert!(ann.page(answer.header("location")).await.contains("The mail is in the drafts."));
    let form = ann.page("/console/write?draft=1").await;
    assert!(form.contains("At noon?</textarea>") && form.contains("Keep plan.txt"), "{form}");
    let again: Vec<_> = written.into_iter().chain([("draft", "1"), ("keep", "0")]).collect();
    let answer = send(&ann, &again, None).await;
    assert!(answer.header("location").ends_with("?done=refused-draft"), "{}", answer.text());
    assert_eq!(total(&app, "Drafts").await, 1, "the draft stays, and no second one is saved");
    let right: Vec<_> =
        again.into_iter().map(|(name, value)| (name, if name == "to" { "bob@a.example" } else { value })).collect();
    assert!(send(&ann, &right, None).await.header("location").ends_with("?done=sent"));
    assert_eq!(total(&app, "Drafts").await, 0);
}

#[tokio::test]
async fn a_changed_mail_is_sent_as_another_one_only_on_purpose() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let key = value(&ann.page("/console/write").await, "key").to_owned();
    let sent = async |key: &str, subject: &str| {
        let fields = [("from", ANN), ("to", "bob@a.example"), ("text", "x"), ("key", key), ("subject", subject)];
        send(&ann, &fields, None).await
    };
    assert_eq!(sent(&key, "one").await.status, 303);
    let refused = sent(&key, "two").await;
    let page = refused.text();
    assert!(refused.status == 409 && page.contains("This mail was sent before."), "{page}");
    let next = value(&page, "key").to_owned();
    assert_ne!(next, key);
    assert_eq!((sent(&next, "two").await.status, sent(&next, "two").await.status), (303, 303));
    app.settle().await;
    let list = Browser::of(&app, "bob@a.example").await.page("/console/mail/bob@a.example").await;
    assert!(list.contains("1–2 of 2"), "{list}");
}

#[tokio::test]
async fn a_file_with_an_unreadable_name_is_not_lost() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let mut body =
        format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"attachment\"; filename=\"r").into_bytes();
    body.extend_from_slice(b"\xe9sum\xe9.pdf\"\r\n\r\nx\r\n");
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let request = ann.request(Method::POST, "/console/write").header("Sec-Fetch-Site", "same-origin");
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let answer = Answer::of(request.header("Content-Type", kind).body(body)).await;
    assert!(answer.status == 422 && answer.text().contains("not UTF-8"), "{}", answer.text());
}

#[tokio::test]
async fn a_draft_too_long_for_a_form_is_not_opened() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let draft = json!({ "subject": "long", "body": { "text": "x\n".repeat(1_200_000) } });
    let saved = app.post(app.admin(), "/mailbox/ann@a.example/drafts", draft).await.json();
    let answer = ann.get(&format!("/console/write?draft={}", saved["uid"])).await;
    assert!(answer.status == 422 && answer.text().contains("too long for a form"), "{}", answer.text());
    assert_eq!(total(&app, "Drafts").await, 1);
}

#[tokio::test]
async fn a_deleted_draft_is_gone() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let form = save(&ann, &[("from", ANN), ("subject", "Tea")], None).await;
    let answer = send(&ann, &[("draft", uid(&form)), ("act", "delete")], None).await;
    assert_eq!(answer.header("location"), format!("{LIST}&done=draft-deleted"));
    let list = ann.page(answer.header("location")).await;
    assert!(list.contains("The draft is deleted.") && list.contains("The folder is empty."), "{list}");
    assert_eq!(ann.get(&form).await.status, 404);
}

#[tokio::test]
async fn formatted_drafts_and_drafts_of_others_are_continued() {
    let app = server().await;
    let draft = json!({ "subject": "Tea", "body": { "html": "<p>At <b>noon</b>?" }, "reply_to": "bob@a.example" });
    let saved = app.post(app.admin(), "/mailbox/ann@a.example/drafts", draft).await.json();
    let admin = Browser::with_token(&app, app.admin()).await;
    let list = admin.page(LIST).await;
    let link = format!("/console/write?draft={}&mailbox=ann%40a.example", saved["uid"]);
    assert!(list.contains(&link.replace('&', "&#38;")), "{list}");
    let own = Browser::of(&app, ANN).await.page(LIST).await;
    assert!(own.contains(&format!("draft={}\">", saved["uid"])), "the owner has another link: {own}");
    let page = admin.page(&link).await;
    assert!(page.contains("At noon?</textarea>") && page.contains("continues as plain text"), "{page}");
    assert_eq!((value(&page, "from"), value(&page, "reply_to")), (ANN, "bob@a.example"));
    let uid = saved["uid"].to_string();
    let fields = [("from", ANN), ("draft", &uid), ("mailbox", ANN), ("text", "At one?")];
    let form = save(&admin, &fields, None).await;
    assert!(form.contains("mailbox=ann%40a.example"), "{form}");
    assert_eq!(total(&app, "Drafts").await, 1);
    save(&admin, &[("from", ANN), ("text", "A token saves in the mailbox of the author.")], None).await;
    assert_eq!(total(&app, "Drafts").await, 2);
    let nobody = send(&admin, &[("from", ""), ("text", "x"), ("act", "save")], None).await;
    assert!(nobody.status == 422 && nobody.text().contains("<dt>from</dt>"), "{}", nobody.text());
}
