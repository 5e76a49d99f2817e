//! Bounds what one message becomes through aliases and rules, and what they forward in an hour.
//!
//! Each copy that comes back looks like new mail, but all copies have identities in common ([`super::identity`]). So one
//! message reaches a bounded number of addresses through this server, whatever ways its copies take, and whatever trace
//! fields other servers remove from them:
//!
//! - An address forwards a message at most [`MOST_WAYS`] times in a day, and an alias, a catch-all among them, at most
//!   [`MOST_OF_ONE_ALIAS`] times. So an alias with `m` members makes at most `m * MOST_OF_ONE_ALIAS` copies. Messages without
//!   both an identifier and a date are not counted: one device sends many of them. Mailboxes here get each copy, as a
//!   mailbox does that its sender names. They do not send it back.
//! - All aliases and rules together bring it to at most `max_reached` addresses, mailboxes here among them.
//!
//! With `s` such servers and a message to `r` recipients, at most `r + s * max_reached` deliveries follow: each address
//! that an alias or a rule adds is a mailbox, or one copy that is delivered elsewhere or refused. Automatic answers and
//! notices are messages of their own, which [`super::notified`] and the rules of their mailboxes limit.
//!
//! Mail without aliases and rules costs no look-up here.

use std::collections::{BTreeMap, HashMap};

use mailapi_backend::Refusal;
use mailapi_model::{DomainName, EmailAddress, EnhancedCode, Reply, Timestamp};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::expansion::{Expansion, OutsideMember};
use super::routing::Route;
use super::transaction::{Local, Routes};
use super::{Prepared, Relaying, loops, notified};
use crate::MessageStoreSettings;
use crate::message_store::expanded::{self, MessageIdentity};
use crate::message_store::hourly::{HourlyCounts, HourlyLimit};

/// Maximum number of copies that an alias sends to other servers in an hour: 50 messages for 1,000 members. Mail to the
/// alias counts against no limit of what its sender sends.
const MOST_OF_ALIAS: u64 = 50_000;

/// The same for the rules of a mailbox. Otherwise an owner could make this server the origin of a flood, by mail to the
/// mailbox.
const MOST_OF_RULES: u64 = 1_000;

/// The same for all aliases and rules of a domain: its managers can create any number of aliases.
const MOST_OF_DOMAIN: u64 = 100_000;

/// How often an address or a mailbox with rules forwards a message in a day. A message rightly comes more than once: to its
/// author's list and to the members, through another list, or again because its sender missed the reply.
const MOST_WAYS: u64 = 3;

/// The same for an alias under all its addresses. Some servers send a message to each address of a catch-all separately.
const MOST_OF_ONE_ALIAS: u64 = 20;

/// What a message adds to the counters, once it is accepted.
pub(super) struct ReachedCounts<'a> {
    connection: &'a Connection,
    mail: &'a Prepared,
    most: u64,
    now: Timestamp,
    hourly: HourlyCounts,
    /// The addresses that the message has reached before; unknown until an alias or a rule adds some.
    before: Option<u64>,
    added: u64,
    /// How often each address, alias and mailbox with rules has forwarded the message, now included.
    forwarded: BTreeMap<MessageIdentity, u64>,
}

/// Refuses the aliases, and drops the copies to other servers, that exceed a limit.
pub(super) fn apply<'a>(
    connection: &'a Connection,
    mail: &'a Prepared,
    settings: &MessageStoreSettings,
    routes: &mut Routes<'_>,
    now: Timestamp,
) -> Result<ReachedCounts<'a>, StoreError> {
    let (hourly, most) = (HourlyCounts::new(now), settings.max_reached);
    let forwarded = BTreeMap::new();
    let mut bounds = ReachedCounts { connection, mail, most, now, hourly, before: None, added: 0, forwarded };
    for mut local in std::mem::take(&mut routes.local) {
        match bounds.refusal(&mut local)? {
            Some(reply) => routes.refused.push(Refusal { recipient: local.recipient.address.clone(), reply }),
            None => {
                bounds.shorten(&mut local.forwarded)?;
                routes.local.push(local);
            }
        }
    }
    for recipient in std::mem::take(&mut routes.remote) {
        if recipient.comes_back && !notified::admit(connection, &mut bounds.hourly, &recipient.address, None)? {
            let (recipient, reply) = (recipient.address.clone(), notified::too_many());
            routes.refused.push(Refusal { recipient, reply });
        } else {
            routes.remote.push(recipient);
        }
    }
    Ok(bounds)
}

