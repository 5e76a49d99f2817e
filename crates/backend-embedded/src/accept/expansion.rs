//! Expands aliases to mailboxes.
//!
//! Aliases may be members of aliases. Each address is looked up once, so a loop ends by itself.

use std::collections::{HashSet, VecDeque};

use mailapi_backend::Refusal;
use mailapi_model::{Alias, EmailAddress, EnhancedCode, Reply};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::Relaying;
use super::routing::{Target, full, target, unknown};
use crate::MessageStoreSettings;
use crate::message_store::{MailboxId, mailbox};

/// Maximum number of addresses that one recipient expands to. Aliases of aliases could have far more members than each
/// of them.
pub(super) const MOST: usize = 1_000;

/// Number of addresses that are looked up on the caller's thread.
pub(super) const FEW: usize = 50;

/// The number of addresses to which the aliases among the recipients of one message have expanded.
///
/// Each of them costs look-ups, an entry in the delivery feed, and a copy of the message if it is at another server. A
/// message has many recipients, and each tag (`team+1`, `team+2`) makes another recipient of the same alias.
#[derive(Debug, Clone)]
pub struct Expanded {
    addresses: usize,
    most: usize,
}

impl Expanded {
    /// Number after which the message of a stranger reaches no further alias. The last alias may exceed it, so that an
    /// alias with [`MOST`] addresses is always reached by a message of its own.
    const MOST_OF_STRANGERS: usize = 1_000;
    /// The same for authors with a mailbox or a token here, who are known and counted.
    const MOST_OF_AUTHORS: usize = 5_000;

    /// Starts with a new message.
    #[must_use]
    pub const fn none(relaying: Relaying) -> Self {
        let most = match relaying {
            Relaying::Allowed => Self::MOST_OF_AUTHORS,
            Relaying::Denied => Self::MOST_OF_STRANGERS,
        };
        Self { addresses: 0, most }
    }

    /// Returns why the message reaches no further alias; `None` if it does.
    pub(super) fn refusal(&self) -> Option<Reply> {
        (self.addresses >= self.most).then(too_many_addresses)
    }
}

/// The members of an alias, by what becomes of the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Expansion {
    /// Mailboxes with enough room, each once.
    pub(crate) mailboxes: Vec<(EmailAddress, MailboxId)>,
    /// Members at other servers.
    pub(crate) elsewhere: Vec<EmailAddress>,
    /// Members that cannot receive the message.
    pub(crate) failed: Vec<Refusal>,
}

impl Expansion {
    /// Returns why the alias cannot receive the message at all; `None` if a member can. A full mailbox may have room
    /// later, so it decides.
    pub(super) fn refusal(&self) -> Option<Reply> {
        if !self.mailboxes.is_empty() || !self.elsewhere.is_empty() {
            return None;
        }
        let is_full = self.failed.iter().any(|refusal| refusal.reply == full());
        let is_junk = self.failed.iter().any(|refusal| refusal.reply == junk());
        Some(if is_full {
            full()
        } else if is_junk {
            junk()
        } else {
            not_expanded()
        })
    }

    /// Adds what another one found, without addresses that this one has.
    pub(super) fn add(&mut self, other: Self) {
        let Self { mailboxes, elsewhere, failed } = other;
        self.mailboxes.extend(mailboxes);
        self.failed.extend(failed);
        elsewhere.into_iter().for_each(|member| {
            if !self.elsewhere.contains(&member) {
                self.elsewhere.push(member);
            }
        });
    }

    /// Forwards nothing: other servers would take this server for the origin of the junk.
    pub(super) fn keep_here(&mut self) {
        for member in std::mem::take(&mut self.elsewhere) {
            self.fail(member, junk());
        }
    }
}

pub(super) fn junk() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 7, 1), "The message looks like junk and is not forwarded")
}

/// Expands an alias for a message of `size` bytes. Returns an empty expansion of an alias with more than `largest`
/// addresses.
pub(super) fn expand(
    connection: &Connection,
    alias: Alias,
    size: u64,
    settings: &MessageStoreSettings,
    largest: usize,
    expanded: &mut Expanded,
) -> Result<Expansion, StoreError> {
    let (mut expansion, mut seen, mut found) = (Expansion::default(), HashSet::new(), HashSet::new());
    seen.insert(alias.address);
    let mut waiting = VecDeque::from(alias.members);
    while let Some(member) = waiting.pop_front() {
        if !seen.insert(member.clone()) {
            continue;
        }
        if seen.len() > largest + 1 {
            return Ok(Expansion::default());
        }
        expanded.addresses += 1;
        if !mailbox::is_local_domain(connection, member.domain_str())? {
            expansion.elsewhere.push(member);
            continue;
        }
        match target(connection, &member, settings)? {
            Target::Mailbox(mailbox) if !mailbox.has_room_for(size) => expansion.fail(member, full()),
            Target::Mailbox(mailbox) => {
                if found.insert(mailbox.id) {
                    expansion.mailboxes.push((member, mailbox.id));
                }
            }
            // The members of an alias that was found before are expanded already.
            Target::Alias(further) if further.address != member && !seen.insert(further.address.clone()) => {}
            Target::Alias(further) => waiting.extend(further.members),
            Target::Nothing => expansion.fail(member, unknown()),
        }
    }
    Ok(expansion)
}

impl Expansion {
    fn fail(&mut self, recipient: EmailAddress, reply: Reply) {
        self.failed.push(Refusal { recipient, reply });
    }
}

/// No member has a mailbox here, or there are too many ("Mailing list expansion problem", RFC 3463 section 3.3).
pub(super) fn not_expanded() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 2, 4), "The alias cannot be expanded to mailboxes")
}

/// A client sends the message again to the other recipients (RFC 5321 section 4.5.3.1.10).
fn too_many_addresses() -> Reply {
    Reply::new(
        452,
        EnhancedCode::new(4, 5, 3),
        "The message reaches too many addresses through aliases; send it to the other recipients separately",
    )
}
