//! Repeats the mailbox tests of the contract suite with Dovecot's description of every message instead of the
//! message, and with removal over IMAP. `tests/contract` runs all tests in the default configuration.

use mailapi_backend_external::mailboxes::MailboxSettings;

use crate::fixture::DovecotFixture;

/// No message is short enough to be read whole.
async fn fixture() -> DovecotFixture {
    let settings = MailboxSettings { whole_message_bytes: 1, ..MailboxSettings::default() };
    DovecotFixture::start_with("", settings).await
}

mailapi_backend::backend_contract!(fixture: listing reading searching drafts);

/// A full mailbox refuses mail, but these tests send none; the other tests of this area need no sending.
mod room {
    macro_rules! stories {
        ($($story:ident)*) => {
            $(#[tokio::test]
            async fn $story() {
                mailapi_backend::contract::room::$story(&super::fixture().await).await;
            })*
        };
    }

    stories! {
        the_quota_counts_all_folders
        purging_an_unknown_mailbox_is_refused
        a_purge_removes_the_mail_and_leaves_the_folders
        numbers_are_not_used_again_after_a_purge
    }
}