/// Refuses an alias at RCPT that has reached its limit of the hour. The other server sends to it later, and to the other
/// recipients now.
pub(super) fn checked(connection: &Connection, route: Route, now: Timestamp) -> Result<Route, StoreError> {
    let Route::Alias(expansion) = &route else { return Ok(route) };
    let refusal = busy(connection, &mut HourlyCounts::new(now), expansion)?;
    Ok(refusal.map_or(route, Route::Refused))
}

impl ReachedCounts<'_> {
    /// Stores the counters. The transaction must not refuse the message any more.
    pub(super) fn write(&self) -> Result<(), StoreError> {
        self.hourly.write(self.connection)?;
        for (identity, times) in &self.forwarded {
            expanded::put(self.connection, std::slice::from_ref(identity), *times, self.now)?;
        }
        match self.before {
            Some(before) if self.added > 0 => {
                expanded::put(self.connection, self.mail.earlier.identities(), before + self.added, self.now)
            }
            _ => Ok(()),
        }
    }

    /// Returns why an alias does not get the message. If only other servers must not get it, removes those of its members.
    fn refusal(&mut self, local: &mut Local<'_>) -> Result<Option<Reply>, StoreError> {
        let recipient = &local.recipient.address;
        let Some(expansion) = local.alias_mut() else { return Ok(None) };
        if let Some(reply) = self.ended_loop(recipient, expansion)? {
            if expansion.mailboxes.is_empty() {
                return Ok(Some(reply));
            }
            expansion.forward_nothing(reply);
        }
        if !self.has_room_for(expansion.reached())? {
            self.warn(recipient, "the message has reached too many addresses through aliases and rules; it is refused");
            return Ok(Some(if self.mail.earlier.lead_back() { loops::looping() } else { reached_too_many() }));
        }
        let refusal = busy(self.connection, &mut self.hourly, expansion)?;
        if refusal.is_none() {
            self.added += expansion.reached();
        }
        Ok(refusal)
    }

    /// Returns why an alias does not send the message to other servers.
    fn ended_loop(&mut self, recipient: &EmailAddress, expansion: &Expansion) -> Result<Option<Reply>, StoreError> {
        let Some(alias) = expansion.forwarder() else { return Ok(None) };
        if self.is_from_outside() && self.mail.earlier.are_unclear() {
            self.warn(alias, "the message has several fields Message-ID or Date; it is not forwarded");
            return Ok(Some(loops::unclear()));
        }
        // A message that was not here before is refused for now, with the members here: they get it later.
        if self.mail.earlier.lead_back() && !self.has_room_for(expansion.reached())? {
            self.warn(
                alias,
                "the message has reached too many addresses through aliases and rules; it is not forwarded",
            );
            return Ok(Some(loops::looping()));
        }
        if !self.may_forward(&[(recipient, MOST_WAYS), (alias, MOST_OF_ONE_ALIAS)])? {
            self.warn(alias, "the alias has forwarded the message too often; it does not forward it again");
            return Ok(Some(loops::looping()));
        }
        Ok(None)
    }

    fn warn(&self, alias: &EmailAddress, text: &str) {
        tracing::warn!(%alias, queue_id = %self.mail.queue_id, "{text}");
    }

    fn is_from_outside(&self) -> bool {
        self.mail.incoming.relaying == Relaying::Denied
    }

    /// Counts that each of these forwards the message once more, unless one of them has done so too often. Persons with a
    /// login may send old mail again. Their own limits count that, and copies in a loop come from other servers.
    fn may_forward(&mut self, forwarders: &[(&EmailAddress, u64)]) -> Result<bool, StoreError> {
        if !self.is_from_outside() || !self.mail.earlier.are_identified() {
            return Ok(true);
        }
        let mut raised = Vec::new();
        for (forwarder, most) in forwarders {
            let identities = self.mail.earlier.identities_at(forwarder);
            // Several recipients of one message may share a catch-all.
            if identities.iter().any(|identity| self.forwarded.contains_key(identity)) {
                continue;
            }
            let before = expanded::addresses(self.connection, &identities, self.now)?;
            if before >= *most {
                return Ok(false);
            }
            raised.extend(identities.into_iter().map(|identity| (identity, before + 1)));
        }
        self.forwarded.extend(raised);
        Ok(true)
    }

    /// Removes the copies by rules that exceed a limit. The mailbox has the message.
    fn shorten(&mut self, forwarded: &mut Expansion) -> Result<(), StoreError> {
        if forwarded.reached() == 0 {
            return Ok(());
        }
        let is_unclear = self.is_from_outside() && self.mail.earlier.are_unclear();
        if is_unclear || !self.has_room_for(forwarded.reached())? {
            let reason =
                if is_unclear { "has several fields Message-ID or Date" } else { "has reached too many addresses" };
            tracing::warn!(queue_id = %self.mail.queue_id, "the message {reason}; rules do not forward it");
            forwarded.elsewhere.clear();
        }
        if !self.has_room_for(forwarded.reached())? {
            *forwarded = Expansion::default();
            return Ok(());
        }
        let mut copies: HashMap<EmailAddress, u64> = HashMap::new();
        let mailbox = |member: &OutsideMember| member.through.first().cloned();
        forwarded.elsewhere.iter().filter_map(mailbox).for_each(|mailbox| *copies.entry(mailbox).or_default() += 1);
        for (mailbox, copies) in copies {
            if !self.may_forward(&[(&mailbox, MOST_WAYS)])?
                || is_full(self.connection, &mut self.hourly, &mailbox, MOST_OF_RULES, copies)?
            {
                forwarded.elsewhere.retain(|member| member.through.first() != Some(&mailbox));
            }
        }
        self.added += forwarded.reached();
        Ok(())
    }

    fn has_room_for(&mut self, more: u64) -> Result<bool, StoreError> {
        let before = match self.before {
            Some(before) => before,
            None => expanded::addresses(self.connection, self.mail.earlier.identities(), self.now)?,
        };
        self.before = Some(before);
        Ok(before.saturating_add(self.added).saturating_add(more) <= self.most)
    }
}

