//! Identifiers of mailboxes and messages (RFC 8474).

use crate::test_server::TestServer;

/// Returns the identifier in `NAME (identifier)`.
fn id(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("{name} (")).unwrap_or_else(|| panic!("no {name} in {text}"));
    rest.split_once(')').unwrap().0.to_owned()
}

#[tokio::test]
async fn a_mailbox_keeps_its_identifier_when_it_is_renamed() {
    let server = TestServer::open().await;
    let mut client = server.ann().await;
    let first = id(&client.run("CREATE Work").await.end, "MAILBOXID");
    client.ok("RENAME Work Old").await;
    assert_eq!(id(&client.ok("STATUS Old (MAILBOXID)").await[0], "MAILBOXID"), first);
    let selected = client.ok("SELECT Old").await;
    assert!(selected.iter().any(|line| line.starts_with(&format!("* OK [MAILBOXID ({first})]"))), "{selected:?}");
    client.ok("DELETE Old").await;
    let second = id(&client.run("CREATE Work").await.end, "MAILBOXID");
    let statuses = client.ok("LIST \"\" * RETURN (STATUS (MAILBOXID))").await;
    let mut ids: Vec<_> =
        statuses.iter().filter(|line| line.starts_with("* STATUS")).map(|line| id(line, "MAILBOXID")).collect();
    assert!(ids.contains(&second) && !ids.contains(&first));
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[tokio::test]
async fn a_message_keeps_its_identifier_wherever_it_goes() {
    let server = TestServer::open().await;
    for text in ["one", "one", "two"] {
        server.put("INBOX", format!("Subject: x\r\n\r\n{text}")).await;
    }
    let mut client = server.ann_in("INBOX").await;
    let ids =
        client.ok("FETCH 1:* (EMAILID THREADID)").await.iter().map(|line| id(line, "EMAILID")).collect::<Vec<_>>();
    // The server does not compare contents, and each message got its own.
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
    assert!(client.ok("FETCH 1 THREADID").await[0].contains("THREADID NIL"));
    client.ok("STORE 2 +FLAGS (\\Flagged)").await;
    client.ok("COPY 1:2 Sent").await;
    client.ok("MOVE 2 Sent").await;
    client.ok("SELECT Sent").await;
    let sent: Vec<_> = client.ok("FETCH 1:* EMAILID").await.iter().map(|line| id(line, "EMAILID")).collect();
    assert_eq!(sent, [&ids[0], &ids[1], &ids[1]].map(Clone::clone));
    assert_eq!(client.ok(&format!("SEARCH EMAILID {}", ids[1])).await, ["* SEARCH 2 3"]);
    assert_eq!(client.ok(&format!("SEARCH THREADID {}", ids[1])).await, ["* SEARCH"]);
    assert_eq!(client.ok("SEARCH EMAILID M999999").await, ["* SEARCH"]);
    assert!(client.run("SEARCH EMAILID a.b").await.end.starts_with("BAD"));
}
