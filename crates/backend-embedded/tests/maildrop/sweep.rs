use mailapi_backend::{Mailboxes, Provisioning};
use mailapi_backend_embedded::MaildropSettings;

use super::house::{House, ann, bob, mail};

#[tokio::test]
async fn octets_go_when_the_last_who_refers_to_them_goes() {
    let house = House::new().await;
    house.deliver(&["ann@example.org", "bob@example.org"], &mail("Hi", "Hello.")).await;
    house.maildrop.keep_house_until_done().await.unwrap();
    house.maildrop.purge(&ann()).await.unwrap();
    assert_eq!(house.maildrop.sweep_once().await.unwrap(), 0);
    house.maildrop.remove_mailbox(&bob()).await.unwrap();
    house.maildrop.remove_entries_once().await.unwrap();
    assert_eq!(house.maildrop.sweep_once().await.unwrap(), 1);
    for table in ["messages", "chunks", "texts", "unindexed"] {
        assert_eq!(house.number(&format!("SELECT count(*) FROM drop_{table}")), 0, "{table}");
    }
    assert_eq!(house.number("SELECT count(*) FROM drop_fts WHERE drop_fts MATCH '\"hello\"'"), 0);
}

#[tokio::test]
async fn a_step_has_a_bound_and_the_rest_is_left_for_the_next() {
    let house = House::with(MaildropSettings { sweep_batch: 2, index_batch: 2, ..MaildropSettings::default() }).await;
    for _ in 0..3 {
        house.deliver(&["ann@example.org"], &mail("Hi", "Hello.")).await;
    }
    for expected in [2, 1, 0] {
        assert_eq!(house.maildrop.index_once().await.unwrap(), expected);
    }
    house.maildrop.purge(&ann()).await.unwrap();
    for expected in [2, 1, 0] {
        assert_eq!(house.maildrop.sweep_once().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_damaged_message_does_not_keep_those_behind_it_from_the_index() {
    let house = House::new().await;
    for _ in 0..2 {
        house.deliver(&["ann@example.org"], &mail("Hi", "Hello.")).await;
    }
    house.database().execute_batch("DELETE FROM drop_chunks WHERE key < 2 * 65536").unwrap();
    house.maildrop.keep_house_until_done().await.unwrap();
    assert_eq!(house.number("SELECT count(*) FROM drop_unindexed"), 0);
    assert_eq!(house.number("SELECT count(*) FROM drop_fts WHERE drop_fts MATCH 'words : \"hello\"'"), 1);
}
