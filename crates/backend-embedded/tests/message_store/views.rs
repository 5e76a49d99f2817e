//! Revalidated pages: every change of a folder changes its validator.

use bytes::Bytes;
use mailapi_backend::{MailboxError, Mailboxes, MessageSummary, PageView, Provisioning, Validator};
use mailapi_backend_embedded::MessageStore;
use mailapi_backend_embedded::message_store::FlagChange;
use mailapi_imap::Flags;
use mailapi_model::{EmailAddress, FolderName, Listed, Page};
use proptest::prelude::*;

use super::test_store::{TestStore, address, ann, bob, folder, mail};

/// Folders for the changes below.
const FOLDERS: [&str; 4] = ["INBOX", "Work", "Work/a", "Sent"];

/// A page as last seen by a reader.
struct Seen {
    mailbox: EmailAddress,
    folder: FolderName,
    page: Page,
    kept: Option<(Validator, Listed<MessageSummary>)>,
}

impl Seen {
    fn everywhere() -> Vec<Self> {
        let pages = [Page::default(), Page::new(2, 0), Page::new(2, 1), Page::new(1, 100)];
        let places = [ann(), bob()].into_iter().flat_map(|mailbox| FOLDERS.map(|name| (mailbox.clone(), folder(name))));
        let with_pages = places.flat_map(|place| pages.map(|page| (place.clone(), page)));
        with_pages.map(|((mailbox, folder), page)| Self { mailbox, folder, page, kept: None }).collect()
    }

    async fn view(&self, message_store: &MessageStore) -> Result<PageView, MailboxError> {
        let validator = self.kept.as_ref().map(|(validator, _)| *validator);
        message_store.view(&self.mailbox, &self.folder, self.page, validator).await
    }

    /// Revalidates the page; the cached and the new listing must be equal.
    async fn look(&mut self, message_store: &MessageStore) {
        let now = message_store.list(&self.mailbox, &self.folder, self.page).await;
        match self.view(message_store).await {
            Ok(PageView::Unchanged) => assert_eq!(Ok(&self.kept.as_ref().unwrap().1), now.as_ref()),
            Ok(PageView::Now { listed, validator }) => {
                assert_eq!(Ok(&listed), now.as_ref());
                self.kept = validator.map(|validator| (validator, listed));
            }
            // A removed folder may be created again, and its cached page must not come back.
            Err(error) => assert_eq!(Err(error), now),
        }
    }
}

