//! The stories of the contract suite that are about mailboxes once more, with Dovecot's own description of every message
//! instead of the message, and mail removed over IMAP. All stories, as the product is shipped, are in `tests/contract`.

use mailapi_backend_external::mailboxes::MailboxSettings;

use crate::fixture::DovecotFixture;

/// However short messages are, none is read whole.
async fn fixture() -> DovecotFixture {
    let settings = MailboxSettings { whole_message_octets: 1, ..MailboxSettings::default() };
    DovecotFixture::start_with("", settings).await
}

mailapi_backend::backend_contract!(fixture: listing reading searching);

/// A full mailbox refuses what is sent, and nothing is sent here; the other stories of this area need no sending.
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
