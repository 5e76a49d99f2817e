//! The contract suite: the behaviour of every backend, as stories.
//!
//! The tests of a backend implement [`Fixture`] and pass a constructor to
//! [`backend_contract!`](crate::backend_contract), which makes a test of each story. The cargo feature
//! `contract-suite` keeps the suite out of the product. Stories panic when the backend breaks the contract.
//!
//! ```text
//! async fn fixture() -> MyFixture { … }
//!
//! mailapi_backend::backend_contract!(fixture);
//! ```

pub mod aliases;
pub mod drafts;
pub mod feed;
pub mod listing;
pub mod provisioning;
pub mod queue;
pub mod reading;
pub mod room;
pub mod rules;
pub mod searching;
pub mod submission;

mod mail;
mod story;

use async_trait::async_trait;
use mailapi_model::{Alias, DomainName, EmailAddress, FolderName, MessageId, RuleSet};

use crate::Backend;

/// A mail server under test. Several fixtures may share one server if each has its own domain.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The backend under test.
    fn backend(&self) -> &Backend;

    /// A local domain that no other fixture uses.
    fn domain(&self) -> &DomainName;

    /// Returns an unused message id.
    fn new_message_id(&self) -> MessageId;

    /// Creates an empty mailbox in [`Fixture::domain`], or changes its quota. Fixtures of mail servers that
    /// read the accounts themselves override this.
    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) {
        let provisioning = &self.backend().provisioning;
        provisioning.put_domain(&mailbox.domain()).await.expect("the domain is put");
        provisioning.put_mailbox(mailbox, quota_bytes).await.expect("the mailbox is put");
    }

    /// Removes a mailbox with its mail.
    async fn remove_mailbox(&self, mailbox: &EmailAddress) {
        self.backend().provisioning.remove_mailbox(mailbox).await.expect("the mailbox is removed");
    }

    /// Creates an alias in [`Fixture::domain`], whose mailboxes exist.
    async fn put_alias(&self, alias: &Alias) {
        self.backend().provisioning.put_alias(alias).await.expect("the alias is put");
    }

    /// Removes an alias.
    async fn remove_alias(&self, address: &EmailAddress) {
        self.backend().provisioning.remove_alias(address).await.expect("the alias is removed");
    }

    /// Replaces the rules of a mailbox in [`Fixture::domain`], if the mail server applies rules.
    async fn put_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) {
        self.backend().provisioning.put_rules(mailbox, rules).await.expect("the rules are put");
    }

    /// Delivers a message from another server to a mailbox, and waits until it is stored.
    async fn deliver(&self, mailbox: &EmailAddress, message: &[u8]);

    /// Creates a folder, as a mail client does.
    async fn create_folder(&self, mailbox: &EmailAddress, folder: &FolderName);

    /// Replaces a message's flags, as a mail client does.
    async fn set_flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, flags: &[&str]);

    /// Moves a message into another folder, as a mail client does.
    async fn move_message(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, target: &FolderName);

    /// Returns a message's flags, as a mail client sees them.
    async fn flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Vec<String>;

    /// Waits until every submitted message is delivered or rejected, and background work is done.
    async fn settle(&self);
}

