mod analyze_message;
mod analyze_upload;
mod delete_draft;
mod download_attachment;
mod download_raw;
mod list_attachments;
mod list_folders;
mod list_messages;
mod read_message;
mod save_draft;
mod search;

use crate::support::App;

/// A message with a text, a picture inside its HTML, and two files of one name.
const RICH: &str = "\
From: Ann Lee <ann@example.org>
To: Bob <bob@example.org>, eve@example.net
Cc: office@example.org
Subject: =?utf-8?q?Die_Gr=C3=BC=C3=9Fe?=
Date: Fri, 20 Nov 2026 09:00:00 +0100
Message-ID: <one@example.org>
Received: by one
Received: by two
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

See the minutes of Sch=C3=B6nberg.
--b
Content-Type: text/html; name=\"evil \\\"page\\\".html\"
Content-Disposition: attachment; filename=\"evil \\\"page\\\".html\"
Content-Transfer-Encoding: base64

PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==
--b
Content-Type: text/plain
Content-Disposition: attachment; filename*=utf-8''%C3%9C.txt
Content-Transfer-Encoding: base64

Zmlyc3Q=
--b
Content-Type: application/pdf
Content-Disposition: attachment; filename*=utf-8''%C3%9C.txt
Content-Transfer-Encoding: base64

c2Vjb25k
--b--
";

/// Starts a service in which Bob has one rich message in INBOX and a plain one in `Projects/2026`.
async fn bobs_mailbox() -> (App, String, String) {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.deliver("bob@example.org", RICH).await;
    app.append("bob@example.org", "Projects/2026", "Subject: Plans\n\nBuild it.\n").await;
    (app, ann, bob)
}

/// Checks the access rules of an operation on a mailbox. `{}` in `path` is replaced by the mailbox.
async fn refuses_strangers(path: &str) {
    use mailapi_model::Permission;

    let (app, ann, bob) = bobs_mailbox().await;
    let at = |mailbox: &str| path.replace("{}", mailbox);
    for mailbox in ["bob@example.org", "nobody@example.org", "nobody", "%00", "bob@example.org%00"] {
        app.get(&ann, &at(mailbox)).await.assert_error(403, "ACCESS_DENIED");
    }
    for mailbox in ["nobody@example.org", "nobody@nowhere.example", "nobody", "a%2Fb", "%00"] {
        app.get(&app.admin, &at(mailbox)).await.assert_error(404, "MAILBOX_NOT_FOUND");
    }
    for mailbox in ["bob@example.org", "BOB%40Example.ORG"] {
        for caller in [&bob, &app.admin] {
            assert_eq!(app.get(caller, &at(mailbox)).await.status.as_u16(), 200, "{mailbox}");
        }
    }
    app.domain("other.example").await;
    app.grant("ann@example.org", Permission::SendMail, "example.org").await;
    app.grant("ann@example.org", Permission::ViewMailbox, "other.example").await;
    app.get(&ann, &at("bob@example.org")).await.assert_error(403, "ACCESS_DENIED");
    app.trouble.go_down();
    let message = app.get(&bob, &at("bob@example.org")).await.assert_error(500, "IMAP_ERROR");
    assert!(!message.contains("192.0.2.1"), "{message}");
}

/// Checks that an operation rejects unknown folders. `{}` in `path` is replaced by the folder.
async fn refuses_unknown_folders(path: &str) {
    let (app, _, bob) = bobs_mailbox().await;
    for folder in ["Nowhere", "inbox%20", "a%00b", "%2F", "INBOX%2FInner", "..%2F..%2Fetc"] {
        app.get(&bob, &path.replace("{}", folder)).await.assert_error(400, "INVALID_FOLDER");
    }
}

/// Checks that an operation rejects unknown messages. `{}` in `path` is replaced by the UID.
async fn refuses_unknown_messages(path: &str) {
    let (app, _, bob) = bobs_mailbox().await;
    for uid in ["0", "2", "999", "4294967295", "4294967296", "-1", "x", "1.0", "%31x", "1%00", "+1"] {
        app.get(&bob, &path.replace("{}", uid)).await.assert_error(404, "MESSAGE_NOT_FOUND");
    }
}
