//! SAVEDATE (RFC 8514): when a message was added to its mailbox.

use std::time::Duration;

use crate::test_server::TestServer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn a_message_is_saved_again_wherever_it_goes() {
    let server = TestServer::open().await;
    let mut client = server.ann_in("INBOX").await;
    let message = "Subject: x\r\n\r\n";
    let append = format!("APPEND INBOX \"28-Jun-1996 22:13:20 +0000\" {{{}+}}\r\n{message}", message.len());
    client.ok(&append).await;
    let saved = async |client: &mut crate::client::Client| client.ok("FETCH 1 SAVEDATE").await.remove(0);
    let first = saved(&mut client).await;
    assert!(first.starts_with("* 1 FETCH (SAVEDATE \"") && !first.contains("1996"), "{first}");
    server.clock.advance(DAY);
    client.ok("COPY 1 Sent").await;
    client.ok("STORE 1 +FLAGS (\\Flagged)").await;
    assert_eq!(saved(&mut client).await, first);
    server.clock.advance(DAY);
    client.ok("MOVE 1 Archive").await;
    for (folder, others) in [("Sent", vec![&first]), ("Archive", vec![&first])] {
        client.ok(&format!("SELECT {folder}")).await;
        let later = saved(&mut client).await;
        assert!(!others.contains(&&later), "{folder}");
        assert!(client.ok("FETCH 1 INTERNALDATE").await[0].contains("28-Jun-1996"));
        let day = later["* 1 FETCH (SAVEDATE \"".len()..][..11].trim();
        for (key, is_found) in [
            (format!("SAVEDON {day}"), true),
            (format!("SAVEDSINCE {day}"), true),
            (format!("SAVEDBEFORE {day}"), false),
            ("SAVEDBEFORE 1-Jan-2000".to_owned(), false),
            ("SAVEDATESUPPORTED".to_owned(), true),
            ("NOT SAVEDATESUPPORTED".to_owned(), false),
        ] {
            let found = if is_found { "* SEARCH 1" } else { "* SEARCH" };
            assert_eq!(client.ok(&format!("SEARCH {key}")).await, [found], "{key}");
        }
    }
}

#[tokio::test]
async fn a_message_from_before_the_upgrade_has_its_time_of_receipt() {
    let server = TestServer::open().await;
    server.deliver("Subject: old\n\n").await;
    server.database().execute("UPDATE drop_entries SET saved_at = NULL", []).unwrap();
    let mut client = server.ann_in("INBOX").await;
    let dates = client.ok("FETCH 1 (SAVEDATE INTERNALDATE)").await.remove(0);
    let quoted: Vec<_> = dates.split('"').collect();
    assert_eq!(quoted[1], quoted[3]);
}
