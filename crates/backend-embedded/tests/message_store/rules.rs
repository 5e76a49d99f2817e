use std::time::Duration;

use mailapi_backend::{DeliveryFeed, Mailboxes, Provisioning};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_backend_embedded::accept::{AcceptError, Incoming, Relaying, Taken};
use mailapi_model::{Alias, EmailAddress, FeedCursor, FolderName, Page, RuleSet, Timestamp};

use super::accept::nothing_was_written;
use super::test_store::{TestStore, address, ann, bob, folder, mail};

/// Opens a server with rules of ann, and with the alias team for her and bob.
async fn with_rules(rules: &str) -> TestStore {
    with_rules_and(rules, MessageStoreSettings::default()).await
}

async fn with_rules_and(rules: &str, settings: MessageStoreSettings) -> TestStore {
    let test_store = TestStore::with(settings).await;
    put(&test_store, &ann(), rules).await;
    let (address, members) = (address("team@example.org"), vec![ann(), bob()]);
    let team = Alias { address, members, senders: Vec::new(), active: true, created_at: Timestamp::from_seconds(0) };
    test_store.message_store.put_alias(&team).await.unwrap();
    test_store
}

async fn put(test_store: &TestStore, mailbox: &EmailAddress, rules: &str) {
    test_store.message_store.put_rules(mailbox, &RuleSet::from_text(rules).unwrap()).await.unwrap();
}

async fn accept(test_store: &TestStore, recipients: &[&str]) -> Result<Taken, AcceptError> {
    accept_changed(test_store, recipients, |_| {}).await
}

async fn accept_changed(
    test_store: &TestStore,
    recipients: &[&str],
    change: impl FnOnce(&mut Incoming),
) -> Result<Taken, AcceptError> {
    let mut incoming = test_store.incoming(recipients, &mail("Hi", "."));
    incoming.relaying = Relaying::Denied;
    change(&mut incoming);
    test_store.message_store.accept(incoming).await
}

async fn held(test_store: &TestStore, mailbox: &EmailAddress, name: &str) -> usize {
    let folder: FolderName = folder(name);
    test_store.message_store.list(mailbox, &folder, Page::new(100, 0)).await.map_or(0, |listed| listed.items.len())
}

/// Returns the reports: recipient, address that was tried, outcome.
async fn reported(test_store: &TestStore) -> Vec<String> {
    let batch = test_store.message_store.read_after(&FeedCursor::default(), 100).await.unwrap();
    let shown = |event: &mailapi_model::DeliveryEvent| {
        let tried = event.final_recipient.as_ref().map_or("-", EmailAddress::as_str);
        format!("{} {tried} {}", event.recipient, event.outcome.as_str())
    };
    batch.events.iter().map(shown).collect()
}