/// A change of mailboxes.
#[derive(Debug, Clone)]
enum Event {
    Delivery { to_both: bool },
    Append { folder: usize, flags: &'static str },
    Flags { folder: usize, uid: u32, change: FlagChange, flags: &'static str },
    Expunge { folder: usize },
    Copy { from: usize, to: usize, uid: u32 },
    Move { from: usize, to: usize, uid: u32 },
    Create { folder: usize },
    Delete { folder: usize },
    Rename { from: usize, to: usize },
    Purge,
    MailboxMadeAnew,
    CollectGarbage,
}

fn event() -> impl Strategy<Value = Event> {
    let place = 0..FOLDERS.len();
    let flags = prop::sample::select(vec!["\\Seen", "\\Deleted", "\\Flagged todo", "todo", ""]);
    let change = prop::sample::select(vec![FlagChange::Set, FlagChange::Add, FlagChange::Remove]);
    prop_oneof![
        4 => any::<bool>().prop_map(|to_both| Event::Delivery { to_both }),
        3 => (place.clone(), flags.clone()).prop_map(|(folder, flags)| Event::Append { folder, flags }),
        5 => (place.clone(), 1..6_u32, change, flags)
            .prop_map(|(folder, uid, change, flags)| Event::Flags { folder, uid, change, flags }),
        2 => place.clone().prop_map(|folder| Event::Expunge { folder }),
        2 => (place.clone(), place.clone(), 1..6_u32).prop_map(|(from, to, uid)| Event::Copy { from, to, uid }),
        2 => (place.clone(), place.clone(), 1..6_u32).prop_map(|(from, to, uid)| Event::Move { from, to, uid }),
        2 => place.clone().prop_map(|folder| Event::Create { folder }),
        1 => place.clone().prop_map(|folder| Event::Delete { folder }),
        2 => (place.clone(), place).prop_map(|(from, to)| Event::Rename { from, to }),
        1 => Just(Event::Purge),
        1 => Just(Event::MailboxMadeAnew),
        1 => Just(Event::CollectGarbage),
    ]
}

/// Applies the event to Ann's mailbox. Many events are impossible in the current state, and change nothing.
async fn happen(test_store: &TestStore, message_store: &MessageStore, event: Event) {
    let place = |number: usize| folder(FOLDERS[number]);
    let id = async |number| message_store.folder(&ann(), &place(number)).await.map(|folder| folder.id);
    match event {
        Event::Delivery { to_both } => {
            let both = ["ann@example.org", "bob@example.org"];
            let incoming = test_store.incoming(if to_both { &both } else { &both[..1] }, &mail("Hi", "."));
            let _ = message_store.accept(incoming).await;
        }
        Event::Append { folder, flags } => {
            let flags = Flags::from_words(flags.split(' '));
            let _ = message_store.append(&ann(), &place(folder), &flags, None, Bytes::from(mail("Draft", "."))).await;
        }
        Event::Flags { folder, uid, change, flags } => {
            let Ok(id) = id(folder).await else { return };
            let _ = message_store.store_flags(id, vec![uid], change, Flags::from_words(flags.split(' '))).await;
        }
        Event::Expunge { folder } => {
            let Ok(id) = id(folder).await else { return };
            let _ = message_store.expunge(id, None).await;
        }
        Event::Copy { from, to, uid } => {
            let Ok(id) = id(from).await else { return };
            let _ = message_store.copy(id, vec![uid], &place(to)).await;
        }
        Event::Move { from, to, uid } => {
            let Ok(id) = id(from).await else { return };
            let _ = message_store.move_messages(id, vec![uid], &place(to)).await;
        }
        Event::Create { folder } => drop(message_store.create_folder(&ann(), &place(folder)).await),
        Event::Delete { folder } => drop(message_store.delete_folder(&ann(), &place(folder)).await),
        Event::Rename { from, to } => drop(message_store.rename_folder(&ann(), &place(from), &place(to)).await),
        Event::Purge => drop(message_store.purge(&ann()).await),
        Event::MailboxMadeAnew => {
            message_store.remove_mailbox(&ann()).await.unwrap();
            message_store.put_mailbox(&ann(), None).await.unwrap();
        }
        Event::CollectGarbage => drop(message_store.collect_garbage_once().await),
    }
}

#[tokio::test]
async fn readers_see_changes_and_reread_nothing_without_one() {
    let test_store = TestStore::new().await;
    let here = &test_store.message_store;
    // The second handle acts as another process.
    let there = test_store.open_again().await;
    test_store.deliver(&["ann@example.org"], &mail("One", ".")).await;
    let page = async |message_store: &MessageStore, seen| {
        message_store.view(&ann(), &folder("INBOX"), Page::default(), seen).await.unwrap()
    };
    let PageView::Now { listed, validator } = page(here, None).await else {
        panic!("a request without a validator returns the page")
    };
    assert_eq!((listed.total, listed.items[0].subject.as_str()), (1, "One"));
    assert_eq!(page(here, validator).await, PageView::Unchanged);
    assert_eq!(page(&there, validator).await, PageView::Unchanged);

    let inbox = there.folder(&ann(), &folder("INBOX")).await.unwrap().id;
    there.store_flags(inbox, vec![1], FlagChange::Add, Flags::from_words(["\\Seen"])).await.unwrap();
    for reader in [here, &there] {
        let PageView::Now { listed, validator: after } = page(reader, validator).await else {
            panic!("the page changed when a flag was set")
        };
        assert_eq!(listed.items[0].flags, ["\\Seen"]);
        assert_eq!(page(reader, after).await, PageView::Unchanged);
    }
    let unknown = here.view(&address("nobody@example.org"), &folder("INBOX"), Page::default(), validator).await;
    assert_eq!(unknown, Err(MailboxError::NoSuchMailbox));
    let nowhere = here.view(&ann(), &folder("Work"), Page::default(), validator).await;
    assert_eq!(nowhere, Err(MailboxError::NoSuchFolder));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_kept_is_always_what_would_be_listed_now(events in prop::collection::vec((event(), any::<bool>()), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let test_store = TestStore::new().await;
            let another_process = test_store.open_again().await;
            let mut seen = Seen::everywhere();
            for (event, by_another) in events {
                happen(&test_store, if by_another { &another_process } else { &test_store.message_store }, event).await;
                for page in &mut seen {
                    page.look(&test_store.message_store).await;
                }
            }
            for page in seen.iter().filter(|page| page.kept.is_some()) {
                let again = page.view(&test_store.message_store).await;
                assert!(matches!(again, Ok(PageView::Unchanged) | Err(_)), "{again:?}");
            }
        });
    }
}
