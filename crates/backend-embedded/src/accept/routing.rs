//! Routes of recipients, and the replies to refused ones.

use mailapi_model::{Alias, DomainName, EmailAddress, EnhancedCode, Reply};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::Relaying;
use super::expansion::{Expanded, Expansion, expand};
use super::unusable::{Failed, unusable, unusable_for_now};
use crate::MessageStoreSettings;
use crate::message_store::mailbox::Mailbox;
use crate::message_store::{MailboxId, alias, mailbox};

/// The name that every domain with mail has (RFC 5321 section 4.5.1).
const POSTMASTER: &str = "postmaster";

/// Names that every domain with mail should have (RFC 2142 section 2).
const ROLES: [&str; 2] = [POSTMASTER, "abuse"];

/// Result of a recipient check at RCPT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientCheck {
    /// A local mailbox with enough room, or an alias with such a member.
    Local,
    /// Mail for another server.
    Remote,
    /// Refused.
    Refused(Reply),
}

/// [`RecipientCheck`] with the mailboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Local(MailboxId),
    /// At least one member can receive the message.
    Alias(Expansion),
    Remote,
    Refused(Reply),
}

/// What a local address stands for.
#[derive(Debug)]
pub(super) enum Target {
    Mailbox(Mailbox),
    /// An active alias.
    Alias(Alias),
    Nothing,
    /// A row of it is damaged.
    Unusable,
}

impl RecipientCheck {
    pub(super) fn of(route: Route, relaying: Relaying) -> Self {
        match route {
            Route::Local(_) | Route::Alias(_) => Self::Local,
            Route::Remote => Self::Remote,
            Route::Refused(reply) => Self::Refused(to_client(reply, relaying)),
        }
    }
}

/// Returns the route of a recipient. The domain decides: a local domain has no recipients but its mailboxes and aliases,
/// and a mailbox of any other domain is not a route. An account of an unconfirmed domain therefore gets no
/// mail meant for that domain's real server.
///
/// An alias is expanded to at most `largest` addresses, and only while the message has not `expanded` to too many.
pub(crate) fn route(
    connection: &Connection,
    address: &EmailAddress,
    size: u64,
    relaying: Relaying,
    settings: &MessageStoreSettings,
    largest: usize,
    expanded: &mut Expanded,
) -> Result<Route, StoreError> {
    if !mailbox::is_local_domain(connection, address.domain_str())? {
        return Ok(match relaying {
            Relaying::Allowed => Route::Remote,
            Relaying::Denied => Route::Refused(no_relaying()),
        });
    }
    Ok(match target(connection, address, settings)? {
        Target::Mailbox(mailbox) if expanded.has_room_for(&mailbox, size) => Route::Local(mailbox.id),
        Target::Mailbox(_) => Route::Refused(full()),
        Target::Alias(alias) => {
            if let Some(refusal) = expanded.refusal() {
                return Ok(Route::Refused(refusal));
            }
            let expansion = expand(connection, alias, size, settings, largest, expanded)?;
            expansion.refusal().map_or(Route::Alias(expansion), Route::Refused)
        }
        Target::Nothing if address.local() == POSTMASTER => Route::Refused(no_postmaster()),
        Target::Nothing => Route::Refused(unknown()),
        Target::Unusable => Route::Refused(unusable()),
    })
}

/// Returns what an address of a local domain stands for: the mailbox or the alias of this name, or of the name before
/// the delimiter (`bob+tag` is delivered to `bob`), or the catch-all of the domain. Mail for the postmaster of a domain
/// without any of them goes to the postmaster of the server.
pub(super) fn target(
    connection: &Connection,
    address: &EmailAddress,
    settings: &MessageStoreSettings,
) -> Result<Target, StoreError> {
    match look_up(connection, address, settings) {
        Err(error) if Failed::is_of_row(&error) => {
            tracing::error!(%address, %error, "mailbox or alias cannot take mail: its row is damaged");
            Ok(Target::Unusable)
        }
        target => target,
    }
}

