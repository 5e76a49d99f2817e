//! Reading a mailbox.

use mailapi_testkit::TestApp;

use crate::support::{ANN, Browser, ROOT, server, server_with};

const MAIL: &str = "From: Eve <eve@b.example>\nTo: ann@a.example\nSubject: Tea & <b>cake</b>\n\
    Message-ID: <1@b.example>\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n\
    --x\nContent-Type: text/html\n\n\
    <p>Dear <b>Ann</b>, <a href=\"https://bank.example@evil.example/x\">your bank</a>\
    <script>alert(1)</script><img src=\"https://evil.example/pixel\" alt=\"picture\"></p>\n\
    --x\nContent-Type: text/html; name=\"page.html\"\nContent-Disposition: attachment; filename=\"page.html\"\n\n\
    <script>alert(2)</script>\n--x--\n";

async fn received(app: &TestApp) -> &'static str {
    app.deliver("eve@b.example", ANN, MAIL).await;
    app.settle().await;
    "/console/mail/ann@a.example/1"
}

#[tokio::test]
async fn only_those_who_may_read_a_mailbox_open_it() {
    let app = server().await;
    let path = received(&app).await;
    let bob = Browser::of(&app, "bob@a.example").await;
    for part in ["", "/html", "/raw", "/attachment/0"] {
        assert_eq!(bob.get(&format!("{path}{part}")).await.status, 403, "{part}");
    }
    assert_eq!(bob.get("/console/mail/ann@a.example").await.status, 403);
    assert_eq!(bob.get("/console/mail").await.header("location"), "/console/mail/bob@a.example");
    let root = Browser::of(&app, ROOT).await;
    assert_eq!(root.get("/console/mail?mailbox=ann@a.example").await.header("location"), "/console/mail/ann@a.example");
    root.page(path).await;
    for missing in ["/console/mail/ann@a.example/9", "/console/mail/ann@a.example/x", "/console/mail/no@a.example"] {
        assert_eq!(root.get(missing).await.status, 404, "{missing}");
    }
    assert_eq!(root.get("/console/mail/ann@a.example?folder=Nowhere").await.status, 400);
}

#[tokio::test]
async fn a_mail_is_listed_found_and_shown_behind_three_walls() {
    let app = server().await;
    let path = received(&app).await;
    let ann = Browser::of(&app, ANN).await;
    for list in ["/console/mail/ann@a.example", "/console/mail/ann@a.example?folder=INBOX&q=Dear"] {
        let page = ann.page(list).await;
        assert!(page.contains("Tea &#38; &#60;b&#62;cake&#60;/b&#62;") && page.contains("Eve"), "{page}");
    }
    assert!(ann.page("/console/mail/ann@a.example?q=nothing").await.contains("Nothing found."));
    let page = ann.page(path).await;
    assert!(page.contains("src=\"/console/mail/ann@a.example/1/html?folder=INBOX\" sandbox referrerpolicy"), "{page}");
    assert!(page.contains("<strong>evil.example</strong>") && !page.contains("alert("), "{page}");
    let framed = ann.get(&format!("{path}/html")).await;
    assert_eq!(
        framed.header("content-security-policy"),
        "default-src 'none'; style-src 'unsafe-inline'; sandbox; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'self'"
    );
    let html = framed.text();
    assert!(html.contains("<b>Ann</b>") && html.contains("alt=\"picture\""), "{html}");
    assert!(!html.contains("<script") && !html.contains("pixel"), "{html}");
}

#[tokio::test]
async fn signs_of_fraud_stand_above_a_mail() {
    let app = server_with(|settings| settings.security_analysis = true).await;
    let ann = Browser::of(&app, ANN).await;
    let page = ann.page(received(&app).await).await;
    let heading = "<h2 id=\"signs\">Look twice before you trust this message</h2>";
    assert!(page.contains(heading) && page.contains("<span class=\"quiet\">page.html</span>"), "{page}");
    let fraud = "From: \"help@bank.com\" <eve@b.example>\nTo: ann@a.example\nSubject: Pay\nContent-Type: text/html\n\n\
        <a href=\"http://192.0.2.1/\">https://www.bank.com/</a><form action=\"'><script>\"><input type=password></form>\n";
    app.deliver("eve@b.example", ANN, fraud).await;
    let page = ann.page("/console/mail/ann@a.example/2").await;
    assert!(page.contains("This message is probably a fraud") && page.contains("class=\"note bad\""), "{page}");
    assert!(page.contains("www.bank.com leads to 192.0.2.1") && !page.contains("<script>"), "{page}");
    app.deliver("eve@b.example", ANN, "From: eve@b.example\nSubject: Tea\n\nAt five?\n").await;
    assert!(!ann.page("/console/mail/ann@a.example/3").await.contains("id=\"signs\""));
}