/// Counts the copies that an alias sends to other servers. Returns why it sends none.
fn busy(
    connection: &Connection,
    hourly: &mut HourlyCounts,
    expansion: &Expansion,
) -> Result<Option<Reply>, StoreError> {
    let Some(alias) = expansion.forwarder() else { return Ok(None) };
    let copies = expansion.elsewhere.len() as u64;
    Ok(is_full(connection, hourly, alias, MOST_OF_ALIAS, copies)?.then(forwards_too_much))
}

/// Counts copies of an alias or of the rules of a mailbox, and of their domain, unless they exceed a limit.
fn is_full(
    connection: &Connection,
    hourly: &mut HourlyCounts,
    forwarder: &EmailAddress,
    most: u64,
    copies: u64,
) -> Result<bool, StoreError> {
    let of_domain = |domain: &DomainName| HourlyLimit { name: format!("copies @{domain}"), most: MOST_OF_DOMAIN };
    let limits = [HourlyLimit { name: format!("copies {}", forwarder.as_str()), most }, of_domain(&forwarder.domain())];
    let full = hourly.raise(connection, &limits, copies)?;
    if let Some(full) = &full {
        tracing::warn!(%forwarder, limit = full, "too many copies were forwarded in this hour; no further one is");
    }
    Ok(full.is_some())
}

/// Another server tries again in the next hour.
fn forwards_too_much() -> Reply {
    let text = "The alias has forwarded too many messages in this hour; try again later";
    Reply::new(452, EnhancedCode::new(4, 4, 5), text)
}

/// Copies of the message that were here before are refused for ever; this one may be the first of a way.
fn reached_too_many() -> Reply {
    let text = "The message has reached too many addresses through aliases; try again tomorrow";
    Reply::new(452, EnhancedCode::new(4, 5, 3), text)
}
