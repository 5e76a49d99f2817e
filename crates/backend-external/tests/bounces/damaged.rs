//! A message at which the server closes the connection, as Dovecot does for some damaged messages.

use std::time::Duration;

use mailapi_backend::DeliveryFeed;
use mailapi_backend_external::bounces::{BounceFeed, BounceLimits};
use mailapi_backend_external::imap_pool::{ImapPool, ImapSettings};
use mailapi_model::{FeedCursor, MessageId, Secret, Timestamp};
use mailapi_testkit::SeededEntropy;
use mailapi_testkit::scripted_imap::{LOGIN, ScriptedServer};
use mailapi_tls::{Trust, client_config};

use crate::bounce_mailbox::{BounceMailbox, settings};

/// Opens the folder with messages of UID 4, which is damaged, and 9; reading begins at `first`.
fn folder(first: u32) -> String {
    format!(
        "{LOGIN}
C: LIST \"\" \"\"
S: * LIST (\\Noselect) \"/\" \"\"
S: {{tag}} OK
C: EXAMINE \"INBOX\"
S: * 2 EXISTS
S: * OK [UIDVALIDITY 7] valid
S: {{tag}} OK [READ-ONLY] open
C: FETCH 2:2 (UID)
S: * 2 FETCH (UID 9)
S: {{tag}} OK
C: UID FETCH {first}:9 (UID)
S: * 1 FETCH (UID 4)
S: * 2 FETCH (UID 9)
S: {{tag}} OK"
    )
}

const DAMAGED: &str = "
C: UID FETCH 4
S: * BYE Internal error occurred
close";

fn readable(notice: &str) -> String {
    let bytes = notice.len();
    let shown = notice.replace("\r\n", "\\r\\n");
    format!(
        "
C: UID FETCH 9
S: * 2 FETCH (UID 9 INTERNALDATE \"21-Nov-2026 08:00:00 +0000\" BODY[]<0> {{{bytes}}}\\r\\n{shown})
S: {{tag}} OK"
    )
}

fn feed(server: &ScriptedServer, tries: usize) -> BounceFeed {
    let imap = ImapSettings::new("127.0.0.1", server.port, "master", Secret::new("secret".to_owned()));
    let imap = ImapSettings { pause: Duration::ZERO, idle_lifetime: Duration::ZERO, ..imap };
    let pool = ImapPool::new(imap, client_config(&Trust::System).unwrap());
    let mut settings = settings(1);
    settings.limits = BounceLimits { message_tries: tries, ..settings.limits };
    BounceFeed::new(pool, settings).unwrap()
}

fn notice() -> String {
    let id = MessageId::random(Timestamp::from_millis(0), &SeededEntropy::new(1));
    let address = settings(1).return_addresses().unwrap().of(id);
    BounceMailbox::notice_to(&address, &["gone@example.net"], "failed")
}

#[tokio::test]
async fn while_no_message_can_be_read_none_is_stepped_over() {
    let no_other = format!("{}\nC: UID FETCH 9\nS: * BYE Internal error occurred\nclose", folder(1));
    let server = ScriptedServer::start(&[format!("{}{DAMAGED}", folder(1)), no_other]).await;
    let feed = feed(&server, 2);
    for _ in 0..6 {
        let error = feed.read_after(&FeedCursor::default(), 10).await.unwrap_err();
        assert!(error.to_string().contains("Internal error"), "{error}");
        assert!(feed.check().await.unwrap().is_err());
    }
    assert_eq!(feed.losses().await, None);
    server.assert_no_surprise();
}

#[tokio::test]
async fn a_message_that_kills_every_connection_is_skipped() {
    let notice = notice();
    let server = ScriptedServer::start(&[
        format!("{}{DAMAGED}", folder(1)),
        // From the second attempt on, another message is requested first.
        format!("{}{}{DAMAGED}", folder(1), readable(&notice)),
        format!("{}{}{DAMAGED}", folder(1), readable(&notice)),
        format!("{}{}", folder(5), readable(&notice)),
    ])
    .await;
    let feed = feed(&server, 3);
    for _ in 0..2 {
        feed.read_after(&FeedCursor::default(), 10).await.unwrap_err();
        assert!(feed.check().await.unwrap().is_err());
    }
    let over = feed.read_after(&FeedCursor::default(), 10).await.unwrap();
    assert_eq!((over.events, over.lines_read, over.more), (vec![], 1, true));
    assert_eq!(feed.check().await, Some(Ok(())));
    let reported = feed.losses().await.expect("the loss is reported");
    assert!(reported.contains("UID 4"), "{reported}");

    let behind = feed.read_after(&over.cursor, 10).await.unwrap();
    assert_eq!(behind.events.len(), 1);
    assert_eq!(behind.events[0].recipient.as_str(), "gone@example.net");
    server.assert_no_surprise();
}
