//! Expands aliases to mailboxes.
//!
//! Aliases may be members of aliases. Each address is looked up once, so a loop ends by itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use mailapi_backend::Refusal;
use mailapi_model::{Alias, EmailAddress, EnhancedCode, Reply};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::loops::{EarlierHops, looping};
use super::routing::{Target, full, target, unknown};
use super::unusable::unusable;
use super::{Prepared, Relaying};
use crate::MessageStoreSettings;
use crate::message_store::MailboxId;
use crate::message_store::mailbox::{self, Mailbox};

/// Maximum number of addresses that one recipient expands to. Aliases of aliases could have far more members than each
/// of them.
pub(super) const MOST: usize = 1_000;

/// Number of addresses that are looked up on the caller's thread.
pub(super) const FEW: usize = 50;

/// Maximum number of names of aliases that a copy bears. Aliases of more aliases are rare, and are no way around the other
/// limits of a loop.
const MOST_NAMED: usize = 10;

/// The number of addresses to which the aliases among the recipients of one message have expanded.
///
/// Each of them costs look-ups, an entry in the delivery feed, and a copy of the message if it is at another server. A
/// message has many recipients, and each tag (`team+1`, `team+2`) makes another recipient of the same alias.
#[derive(Debug, Clone)]
pub struct Expanded {
    addresses: usize,
    most: usize,
    /// The copies that each mailbox gets under its own addresses.
    copies: HashMap<MailboxId, u64>,
    /// The way of the message so far; unknown at RCPT.
    earlier: Option<Arc<EarlierHops>>,
}

impl Expanded {
    /// Number after which the message of a stranger reaches no further alias. The last alias may exceed it, so that an
    /// alias with [`MOST`] addresses is always reached by a message of its own.
    const MOST_OF_STRANGERS: usize = 1_000;
    /// The same for authors with a mailbox or a token here, who are known and counted.
    const MOST_OF_AUTHORS: usize = 5_000;

    /// Maximum number of copies that a mailbox gets of one message under its own addresses: a sender knows few tags of a
    /// person, and a stranger could fill the disk by one message for 1,000 of them.
    pub(super) const MOST_COPIES: u64 = 10;

    /// Starts with a new message.
    #[must_use]
    pub fn none(relaying: Relaying) -> Self {
        let most = match relaying {
            Relaying::Allowed => Self::MOST_OF_AUTHORS,
            Relaying::Denied => Self::MOST_OF_STRANGERS,
        };
        Self { addresses: 0, most, copies: HashMap::new(), earlier: None }
    }

    /// Starts with a message whose header is known.
    pub(super) fn of(mail: &Prepared) -> Self {
        Self { earlier: Some(mail.earlier.clone()), ..Self::none(mail.incoming.relaying) }
    }

    /// Returns why the message reaches no further alias; `None` if it does.
    pub(super) fn refusal(&self) -> Option<Reply> {
        (self.addresses >= self.most).then(too_many_addresses)
    }

    /// Returns the number of addresses so far.
    pub(super) const fn addresses(&self) -> usize {
        self.addresses
    }

    /// Returns whether a mailbox has room for the message under one more of its addresses.
    pub(super) fn has_room_for(&mut self, mailbox: &Mailbox, size: u64) -> bool {
        let copies = self.copies.entry(mailbox.id).or_default();
        let more = (*copies + 1).min(Self::MOST_COPIES);
        let has_room = mailbox.has_room_for(size.saturating_mul(more));
        if has_room {
            *copies = more;
        }
        has_room
    }

    fn is_named(&self, alias: &EmailAddress) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| earlier.name(alias))
    }
}

/// A member at another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutsideMember {
    pub(crate) address: EmailAddress,
    /// The aliases that lead to it, and the mailbox whose rules do. The first one is never missing.
    pub(crate) through: Arc<[EmailAddress]>,
}

/// The members of an alias, by what becomes of the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Expansion {
    /// Mailboxes with enough room, each once.
    pub(crate) mailboxes: Vec<(EmailAddress, MailboxId)>,
    /// Members at other servers.
    pub(crate) elsewhere: Vec<OutsideMember>,
    /// Members that cannot receive the message.
    pub(crate) failed: Vec<Refusal>,
}

impl Expansion {
    /// Returns why the alias cannot receive the message at all; `None` if a member can. A full or damaged
    /// mailbox may take mail later, so it decides.
    pub(super) fn refusal(&self) -> Option<Reply> {
        if !self.mailboxes.is_empty() || !self.elsewhere.is_empty() {
            return None;
        }
        let decisive = [full(), unusable(), junk(), looping()].into_iter().find(|reply| self.has_failed_with(reply));
        Some(decisive.unwrap_or_else(not_expanded))
    }

    fn has_failed_with(&self, reply: &Reply) -> bool {
        self.failed.iter().any(|refusal| refusal.reply == *reply)
    }

    /// Returns the number of addresses that get the message.
    pub(super) fn reached(&self) -> u64 {
        (self.mailboxes.len() + self.elsewhere.len()) as u64
    }

    /// Returns the alias, or the mailbox with rules, that forwards the message to other servers; `None` if it does not.
    pub(super) fn forwarder(&self) -> Option<&EmailAddress> {
        self.elsewhere.first()?.through.first()
    }

    /// Adds what another one found, without addresses that this one has.
    pub(super) fn add(&mut self, other: Self) {
        let Self { mailboxes, elsewhere, failed } = other;
        self.mailboxes.extend(mailboxes);
        self.failed.extend(failed);
        elsewhere.into_iter().for_each(|member| {
            if !self.elsewhere.iter().any(|known| known.address == member.address) {
                self.elsewhere.push(member);
            }
        });
    }

    /// Sends the message to no other server. The alias failed for its members there.
    pub(super) fn forward_nothing(&mut self, reply: Reply) {
        if let Some(alias) = self.forwarder().cloned() {
            self.elsewhere.clear();
            self.fail(alias, reply);
        }
    }

    /// Forwards nothing: other servers would take this server for the origin of the junk.
    pub(super) fn keep_here(&mut self) {
        for member in std::mem::take(&mut self.elsewhere) {
            self.fail(member.address, junk());
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
    let mut waiting = members(&Arc::default(), alias.address.clone(), alias.members).collect::<VecDeque<_>>();
    seen.insert(alias.address);
    while let Some(OutsideMember { address: member, through }) = waiting.pop_front() {
        if !seen.insert(member.clone()) {
            continue;
        }
        if seen.len() > largest + 1 {
            return Ok(Expansion::default());
        }
        expanded.addresses += 1;
        if !mailbox::is_local_domain(connection, member.domain_str())? {
            expansion.elsewhere.push(OutsideMember { address: member, through });
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
            // It forwards to other servers, and its members here have the message too.
            Target::Alias(further) if expanded.is_named(&further.address) => {
                expansion.fail(further.address, looping());
            }
            Target::Alias(further) => waiting.extend(members(&through, further.address, further.members)),
            Target::Nothing => expansion.fail(member, unknown()),
            Target::Unusable => expansion.fail(member, unusable()),
        }
    }
    Ok(expansion)
}

/// Returns the members of an alias to which `through` leads.
fn members(
    through: &Arc<[EmailAddress]>,
    alias: EmailAddress,
    members: Vec<EmailAddress>,
) -> impl Iterator<Item = OutsideMember> + use<> {
    let through = match through.len() {
        MOST_NAMED.. => through.clone(),
        _ => through.iter().cloned().chain([alias]).collect(),
    };
    members.into_iter().map(move |address| OutsideMember { address, through: through.clone() })
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