/// Returns the addresses at other servers that the queue has.
fn queued(test_store: &TestStore) -> Vec<String> {
    let database = test_store.database();
    let mut statement = database.prepare("SELECT recipient FROM drop_queue_recipients ORDER BY recipient").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

const REJECT: &str = "rule\ton\tx\nif\tfrom\tis\teve@elsewhere.example\ndo\treject\tNo mail from you\n";

#[tokio::test]
async fn a_rule_refuses_a_message_before_it_is_stored() {
    let test_store = with_rules(REJECT).await;
    let Err(AcceptError::NoRecipients(refused)) = accept(&test_store, &["ann@example.org"]).await else { panic!() };
    assert_eq!(refused[0].reply.to_string(), "550 5.7.1 No mail from you");
    nothing_was_written(&test_store);

    let taken = accept(&test_store, &["team@example.org", "ann@example.org", "bob@example.org"]).await.unwrap();
    let codes = |refused: &[mailapi_backend::Refusal]| refused.iter().map(|one| one.recipient.to_string()).collect();
    let (refused, partly): (Vec<String>, Vec<String>) = (codes(&taken.refused), codes(&taken.partly_failed));
    assert_eq!((refused, partly), (vec![ann().to_string()], vec!["team@example.org".to_owned()]));
    assert_eq!((held(&test_store, &ann(), "INBOX").await, held(&test_store, &bob(), "INBOX").await), (0, 1));
}

#[tokio::test]
async fn a_notice_is_never_refused_by_a_rule() {
    let test_store = with_rules("rule\ton\tx\ndo\treject\tNo mail\n").await;
    accept_changed(&test_store, &["ann@example.org"], |incoming| incoming.sender = None).await.unwrap();
    assert_eq!(held(&test_store, &ann(), "INBOX").await, 1);
}

#[tokio::test]
async fn junk_is_filed_but_neither_forwarded_nor_refused() {
    let test_store = with_rules(&format!(
        "{REJECT}rule\ton\ty\ndo\tforward\ttim@other.example\ndo\tfolder\tWork\nrule\ton\tz\nif\tspam\ndo\tfolder\tTrash\n"
    ))
    .await;
    accept_changed(&test_store, &["ann@example.org"], |incoming| incoming.is_junk = true).await.unwrap();
    let folders = ["INBOX", "Work", "Junk", "Trash"];
    let mut counts = Vec::new();
    for name in folders {
        counts.push(held(&test_store, &ann(), name).await);
    }
    assert_eq!((counts, queued(&test_store)), (vec![0, 0, 0, 1], vec![]));
}

#[tokio::test]
async fn a_copy_goes_to_mailboxes_here_and_addresses_elsewhere() {
    let forward =
        "rule\ton\tx\ndo\tforward\tbob@example.org\ndo\tforward\ttim@other.example\ndo\tforward\tgone@example.org\n";
    let test_store = with_rules(forward).await;
    // The rules of both forward to each other.
    put(&test_store, &bob(), "rule\ton\tx\ndo\tforward\tann@example.org\ndo\tforward\tTim@other.example\n").await;
    let taken = accept(&test_store, &["ann@example.org"]).await.unwrap();
    assert_eq!((taken.refused, taken.partly_failed), (vec![], vec![]), "the sender gets no notice");
    assert_eq!((held(&test_store, &ann(), "INBOX").await, held(&test_store, &bob(), "INBOX").await), (1, 1));
    assert_eq!(queued(&test_store), ["tim@other.example"]);
    let sql = "SELECT count(*) FROM drop_queue_recipients
        WHERE forwarded_by = 'ann@example.org' AND alias_has_it AND notify = 'NEVER'";
    assert_eq!(test_store.number(sql), 1);
    let expected = [
        "ann@example.org - sent",
        "ann@example.org gone@example.org bounced",
        "ann@example.org bob@example.org sent",
        "ann@example.org ann@example.org sent",
    ];
    assert_eq!(reported(&test_store).await, expected);
}

#[tokio::test]
async fn a_recipient_gets_no_second_copy_by_the_rules_of_another() {
    let forward = "rule\ton\tx\ndo\tforward\tbob@example.org\ndo\tforward\ttim@other.example\n";
    let test_store = with_rules(forward).await;
    put(&test_store, &bob(), "rule\ton\tx\ndo\tforward\ttim+x@other.example\ndo\tforward\tTim@other.example\n").await;
    accept(&test_store, &["ann@example.org", "bob@example.org"]).await.unwrap();
    assert_eq!((held(&test_store, &ann(), "INBOX").await, held(&test_store, &bob(), "INBOX").await), (1, 1));
    let expected = ["ann@example.org - sent", "bob@example.org - sent", "ann@example.org bob@example.org sent"];
    assert_eq!(reported(&test_store).await, expected);
    assert_eq!(queued(&test_store), ["tim+x@other.example", "tim@other.example"]);

    let submitted = |incoming: &mut Incoming| incoming.relaying = Relaying::Allowed;
    accept_changed(&test_store, &["tim@other.example", "ann@example.org"], submitted).await.unwrap();
    let sql = "SELECT count(*) FROM drop_queue_recipients WHERE lower(recipient) = 'tim@other.example'";
    assert_eq!(test_store.number(sql), 2, "one for each message");
    for mailbox in [ann(), bob()] {
        put(&test_store, &mailbox, "rule\ton\tx\ndo\tforward\ttim@other.example\n").await;
    }
    accept(&test_store, &["ann@example.org", "bob@example.org"]).await.unwrap();
    assert_eq!(test_store.number(sql), 3);
}

#[tokio::test]
async fn a_flood_of_senders_is_answered_slowly() {
    let away = "rule\ton\tx\ndo\tvacation\t3\t\tAway\tann@elsewhere.example\n";
    let test_store = with_rules(away).await;
    let from = async |sender: String| {
        let mut incoming = test_store.incoming(&["ann@example.org"], &mail("Hi", "."));
        incoming.sender = Some(address(&sender));
        test_store.message_store.accept(incoming).await.unwrap();
        test_store.number("SELECT count(*) FROM drop_answers")
    };
    for _ in 0..3 {
        assert_eq!(from("victim+1@far.example".to_owned()).await, 1);
        assert_eq!(from("victim+2@far.example".to_owned()).await, 1, "a tag makes no other sender");
    }
    for n in 0..150 {
        from(format!("u{n}@far.example")).await;
    }
    assert_eq!(test_store.number("SELECT count(*) FROM drop_answers"), 100);
    test_store.clock.advance(Duration::from_secs(60 * 60));
    assert_eq!(from("zoe@far.example".to_owned()).await, 101);
}

#[tokio::test]
async fn a_message_that_comes_back_is_not_forwarded_for_ever() {
    let test_store = with_rules("rule\ton\tx\ndo\tforward\ttim@other.example\n").await;
    let passed = "Received: from a by mx.here.example; x\r\nReceived: from b by far.example; x\r\n";
    for (times, forwarded) in [(1, 1), (2, 2), (3, 2)] {
        let message = format!("{}{}", passed.repeat(times), mail("Hi", "."));
        let incoming = test_store.incoming(&["ann@example.org"], &message);
        test_store.message_store.accept(incoming).await.unwrap();
        assert_eq!(queued(&test_store).len(), forwarded, "{times}");
    }
    let copy = format!("Delivered-To: ann+x@example.org\r\n{}", mail("Hi", "."));
    test_store.message_store.accept(test_store.incoming(&["ann@example.org"], &copy)).await.unwrap();
    assert_eq!(queued(&test_store).len(), 2, "ann has forwarded it before");
    assert_eq!(held(&test_store, &ann(), "INBOX").await, 4);
}

#[tokio::test]
async fn forwarding_counts_as_the_members_of_aliases_do() {
    let test_store = with_rules("rule\ton\tx\ndo\tforward\tmany@example.org\ndo\tforward\ttim@other.example\n").await;
    let members = (0..1_000).map(|n| address(&format!("u{n}@elsewhere.example"))).collect();
    let created_at = Timestamp::from_seconds(0);
    let many = Alias { address: address("many@example.org"), members, senders: Vec::new(), active: true, created_at };
    test_store.message_store.put_alias(&many).await.unwrap();
    accept(&test_store, &["many@example.org", "ann@example.org"]).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue_recipients"), 1_000, "the alias itself");
    assert_eq!(held(&test_store, &ann(), "INBOX").await, 1);
}

#[tokio::test]
async fn a_rule_creates_its_folder_as_long_as_there_is_room() {
    let rules = "rule\ton\tx\ndo\tfolder\tA/B/C\ndo\tflag\tnews\ndo\tflag\t\\\\Seen\n";
    // The six first ones, and three of the rule.
    let settings = MessageStoreSettings { max_folders: 9, ..MessageStoreSettings::default() };
    let test_store = with_rules_and(rules, settings).await;
    accept(&test_store, &["team@example.org"]).await.unwrap();
    assert_eq!((held(&test_store, &ann(), "A/B/C").await, held(&test_store, &ann(), "INBOX").await), (1, 0));
    assert_eq!(test_store.number("SELECT count(*) FROM drop_entries WHERE flags = 1 AND keywords = 'news'"), 1);
    assert_eq!(test_store.number("SELECT unread FROM drop_folders WHERE name = 'A/B/C'"), 0);

    put(&test_store, &ann(), "rule\ton\tx\ndo\tfolder\tD\n").await;
    accept(&test_store, &["ann@example.org"]).await.unwrap();
    assert_eq!(held(&test_store, &ann(), "INBOX").await, 1, "the message is not lost");
}

#[tokio::test]
async fn rules_go_with_their_mailbox() {
    let test_store = with_rules(REJECT).await;
    let known = test_store.message_store.rules_after(None, 10).await.unwrap().unwrap();
    assert_eq!(known, [(ann(), RuleSet::from_text(REJECT).unwrap())]);
    test_store.message_store.remove_mailbox(&ann()).await.unwrap();
    test_store.message_store.put_mailbox(&ann(), None).await.unwrap();
    assert_eq!(test_store.message_store.rules_after(None, 10).await.unwrap().unwrap(), []);
    accept(&test_store, &["ann@example.org"]).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_rules"), 0);
}

#[tokio::test]
async fn a_quarantined_mailbox_sends_no_answers() {
    let test_store = with_rules("rule\ton\tx\ndo\tvacation\t3\t\tAway\tann@elsewhere.example\n").await;
    accept(&test_store, &["ann@example.org"]).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_answers"), 1);
    test_store.message_store.repair_mailbox(&ann(), None).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_quarantine"), 1, "it has a message");
    for table in ["drop_answers", "drop_answered", "drop_rules"] {
        assert_eq!(test_store.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
}

#[tokio::test]
async fn a_sender_gets_few_answers_of_all_mailboxes_together() {
    let test_store = with_rules("").await;
    for n in 0..25 {
        let mailbox = address(&format!("u{n}@example.org"));
        test_store.message_store.put_mailbox(&mailbox, None).await.unwrap();
        put(&test_store, &mailbox, &format!("rule\ton\tx\ndo\tvacation\t3\t\tAway\t{}\n", ann())).await;
        accept(&test_store, &[mailbox.as_str()]).await.unwrap();
    }
    assert_eq!(test_store.number("SELECT count(*) FROM drop_answers"), 20);
    test_store.clock.advance(Duration::from_secs(60 * 60));
    accept(&test_store, &["u24@example.org"]).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_answers"), 21, "a later message is answered");
}
