//! The search tests of the contract suite, answered from the index.

use mailapi_backend_external::search_index::{IndexUse, SearchSettings};
use mailapi_testkit::Dovecot;

use crate::indexed::{Indexed, in_inbox, marked};

mod caught_up_while_searching {
    use super::*;

    async fn fixture() -> Indexed {
        Indexed::start().await
    }

    mailapi_backend::backend_contract!(fixture: searching);
}

mod one_message_at_a_time_and_texts_too_long_for_the_index {
    use super::*;

    async fn fixture() -> Indexed {
        let settings = |settings: &mut SearchSettings| {
            settings.batch_messages = 1;
            settings.max_indexed_bytes = 10;
        };
        Indexed::start_with("", settings).await
    }

    mailapi_backend::backend_contract!(fixture: searching);
}

/// The index never catches up while a search waits, so the server handles all searches.
mod always_by_the_server {
    use super::*;

    async fn fixture() -> Indexed {
        Indexed::start_with("", |settings| settings.catch_up_messages = 0).await
    }

    mailapi_backend::backend_contract!(fixture: searching);
}

#[tokio::test]
async fn the_first_large_search_uses_the_server_and_the_next_does_not() {
    let setup = Indexed::start_with("", |settings| {
        settings.catch_up_messages = 3;
        settings.batch_messages = 2;
    })
    .await;
    let messages: Vec<Vec<u8>> = (1..=5).map(|number| marked(&format!("number {number}"), "needle")).collect();
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let bob = setup.server.mailbox_with("bob", &messages).await;
    assert!(!setup.mailboxes.index_once().await, "no mailbox was searched yet");
    assert_eq!(setup.search(&bob, &in_inbox("needle")).await.total, 5);
    assert!(!setup.answers_from_index(&bob).await);
    assert!(setup.mailboxes.index_once().await);
    assert_eq!(setup.search(&bob, &in_inbox("needle")).await.total, 5);
    setup.index_all().await;
    assert!(setup.answers_from_index(&bob).await);
    assert_eq!(setup.search(&bob, &in_inbox("needle")).await.total, 5);
}

#[tokio::test]
async fn long_texts_end_a_step_and_all_of_them_are_read() {
    let setup = Indexed::start_with("", |settings| settings.batch_bytes = 1).await;
    let long = format!("{}needle", "straw\r\n".repeat(12_000));
    let messages: Vec<Vec<u8>> = (1..=3).map(|number| marked(&format!("number {number}"), &long)).collect();
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let bob = setup.server.mailbox_with("bob", &messages).await;
    assert_eq!(setup.search(&bob, &in_inbox("needle")).await.total, 3, "by the server");
    setup.index_all().await;
    assert!(setup.answers_from_index(&bob).await);
    assert_eq!(setup.search(&bob, &in_inbox("needle")).await.total, 3);
}

#[tokio::test]
async fn a_server_with_its_own_index_searches_by_default() {
    // Dovecot 2.4 does not announce it, neither with a full-text plugin (2.4.1 with flatcurve) nor when configured
    // to.
    let (fuzzy, is_announced) = if Dovecot::version() == "2.3" { (FUZZY, true) } else { ("", false) };
    for (index, own, from_index) in [
        (IndexUse::Auto, "", true),
        (IndexUse::Auto, fuzzy, !is_announced),
        (IndexUse::On, fuzzy, true),
        (IndexUse::Off, "", false),
    ] {
        let setup = Indexed::start_with(own, |settings| settings.index = index).await;
        let bob = setup.server.mailbox_with("bob", &[&marked("one", "needle")]).await;
        assert_eq!(setup.search(&bob, &in_inbox("needle")).await.total, 1);
        assert_eq!(setup.answers_from_index(&bob).await, from_index, "{index:?} {own}");
        assert_eq!(setup.files().is_empty(), !from_index);
    }
}

/// The capability that Dovecot 2.3 announces after login if a full-text plugin is loaded.
const FUZZY: &str = "imap_capability = +SEARCH=FUZZY";