/// Makes a test of each story of the contract suite, or of the stories of some areas.
///
/// The first argument names an `async fn() -> impl Fixture` in the same module. The calling crate needs tokio
/// with its macros.
#[macro_export]
macro_rules! backend_contract {
    ($fixture:ident) => {
        $crate::backend_contract! { $fixture: submission feed listing reading searching room drafts provisioning aliases rules queue }
    };
    ($fixture:ident: $($area:ident)+) => {
        $($crate::backend_contract! { @$area $fixture })+
    };
    (@submission $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            submission {
                without_known_recipients_a_message_is_refused
                one_unknown_recipient_does_not_harm_the_others
                a_message_that_was_taken_is_found_again
                a_message_that_was_not_taken_is_not_found
                a_message_without_a_record_is_not_accepted
                a_message_is_recorded_before_it_is_accepted
                a_recipient_of_several_gets_one_copy
                a_healthy_server_says_so
            }
        }
    };
    (@feed $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            feed {
                a_delivery_is_reported_once
                reading_again_reports_the_same
                a_feed_read_event_by_event_is_the_same_feed
                forgetting_keeps_what_came_later
                a_waiting_reader_is_woken
            }
        }
    };
    (@listing $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            listing {
                what_is_missing_is_named
                an_empty_mailbox_has_an_inbox
                a_summary_says_what_the_message_says
                the_newest_comes_first_and_pages_do_not_overlap
                folders_count_what_they_hold
                a_moved_message_is_in_its_new_folder_only
            }
        }
    };
    (@reading $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
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
        }
    };
    (@searching $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            searching {
                what_is_missing_is_named
                a_text_that_no_message_holds_is_not_found
                a_text_is_found_however_it_was_written
                every_author_and_group_member_is_found
                two_characters_are_enough
                the_newest_hit_comes_first_and_pages_do_not_overlap
                all_folders_are_searched_when_asked
                an_excerpt_is_short_and_on_one_line
            }
        }
    };
    (@room $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            room {
                a_full_mailbox_refuses_and_the_others_get_the_message
                the_quota_counts_all_folders
                purging_an_unknown_mailbox_is_refused
                a_purge_removes_the_mail_and_leaves_the_folders
                numbers_are_not_used_again_after_a_purge
            }
        }
    };
    (@drafts $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            drafts {
                what_is_missing_is_named
                a_draft_is_stored_as_it_is
                a_draft_replaces_the_one_before
                a_deleted_draft_is_gone
                a_message_that_is_no_draft_stays
                a_full_mailbox_keeps_the_draft_before
            }
        }
    };
    (@provisioning $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            provisioning {
                mail_for_a_removed_mailbox_is_refused
                removing_twice_is_no_error
                putting_twice_keeps_the_mail
                ended_sessions_leave_the_mailbox_readable
                a_mailbox_that_comes_back_is_empty
            }
        }
    };
    (@aliases $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            aliases {
                a_removed_alias_is_refused
                each_member_gets_a_copy_and_is_reported
                a_catch_all_gets_the_mail_of_other_addresses
                a_summary_says_to_which_address_the_message_was_sent
            }
        }
    };
    (@rules $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            rules {
                a_rule_files_and_marks_messages
                a_rule_compares_the_recipient
            }
        }
    };
    (@queue $fixture:ident) => {
        $crate::backend_contract! { @stories $fixture
            queue {
                an_unknown_message_cannot_be_changed
                waiting_mail_is_listed_until_it_is_cancelled
                mail_on_hold_waits_for_its_release
            }
        }
    };
    (@stories $fixture:ident $($area:ident { $($story:ident)* })*) => {
        $(mod $area {
            $(#[tokio::test]
            async fn $story() {
                let fixture = super::$fixture().await;
                $crate::contract::$area::$story(&fixture).await;
            })*
        })*
    };
}

#[cfg(test)]
mod tests {
    /// A story that the macro does not name would never run.
    #[test]
    fn the_macro_names_every_story() {
        let named = include_str!("mod.rs");
        for (area, source) in [
            ("aliases", include_str!("aliases.rs")),
            ("drafts", include_str!("drafts.rs")),
            ("feed", include_str!("feed.rs")),
            ("listing", include_str!("listing.rs")),
            ("provisioning", include_str!("provisioning.rs")),
            ("queue", include_str!("queue.rs")),
            ("reading", include_str!("reading.rs")),
            ("room", include_str!("room.rs")),
            ("rules", include_str!("rules.rs")),
            ("searching", include_str!("searching.rs")),
            ("submission", include_str!("submission.rs")),
        ] {
            let after = named.split_once(&format!("            {area} {{\n")).unwrap().1;
            let listed: Vec<_> = after.split_once('}').unwrap().0.split_whitespace().collect();
            let defined = source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
            assert_eq!(defined.collect::<Vec<_>>(), listed, "{area}");
        }
    }
}