#[tokio::test]
async fn without_the_analysis_nothing_stands_above_a_mail() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let page = ann.page(received(&app).await).await;
    assert!(!page.contains("id=\"signs\"") && !page.contains("fraud"), "{page}");
}

#[tokio::test]
async fn the_list_of_a_folder_shows_every_change_at_once() {
    let app = server().await;
    received(&app).await;
    let (ann, list) = (Browser::of(&app, ANN).await, "/console/mail/ann@a.example");
    let page = ann.page(list).await;
    assert!(page.contains("1–1 of 1") && page == ann.page(list).await, "{page}");
    for number in 0..60 {
        app.deliver("eve@b.example", ANN, &format!("From: eve@b.example\nSubject: number {number}\n\nHi\n")).await;
    }
    app.settle().await;
    let older = format!("{list}?folder=INBOX&#38;offset=50");
    for _ in 0..2 {
        let page = ann.page(list).await;
        assert!(page.contains("1–50 of 61") && page.contains(">number 59</a>") && page.contains(&older), "{page}");
        let page = ann.page(&older.replace("#38;", "")).await;
        assert!(page.contains("51–61 of 61") && page.contains("cake") && !page.contains(">number 59</a>"), "{page}");
    }
    let purged = app.delete(app.admin(), &format!("/users/{ANN}/purge")).await;
    assert_eq!(purged.status, 200, "{}", purged.text());
    assert!(ann.page(list).await.contains("The folder is empty."));
}

#[tokio::test]
async fn what_the_owner_wrote_is_listed_with_its_recipients() {
    let app = server().await;
    let own = "From: Ann <Ann@a.example>\nTo: Bob <bob@b.example>, c@b.example, d@b.example, e@b.example\nSubject: Plan\n\nHi\n";
    app.deliver(ANN, ANN, own).await;
    app.deliver(ANN, ANN, "From: ann@a.example\nSubject: Note\n\nHi\n").await;
    app.settle().await;
    let page = Browser::of(&app, ANN).await.page("/console/mail/ann@a.example").await;
    assert!(page.contains("<td>To Bob, c@b.example, d@b.example, …</td>"), "{page}");
    assert!(page.contains("<td>ann@a.example</td>"), "{page}");
}

#[tokio::test]
async fn a_file_is_saved_and_never_shown() {
    let app = server().await;
    let path = received(&app).await;
    let ann = Browser::of(&app, ANN).await;
    let file = ann.get(&format!("{path}/attachment/0")).await;
    assert_eq!((file.status, file.text().trim()), (200, "<script>alert(2)</script>"));
    assert_eq!(file.header("content-type"), "application/octet-stream");
    assert!(file.header("content-disposition").starts_with("attachment; filename=\"page.html\""));
    assert_eq!(file.header("content-security-policy"), "sandbox");
    assert_eq!(file.header("x-content-type-options"), "nosniff");
    let raw = ann.get(&format!("{path}/raw")).await;
    assert!(raw.header("content-disposition").contains("1.eml") && raw.text().contains("Subject: Tea"));
    assert_eq!(ann.get(&format!("{path}/attachment/7")).await.status, 404);
}

#[tokio::test]
async fn a_long_text_is_shown_in_part() {
    let app = server().await;
    // The place of the cut is within a letter of two bytes.
    let text = format!("x{}\nthe end\n", "é".repeat(600_000));
    let mail = format!(
        "From: eve@b.example\nSubject: long\nContent-Type: text/plain; charset=utf-8\nMIME-Version: 1.0\n\n{text}"
    );
    app.deliver("eve@b.example", ANN, &mail).await;
    app.settle().await;
    let ann = Browser::of(&app, ANN).await;
    let page = ann.page("/console/mail/ann@a.example/1").await;
    assert!(page.contains("The raw message has all of it.") && !page.contains("the end"), "{}", page.len());
    assert!(page.len() < 1_100_000 && page.contains("xéé"), "{}", page.len());
    assert!(ann.get("/console/mail/ann@a.example/1/raw").await.text().contains("the end"));
}

#[tokio::test]
async fn a_mail_too_deep_to_parse_is_not_parsed() {
    let app = server().await;
    let deep = "<div>".repeat(5000);
    app.deliver("eve@b.example", ANN, &format!("Subject: Deep\nContent-Type: text/html\n\n{deep}")).await;
    app.settle().await;
    let ann = Browser::of(&app, ANN).await;
    let page = ann.page("/console/mail/ann@a.example/1").await;
    assert!(page.contains("too deeply nested to show") && !page.contains("<iframe"), "{page}");
    assert_eq!(ann.get("/console/mail/ann@a.example/1/html").await.status, 404);
}
