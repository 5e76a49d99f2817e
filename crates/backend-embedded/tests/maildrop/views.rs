//! Pages that are shown again without being read again: whatever happens to a folder, its mark tells of it.

use bytes::Bytes;
use mailapi_backend::{MailboxError, Mailboxes, MessageSummary, PageMark, PageView, Provisioning};
use mailapi_backend_embedded::Maildrop;
use mailapi_backend_embedded::maildrop::FlagChange;
use mailapi_imap::Flags;
use mailapi_model::{EmailAddress, FolderName, Listed, Page};
use proptest::prelude::*;

use super::house::{House, address, ann, bob, folder, mail};

/// Folders that the changes below are made in.
const FOLDERS: [&str; 4] = ["INBOX", "Work", "Work/a", "Sent"];

/// What somebody has seen of a page.
struct Seen {
    mailbox: EmailAddress,
    folder: FolderName,
    page: Page,
    kept: Option<(PageMark, Listed<MessageSummary>)>,
}

impl Seen {
    fn everywhere() -> Vec<Self> {
        let pages = [Page::default(), Page::new(2, 0), Page::new(2, 1), Page::new(1, 100)];
        let places = [ann(), bob()].into_iter().flat_map(|mailbox| FOLDERS.map(|name| (mailbox.clone(), folder(name))));
        let with_pages = places.flat_map(|place| pages.map(|page| (place.clone(), page)));
        with_pages.map(|((mailbox, folder), page)| Self { mailbox, folder, page, kept: None }).collect()
    }

    async fn view(&self, maildrop: &Maildrop) -> Result<PageView, MailboxError> {
        let mark = self.kept.as_ref().map(|(mark, _)| *mark);
        maildrop.view(&self.mailbox, &self.folder, self.page, mark).await
    }

    /// Looks again; what is kept and what is listed anew must be the same.
    async fn look(&mut self, maildrop: &Maildrop) {
        let now = maildrop.list(&self.mailbox, &self.folder, self.page).await;
        match self.view(maildrop).await {
            Ok(PageView::Unchanged) => assert_eq!(Ok(&self.kept.as_ref().unwrap().1), now.as_ref()),
            Ok(PageView::Now { listed, mark }) => {
                assert_eq!(Ok(&listed), now.as_ref());
                self.kept = mark.map(|mark| (mark, listed));
            }
            // What is gone may come back, and what was kept of it must not.
            Err(error) => assert_eq!(Err(error), now),
        }
    }
}

/// Something that happens to mailboxes.
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
    Sweep,
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
        1 => Just(Event::Sweep),
    ]
}

/// Lets it happen to Ann's mailbox. Much of it cannot be done in the state that the others left, and changes nothing.
async fn happen(house: &House, maildrop: &Maildrop, event: Event) {
    let place = |number: usize| folder(FOLDERS[number]);
    let id = async |number| maildrop.folder(&ann(), &place(number)).await.map(|folder| folder.id);
    match event {
        Event::Delivery { to_both } => {
            let both = ["ann@example.org", "bob@example.org"];
            let incoming = house.incoming(if to_both { &both } else { &both[..1] }, &mail("Hi", "."));
            let _ = maildrop.accept(incoming).await;
        }
        Event::Append { folder, flags } => {
            let flags = Flags::from_words(flags.split(' '));
            let _ = maildrop.append(&ann(), &place(folder), &flags, None, Bytes::from(mail("Draft", "."))).await;
        }
        Event::Flags { folder, uid, change, flags } => {
            let Ok(id) = id(folder).await else { return };
            let _ = maildrop.store_flags(id, vec![uid], change, Flags::from_words(flags.split(' '))).await;
        }
        Event::Expunge { folder } => {
            let Ok(id) = id(folder).await else { return };
            let _ = maildrop.expunge(id, None).await;
        }
        Event::Copy { from, to, uid } => {
            let Ok(id) = id(from).await else { return };
            let _ = maildrop.copy(id, vec![uid], &place(to)).await;
        }
        Event::Move { from, to, uid } => {
            let Ok(id) = id(from).await else { return };
            let _ = maildrop.move_messages(id, vec![uid], &place(to)).await;
        }
        Event::Create { folder } => drop(maildrop.create_folder(&ann(), &place(folder)).await),
        Event::Delete { folder } => drop(maildrop.delete_folder(&ann(), &place(folder)).await),
        Event::Rename { from, to } => drop(maildrop.rename_folder(&ann(), &place(from), &place(to)).await),
        Event::Purge => drop(maildrop.purge(&ann()).await),
        Event::MailboxMadeAnew => {
            maildrop.remove_mailbox(&ann()).await.unwrap();
            maildrop.put_mailbox(&ann(), None).await.unwrap();
        }
        Event::Sweep => drop(maildrop.sweep_once().await),
    }
}

#[tokio::test]
async fn two_readers_both_see_what_changed_in_between_and_nothing_is_read_when_nothing_did() {
    let house = House::new().await;
    let here = &house.maildrop;
    // The second one reads through a process of its own.
    let there = house.open_again().await;
    house.deliver(&["ann@example.org"], &mail("One", ".")).await;
    let page =
        async |maildrop: &Maildrop, seen| maildrop.view(&ann(), &folder("INBOX"), Page::default(), seen).await.unwrap();
    let PageView::Now { listed, mark } = page(here, None).await else { panic!("nobody has seen it yet") };
    assert_eq!((listed.total, listed.items[0].subject.as_str()), (1, "One"));
    assert_eq!(page(here, mark).await, PageView::Unchanged);
    assert_eq!(page(&there, mark).await, PageView::Unchanged);

    let inbox = there.folder(&ann(), &folder("INBOX")).await.unwrap().id;
    there.store_flags(inbox, vec![1], FlagChange::Add, Flags::from_words(["\\Seen"])).await.unwrap();
    for reader in [here, &there] {
        let PageView::Now { listed, mark: after } = page(reader, mark).await else { panic!("a flag was set") };
        assert_eq!(listed.items[0].flags, ["\\Seen"]);
        assert_eq!(page(reader, after).await, PageView::Unchanged);
    }
    let nobody = here.view(&address("nobody@example.org"), &folder("INBOX"), Page::default(), mark).await;
    assert_eq!(nobody, Err(MailboxError::NoSuchMailbox));
    let nowhere = here.view(&ann(), &folder("Work"), Page::default(), mark).await;
    assert_eq!(nowhere, Err(MailboxError::NoSuchFolder));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_kept_is_always_what_would_be_listed_now(events in prop::collection::vec((event(), any::<bool>()), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let house = House::new().await;
            let another_process = house.open_again().await;
            let mut seen = Seen::everywhere();
            for (event, by_another) in events {
                happen(&house, if by_another { &another_process } else { &house.maildrop }, event).await;
                for page in &mut seen {
                    page.look(&house.maildrop).await;
                }
            }
            for page in seen.iter().filter(|page| page.kept.is_some()) {
                let again = page.view(&house.maildrop).await;
                assert!(matches!(again, Ok(PageView::Unchanged) | Err(_)), "{again:?}");
            }
        });
    }
}
