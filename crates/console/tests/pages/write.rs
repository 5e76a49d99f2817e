//! Writing a mail.

use std::pin::pin;
use std::time::Duration;

use mailapi_testkit::{Answer, TestApp};
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{ANN, Browser, server};

const BOUNDARY: &str = "----boundary";

/// Sends the form with these fields, and a file.
async fn send(browser: &Browser, fields: &[(&str, &str)], content: &str) -> Answer {
    let field = |(name, value): &(&str, &str)| {
        format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"attachment\"; filename=\"plan.txt\"\r\n\
         Content-Type: text/plain\r\n\r\n{content}\r\n--{BOUNDARY}--\r\n"
    );
    let body = fields.iter().map(field).collect::<String>() + &file;
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let request = browser.request(Method::POST, "/console/write").header("Sec-Fetch-Site", "same-origin");
    Answer::of(request.header("Content-Type", kind).body(body)).await
}

#[tokio::test]
async fn a_mail_as_another_user_and_one_without_recipients_fail() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let answer = send(&ann, &[("from", "bob@a.example"), ("to", ANN), ("text", "x")], "").await;
    assert_eq!(answer.status, 403);
    let answer = send(&ann, &[("from", ANN), ("to", "nobody, "), ("text", "x")], "").await;
    assert!(answer.status == 422 && answer.text().contains("<dt>to[0]</dt>"), "{}", answer.text());
    for body in ["", "--x\r\n", "no form"] {
        let request = ann.request(Method::POST, "/console/write").header("Sec-Fetch-Site", "same-origin");
        let request = request.header("Content-Type", "multipart/form-data; boundary=x").body(body);
        assert_eq!(Answer::of(request).await.status, 422, "{body}");
    }
    assert!(!ann.page("/console/messages").await.contains("/console/messages/0"));
}

#[tokio::test]
async fn a_mail_with_a_file_is_sent_once_however_often_the_form_is() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let form = ann.page("/console/write?to=bob%40a.example&subject=Tea").await;
    let key = form.split("name=\"key\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let fields =
        [("from", ANN), ("to", "bob@a.example"), ("subject", "Tea"), ("text", "At noon?\r\nAnn"), ("key", key)];
    let first = send(&ann, &fields, "the plan").await;
    assert!(first.status == 303 && first.header("location").ends_with("?done=sent"), "{}", first.text());
    assert_eq!(send(&ann, &fields, "the plan").await.header("location"), first.header("location"));
    assert_eq!(send(&ann, &fields, "another").await.status, 409, "the file has changed, so it is another mail");
    app.settle().await;
    assert!(ann.page(first.header("location")).await.contains("message.delivered"));
    let bob = Browser::of(&app, "bob@a.example").await;
    let list = bob.page("/console/mail/bob@a.example").await;
    assert_eq!(list.matches(">Tea</a>").count(), 1, "{list}");
    let page = bob.page("/console/mail/bob@a.example/1").await.replace("\r\n", "\n");
    assert!(page.contains("At noon?\nAnn") && page.contains("plan.txt"), "{page}");
    assert_eq!(bob.get("/console/mail/bob@a.example/1/attachment/0").await.text(), "the plan");
    assert!(
        page.contains("/console/write?from=bob%40a.example&#38;to=ann%40a.example&#38;subject=Re%3A+Tea"),
        "{page}"
    );
}

#[tokio::test]
async fn a_file_beyond_the_limit_of_a_request_is_refused() {
    let app = TestApp::start_with(|settings| settings.http.max_request_bytes = 100_000).await;
    app.mailbox(ANN, None).await;
    let ann = Browser::of(&app, ANN).await;
    let answer = send(&ann, &[("from", ANN), ("to", ANN), ("text", "x")], &"x".repeat(200_000)).await;
    assert!(answer.status == 422 && answer.text().contains("too large"), "{}", answer.text());
}

/// Begins a form with a large file, and returns the status of the answer, if there is one before the end of the form.
async fn unfinished(app: &TestApp, browser: &Browser) -> String {
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    let head = format!(
        "POST /console/write HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nCookie: {}\r\n\
         Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 900000\r\n\r\n\
         --x\r\nContent-Disposition: form-data; name=\"attachment\"; filename=\"plan.txt\"\r\n\r\n",
        browser.cookie
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[b'x'; 600_000]).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    String::from_utf8_lossy(&status[9..]).into_owned()
}

#[tokio::test]
async fn large_forms_share_the_room_of_large_requests() {
    let app = TestApp::start_with(|settings| {
        settings.http.max_request_bytes_in_flight = 1_000_000;
        settings.http.discard_timeout = Duration::from_millis(10);
    })
    .await;
    app.mailbox(ANN, None).await;
    let ann = Browser::of(&app, ANN).await;
    let (mut one, mut two) = (pin!(unfinished(&app, &ann)), pin!(unfinished(&app, &ann)));
    let first = async {
        tokio::select! { status = &mut one => status, status = &mut two => status }
    };
    assert_eq!(timeout(Duration::from_secs(20), first).await.expect("both forms had room"), "503");
    let fields = [("from", ANN), ("to", ANN), ("text", "x")];
    assert_eq!(send(&ann, &fields, "a small form takes no room").await.status, 303);
}

#[tokio::test]
async fn the_texts_of_a_form_are_bounded() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let text = "x".repeat(900_000);
    let answer = send(&ann, &["a", "b", "c", "d", "e"].map(|name| (name, text.as_str())), "").await;
    assert!(answer.status == 422 && answer.text().contains("<dt>e</dt>"), "{}", answer.text());
}
