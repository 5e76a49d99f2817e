//! The stories of the contract suite that are about mailboxes once more, with Dovecot's own description of every message
//! instead of the message, and mail removed over IMAP. All stories, as the product is shipped, are in `tests/contract`.

use mailapi_backend_external::mailboxes::MailboxSettings;

use crate::fixture::DovecotFixture;

/// However short messages are, none is read whole.
async fn fixture() -> DovecotFixture {
    let settings = MailboxSettings { whole_message_octets: 1, ..MailboxSettings::default() };
    DovecotFixture::start_with("", settings).await
}

macro_rules! stories {
    ($($area:ident { $($story:ident)* })*) => {
        $(mod $area {
            $(#[tokio::test]
            async fn $story() {
                mailapi_backend::contract::$area::$story(&crate::contract::fixture().await).await;
            })*
        })*
    };
}

stories! {
    listing {
        what_is_missing_is_named
        an_empty_mailbox_has_an_inbox
        a_summary_says_what_the_message_says
        the_newest_comes_first_and_pages_do_not_overlap
        folders_count_what_they_hold
        a_moved_message_is_in_its_new_folder_only
    }
    reading {
        what_is_missing_is_named
        a_message_is_read_with_both_bodies
        reading_leaves_the_flags_alone
        an_attachment_comes_as_it_was_sent
        a_long_attachment_is_streamed
        the_raw_message_is_what_was_delivered
        a_message_without_header_is_readable
        nested_beyond_reason_is_readable
    }
    searching {
        what_is_missing_is_named
        a_text_that_no_message_holds_is_not_found
        a_text_is_found_however_it_was_written
        two_characters_are_enough
        the_newest_hit_comes_first_and_pages_do_not_overlap
        all_folders_are_searched_when_asked
        an_excerpt_is_short_and_on_one_line
    }
    room {
        the_quota_counts_all_folders
        purging_an_unknown_mailbox_is_refused
        a_purge_removes_the_mail_and_leaves_the_folders
        numbers_are_not_used_again_after_a_purge
    }
}