fn look_up(
    connection: &Connection,
    address: &EmailAddress,
    settings: &MessageStoreSettings,
) -> Result<Target, StoreError> {
    for name in [Some(address.clone()), without_tag(address, settings.recipient_delimiter)].into_iter().flatten() {
        if let Some(mailbox) = mailbox::find(connection, &name)? {
            return Ok(Target::Mailbox(mailbox));
        }
        if let Some(alias) = active_alias(connection, &name)? {
            return Ok(Target::Alias(alias));
        }
    }
    if let Some(alias) = active_alias(connection, &EmailAddress::catch_all_of(&address.domain()))? {
        return Ok(Target::Alias(alias));
    }
    if !ROLES.contains(&address.local()) {
        return Ok(Target::Nothing);
    }
    let Some(postmaster) = postmaster(connection, &settings.postmasters)? else { return Ok(Target::Nothing) };
    if let Some(mailbox) = mailbox::find(connection, &postmaster)? {
        return Ok(Target::Mailbox(mailbox));
    }
    Ok(active_alias(connection, &postmaster)?.map_or(Target::Nothing, Target::Alias))
}

/// An inactive alias does not exist for mail.
fn active_alias(connection: &Connection, address: &EmailAddress) -> Result<Option<Alias>, StoreError> {
    Ok(alias::find(connection, address)?.filter(|alias| alias.active))
}

/// Returns the address before the delimiter; `None` without one.
fn without_tag(address: &EmailAddress, delimiter: Option<char>) -> Option<EmailAddress> {
    let (name, _) = delimiter.and_then(|delimiter| address.local().split_once(delimiter))?;
    // A part of a quoted string is not an address and has no mailbox.
    format!("{name}@{}", address.domain_str()).parse().ok()
}

/// Returns the recipient of mail for the postmaster of the server: the first candidate that is a local mailbox, with or
/// without room, or an alias; otherwise the oldest mailbox, which the person who set the server up has. Mail for the
/// postmaster must be accepted (RFC 5321 section 4.5.1).
pub(super) fn postmaster(
    connection: &Connection,
    candidates: &[EmailAddress],
) -> Result<Option<EmailAddress>, StoreError> {
    for address in candidates {
        let is_here = mailbox::is_local_domain(connection, address.domain_str())?;
        let exists = || Ok::<_, StoreError>(mailbox::find(connection, address)?.is_some());
        if is_here && (exists()? || active_alias(connection, address)?.is_some()) {
            return Ok(Some(address.clone()));
        }
    }
    mailbox::oldest(connection)
}

/// Returns whether mail for the domain is delivered here.
pub(super) fn is_local_domain(connection: &Connection, domain: &DomainName) -> Result<bool, StoreError> {
    mailbox::is_local_domain(connection, domain.as_str())
}

pub(super) fn unknown() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 1, 1), "No such mailbox")
}

/// Returns the reply for mail to the postmaster of a server without any mailbox. It is temporary, so that the message
/// arrives when there is one.
pub(crate) fn no_postmaster() -> Reply {
    Reply::new(450, EnhancedCode::new(4, 2, 1), "There is no mailbox here yet")
}

pub(super) fn full() -> Reply {
    Reply::new(552, EnhancedCode::new(5, 2, 2), "The mailbox is full")
}

/// Returns the reply for the client. Another server retries for days, while the owner can make room, the
/// quota can be raised, or the operator mends the mailbox (RFC 3463 section 3.3). A local author has no queue that retries
/// and gets the permanent refusal.
pub(crate) fn to_client(reply: Reply, relaying: Relaying) -> Reply {
    match relaying {
        Relaying::Denied if reply == full() => {
            Reply::new(452, EnhancedCode::new(4, 2, 2), "The mailbox is full, try again later")
        }
        Relaying::Denied if reply == unusable() => unusable_for_now(),
        Relaying::Denied | Relaying::Allowed => reply,
    }
}

fn no_relaying() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 7, 1), "Relaying denied")
}

pub(crate) fn too_long() -> Reply {
    Reply::new(552, EnhancedCode::new(5, 3, 4), "The message exceeds the maximum size")
}
