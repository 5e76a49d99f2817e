//! Routes of recipients, and the replies to refused ones.

use mailapi_model::{DomainName, EmailAddress, EnhancedCode, Reply};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::Relaying;
use crate::message_store::mailbox::Mailbox;
use crate::message_store::{MailboxId, mailbox};

/// Result of a recipient check at RCPT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientCheck {
    /// A local mailbox with enough room.
    Local,
    /// Mail for another server.
    Remote,
    /// Refused.
    Refused(Reply),
}

/// [`RecipientCheck`] with the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Local(MailboxId),
    Remote,
    Refused(Reply),
}

impl RecipientCheck {
    pub(super) fn of(route: Route, relaying: Relaying) -> Self {
        match route {
            Route::Local(_) => Self::Local,
            Route::Remote => Self::Remote,
            Route::Refused(reply) => Self::Refused(to_client(reply, relaying)),
        }
    }
}

/// Returns the route of a recipient. The domain decides: a local domain has no recipients but its mailboxes,
/// and a mailbox of any other domain is not a route. An account of an unconfirmed domain therefore gets no
/// mail meant for that domain's real server.
pub(crate) fn route(
    connection: &Connection,
    address: &EmailAddress,
    size: u64,
    relaying: Relaying,
    delimiter: Option<char>,
) -> Result<Route, StoreError> {
    if !mailbox::is_local_domain(connection, address.domain_str())? {
        return Ok(match relaying {
            Relaying::Allowed => Route::Remote,
            Relaying::Denied => Route::Refused(no_relaying()),
        });
    }
    Ok(match find(connection, address, delimiter)? {
        Some(mailbox) if mailbox.has_room_for(size) => Route::Local(mailbox.id),
        Some(_) => Route::Refused(full()),
        None => Route::Refused(unknown()),
    })
}

/// Returns the mailbox of this name, or of the name before the delimiter: `bob+tag` is delivered to `bob`.
fn find(
    connection: &Connection,
    address: &EmailAddress,
    delimiter: Option<char>,
) -> Result<Option<Mailbox>, StoreError> {
    if let Some(mailbox) = mailbox::find(connection, address)? {
        return Ok(Some(mailbox));
    }
    let Some((name, _)) = delimiter.and_then(|delimiter| address.local().split_once(delimiter)) else {
        return Ok(None);
    };
    // A part of a quoted string is not an address and has no mailbox.
    let Ok(base) = format!("{name}@{}", address.domain_str()).parse() else { return Ok(None) };
    mailbox::find(connection, &base)
}

/// Returns the first address that is a local mailbox, with or without room.
pub(super) fn first_mailbox(
    connection: &Connection,
    candidates: &[EmailAddress],
) -> Result<Option<EmailAddress>, StoreError> {
    for address in candidates {
        let is_here = mailbox::is_local_domain(connection, address.domain_str())?;
        if is_here && mailbox::find(connection, address)?.is_some() {
            return Ok(Some(address.clone()));
        }
    }
    Ok(None)
}

/// Returns whether mail for the domain is delivered here.
pub(super) fn is_local_domain(connection: &Connection, domain: &DomainName) -> Result<bool, StoreError> {
    mailbox::is_local_domain(connection, domain.as_str())
}

fn unknown() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 1, 1), "No such mailbox")
}

fn full() -> Reply {
    Reply::new(552, EnhancedCode::new(5, 2, 2), "The mailbox is full")
}

/// Returns the reply for the client. Another server retries for days, while the owner can make room or the
/// quota can be raised (RFC 3463 section 3.3). A local author has no queue that retries and gets the
/// permanent refusal.
pub(crate) fn to_client(reply: Reply, relaying: Relaying) -> Reply {
    match relaying {
        Relaying::Denied if reply == full() => {
            Reply::new(452, EnhancedCode::new(4, 2, 2), "The mailbox is full, try again later")
        }
        Relaying::Denied | Relaying::Allowed => reply,
    }
}

fn no_relaying() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 7, 1), "Relaying denied")
}

pub(crate) fn too_long() -> Reply {
    Reply::new(552, EnhancedCode::new(5, 3, 4), "The message exceeds the maximum size")
}
