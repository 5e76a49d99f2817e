//! Failures of the files and of the process.

use std::fs;
use std::future::poll_fn;
use std::io::{Seek, SeekFrom, Write};
use std::task::Poll;

use mailapi_backend::contract::Fixture;
use mailapi_backend::{FolderScope, MailboxError, Mailboxes};
use mailapi_model::{EmailAddress, FolderName};

use crate::indexed::{Indexed, in_inbox, marked, query};

async fn mailbox_of(setup: &Indexed, count: usize) -> EmailAddress {
    let messages: Vec<Vec<u8>> = (0..count).map(|number| marked(&format!("number {number}"), "needle")).collect();
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    setup.server.mailbox_with("bob", &messages).await
}

async fn assert_finds(setup: &Indexed, bob: &EmailAddress, total: u64) {
    assert_eq!(setup.search(bob, &in_inbox("needle")).await.total, total);
}

#[tokio::test]
async fn a_damaged_file_is_made_again() {
    let mut setup = Indexed::start().await;
    let bob = mailbox_of(&setup, 3).await;
    assert!(setup.answers_from_index(&bob).await);
    for damage in [Damage::Garbage, Damage::CutOff, Damage::Removed, Damage::Forgotten] {
        setup.restart();
        assert_finds(&setup, &bob, 3).await;
        setup.stop();
        damage.happens_to(&setup);
        setup.restart();
        assert_finds(&setup, &bob, 3).await;
        assert_finds(&setup, &bob, 3).await;
        assert!(setup.answers_from_index(&bob).await, "{damage:?}");
        assert_eq!(setup.files().len(), 1, "{damage:?}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Garbage,
    CutOff,
    Removed,
    /// The catalogue of all files is gone.
    Forgotten,
}

impl Damage {
    fn happens_to(self, setup: &Indexed) {
        let file = setup.files().remove(0);
        let open = || fs::OpenOptions::new().write(true).open(&file).unwrap();
        match self {
            Self::Garbage => {
                let mut open = open();
                open.seek(SeekFrom::Start(20)).unwrap();
                open.write_all(&[0xa5; 40_000]).unwrap();
            }
            Self::CutOff => open().set_len(9_000).unwrap(),
            Self::Removed => fs::remove_dir_all(&setup.settings.directory).unwrap(),
            Self::Forgotten => fs::write(setup.settings.directory.join("catalogue.db"), b"no database").unwrap(),
        }
    }
}

#[tokio::test]
async fn a_file_that_is_damaged_while_it_is_open_costs_no_answer() {
    let setup = Indexed::start().await;
    let bob = mailbox_of(&setup, 3).await;
    assert!(setup.answers_from_index(&bob).await);
    Damage::Garbage.happens_to(&setup);
    for _ in 0..3 {
        assert_finds(&setup, &bob, 3).await;
        setup.deliver(&bob, &marked("more", "straw")).await;
    }
}

#[tokio::test]
async fn a_second_process_uses_the_server_and_the_index_later() {
    let mut setup = Indexed::start().await;
    let bob = mailbox_of(&setup, 2).await;
    assert!(setup.answers_from_index(&bob).await);
    let second = setup.another();
    assert_eq!(second.search(&bob, &in_inbox("class=3Dmarked")).await.unwrap().total, 2, "by the server");
    assert!(setup.answers_from_index(&bob).await);
    setup.mailboxes = std::sync::Arc::new(second);
    setup.restart();
    assert!(setup.answers_from_index(&bob).await);
}

#[tokio::test]
async fn a_process_that_ends_between_two_steps_goes_on_where_it_was() {
    let mut setup = Indexed::start_with("", |settings| {
        settings.catch_up_messages = 0;
        settings.batch_messages = 2;
    })
    .await;
    let bob = mailbox_of(&setup, 7).await;
    for _ in 0..4 {
        assert_finds(&setup, &bob, 7).await;
        assert!(!setup.answers_from_index(&bob).await);
        assert!(setup.mailboxes.index_once().await);
        setup.restart();
    }
    assert_finds(&setup, &bob, 7).await;
    assert!(setup.answers_from_index(&bob).await, "four steps of two are enough for seven");
}

#[tokio::test]
async fn a_search_that_is_given_up_in_the_middle_leaves_a_sound_index() {
    let setup = Indexed::start_with("", |settings| settings.batch_messages = 1).await;
    let bob = mailbox_of(&setup, 6).await;
    for patience in 0..60 {
        // Polled a few more times in each round, and dropped wherever it is then.
        let wanted = in_inbox("needle");
        let mut search = setup.mailboxes.search(&bob, &wanted);
        for _ in 0..patience {
            if poll_fn(|context| Poll::Ready(search.as_mut().poll(context).is_ready())).await {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    assert_finds(&setup, &bob, 6).await;
    assert!(setup.answers_from_index(&bob).await);
}

#[tokio::test]
async fn many_searches_at_once_agree() {
    let setup = Indexed::start().await;
    let bob = mailbox_of(&setup, 20).await;
    let searches = (0..40).map(|_| {
        let (mailboxes, bob) = (setup.mailboxes.clone(), bob.clone());
        tokio::spawn(async move { mailboxes.search(&bob, &in_inbox("needle")).await.map(|found| found.total) })
    });
    for search in searches.collect::<Vec<_>>() {
        assert_eq!(search.await.unwrap(), Ok(20));
    }
}

#[tokio::test]
async fn a_mailbox_that_is_gone_leaves_nothing_behind() {
    let setup = Indexed::start().await;
    let bob = mailbox_of(&setup, 2).await;
    assert!(setup.answers_from_index(&bob).await);
    assert_eq!(setup.files().len(), 1);
    setup.mailboxes.purge(&bob).await.unwrap();
    assert!(setup.files().is_empty());
    setup.deliver(&bob, &marked("one", "needle")).await;
    assert_finds(&setup, &bob, 1).await;
    assert_eq!(setup.files().len(), 1);
    setup.remove_mailbox(&bob).await;
    assert_eq!(setup.mailboxes.search(&bob, &in_inbox("needle")).await, Err(MailboxError::NoSuchMailbox));
    assert!(setup.files().is_empty());
}

#[tokio::test]
async fn rests_of_removed_folders_are_collected_in_the_background() {
    let setup = Indexed::start_with("", |settings| settings.batch_messages = 2).await;
    let bob = mailbox_of(&setup, 1).await;
    let kept: FolderName = "Kept".parse().unwrap();
    setup.create_folder(&bob, &kept).await;
    for _ in 0..5 {
        setup.deliver(&bob, &marked("moves", &"straw ".repeat(2_000))).await;
    }
    setup.server.dovecot.doveadm(&["move", "-u", bob.as_str(), "Kept", "mailbox", "INBOX", "subject", "moves"]);
    let everywhere = query("straw", FolderScope::All);
    assert_eq!(setup.search(&bob, &everywhere).await.total, 5);
    setup.server.dovecot.doveadm(&["mailbox", "delete", "-u", bob.as_str(), "Kept"]);
    assert_eq!(setup.search(&bob, &everywhere).await.total, 0);
    assert_eq!(
        setup.mailboxes.search(&bob, &query("straw", FolderScope::One(kept.clone()))).await,
        Err(MailboxError::NoSuchFolder)
    );
    let mut steps = 0;
    while setup.mailboxes.index_once().await {
        steps += 1;
    }
    assert!(steps > 2, "{steps} steps");
    assert_finds(&setup, &bob, 1).await;
}

#[tokio::test]
async fn a_mailbox_removed_elsewhere_is_dropped_without_a_search() {
    let mut setup = Indexed::start().await;
    let bob = mailbox_of(&setup, 2).await;
    let ann = setup.server.mailbox_with("ann", &[&marked("one", "needle")]).await;
    assert_finds(&setup, &ann, 1).await;
    assert_finds(&setup, &bob, 2).await;
    // Removed by another process; connections of this one are still open.
    setup.server.remove_mailbox(&bob).await;
    setup.restart();
    setup.mailboxes.prune_index().await;
    assert_eq!(setup.files().len(), 1);
    assert_finds(&setup, &ann, 1).await;
}
