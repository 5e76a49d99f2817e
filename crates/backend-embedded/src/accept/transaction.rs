//! The transaction that accepts a message.
//!
//! The order of the writes does not matter for a crash, since they are one transaction. It follows the
//! references: bytes, entries (which count as references to them) with their events, queue rows, and last
//! the record for the API.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mailapi_backend::{Accepted, Refusal};
use mailapi_events::{Received, ReceivedMessage, received, received_id, submitted};
use mailapi_imap::Flags;
use mailapi_model::{
    DeliveryEvent, EmailAddress, EnhancedCode, Evidence, FolderName, MessageId, Outcome, QueueId, Reply, Ruling,
    SubmittedFact, SubmittedReport, Timestamp,
};
use mailapi_store::{StoreError, insert_event};
use rusqlite::{Connection, OptionalExtension, params};

use super::contents::StoredForms;
use super::expansion::{self, Expanded, Expansion};
use super::routing::{Route, route};
use super::rules::{self, AllRulings};
use super::unusable::{Failed, Unusable, in_savepoint};
use super::wide::MessageBreadth;
use super::{
    AcceptError, LeftFor, Prepared, Recipient, Relaying, Submitter, Taken, answering, bounds, loops, returned,
    sent_copy,
};
use crate::message_store::{
    ContentId, EntryRecipient, FlagColumns, FolderId, MailboxId, MessageStoreError, NewEntry, Touched, add_answer,
    damaged, enqueue_for_index, entry, folder, folder_for_rule, mailbox, to_flag_columns,
};
use crate::{MessageStoreSettings, feed, queue};

/// The recipients, by their route.
#[derive(Default)]
pub(super) struct Routes<'a> {
    pub(super) local: Vec<Local<'a>>,
    pub(super) remote: Vec<&'a Recipient>,
    pub(super) refused: Vec<Refusal>,
    pub(super) rulings: AllRulings,
}

/// A recipient with mailboxes here.
pub(super) struct Local<'a> {
    pub(super) recipient: &'a Recipient,
    pub(super) to: LocalTo,
    /// Addresses to which the rules of its mailboxes forward the message.
    pub(super) forwarded: Expansion,
}

pub(super) enum LocalTo {
    Mailbox(MailboxId),
    Alias(Expansion),
}

impl LocalTo {
    /// Returns the mailboxes that get the message.
    pub(super) fn mailboxes(&self) -> impl Iterator<Item = MailboxId> + '_ {
        let (mailbox, expansion) = match self {
            Self::Mailbox(mailbox) => (Some(*mailbox), None),
            Self::Alias(expansion) => (None, Some(expansion)),
        };
        let members = expansion.into_iter().flat_map(|expansion| &expansion.mailboxes);
        mailbox.into_iter().chain(members.map(|(_, mailbox)| *mailbox))
    }
}

impl<'a> Routes<'a> {
    fn add_local(&mut self, recipient: &'a Recipient, to: LocalTo) {
        self.local.push(Local { recipient, to, forwarded: Expansion::default() });
    }
}

impl Local<'_> {
    pub(super) fn alias(&self) -> Option<&Expansion> {
        match &self.to {
            LocalTo::Mailbox(_) => None,
            LocalTo::Alias(expansion) => Some(expansion),
        }
    }

    pub(super) fn alias_mut(&mut self) -> Option<&mut Expansion> {
        match &mut self.to {
            LocalTo::Mailbox(_) => None,
            LocalTo::Alias(expansion) => Some(expansion),
        }
    }

    /// Returns whether every member of an alias has the message.
    fn is_complete(&self) -> bool {
        self.alias().is_none_or(|expansion| expansion.failed.is_empty() && expansion.elsewhere.is_empty())
    }

    /// Returns whether a mailbox here has the message.
    fn is_here(&self) -> bool {
        self.alias().is_none_or(|expansion| !expansion.mailboxes.is_empty())
    }

    fn is_forwarding(&self) -> bool {
        self.alias().is_some_and(|expansion| !expansion.elsewhere.is_empty())
    }

    /// Returns the members of an alias that cannot receive the message.
    fn failed(&self) -> &[Refusal] {
        self.alias().map_or(&[], |expansion| expansion.failed.as_slice())
    }
}

/// Writes the whole message, or nothing. It refuses before its first write: a caller may keep what it wrote
/// before in the same transaction.
pub(crate) fn accept(
    connection: &Connection,
    mail: &Prepared,
    settings: &MessageStoreSettings,
    breadth: MessageBreadth,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<Taken, AcceptError> {
    // A repeated submission gets the first result. Its local deliveries are in the feed already.
    if let Some(earlier) = mail.incoming.message_id.map(|id| find(connection, id)).transpose()?.flatten() {
        let Accepted { queue_id, refused } = earlier;
        return Ok(Taken { queue_id, delivered: Vec::new(), queued: Vec::new(), refused, partly_failed: Vec::new() });
    }
    let mut unusable = Unusable::default();
    loop {
        let attempt = || attempt(connection, mail, settings, &unusable, breadth, now, touched);
        match in_savepoint(connection, attempt) {
            Ok(taken) => return Ok(taken),
            Err(Failed::Message(error)) => return Err(error),
            Err(Failed::Mailbox(mailbox, error)) => unusable.add(connection, mailbox, error, now, touched)?,
        }
    }
}

/// Writes the message for all recipients but those whose mailboxes are `unusable`.
fn attempt(
    connection: &Connection,
    mail: &Prepared,
    settings: &MessageStoreSettings,
    unusable: &Unusable,
    breadth: MessageBreadth,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<Taken, Failed> {
    let mut routes = routes(connection, mail, settings, unusable, breadth, now)?;
    let reached = bounds::apply(connection, mail, settings, &mut routes, now)?;
    if routes.local.is_empty() && routes.remote.is_empty() {
        return Err(AcceptError::NoRecipients(routes.refused).into());
    }
    // A bounce that arrives during the delivery attempt gets a temporary failure until the attempt is recorded.
    for local in &routes.local {
        if let Some(returned) = &mail.returned
            && returned::come_early(connection, local.recipient, &returned.reports, now)?
        {
            return Err(AcceptError::Refused(temporary_failure()).into());
        }
    }
    reached.write()?;
    let mut forms = StoredForms::none(connection, mail, settings);
    if let Some(submitter) = &mail.incoming.submitter {
        report_submission(connection, mail, submitter, &routes, now, touched)?;
    }
    deliver(mail, settings, &routes, &mut forms, now, touched)?;
    sent_copy::save(connection, mail, settings, &mut forms, unusable, now, touched)?;
    let waiting = waiting(mail, &routes);
    if !waiting.is_empty() && queue::insert(connection, mail, forms.received()?, &waiting, now)? {
        touched.queue();
    }
    if let Some(id) = mail.incoming.message_id {
        remember(connection, id, mail, &routes, now)?;
    }
    let address = |recipient: &Recipient| recipient.address.clone();
    let forwarding = routes.local.iter().filter(|local| local.is_forwarding()).map(|local| local.recipient);
    Ok(Taken {
        queue_id: mail.queue_id.clone(),
        delivered: routes.local.iter().filter(|local| local.is_here()).map(|local| address(local.recipient)).collect(),
        queued: routes.remote.iter().copied().chain(forwarding).map(address).collect(),
        partly_failed: routes.local.iter().flat_map(partly_failed).collect(),
        refused: routes.refused,
    })
}

/// Returns the failures of members, for a notice that names the alias instead: the sender does not know its members.
fn partly_failed<'a>(local: &'a Local<'_>) -> impl Iterator<Item = Refusal> + 'a {
    let of_alias = move |failed: &Refusal| Refusal {
        recipient: local.recipient.address.clone(),
        reply: Reply { text: format!("A member of the alias: {}", failed.reply.text), ..failed.reply.clone() },
    };
    // The alias has sent the message before, so nothing is lost.
    local.failed().iter().filter(|failed| !loops::ends_loop(&failed.reply)).map(of_alias)
}

/// Reports a message that a mail program submitted, and its recipients that were refused after RCPT.
fn report_submission(
    connection: &Connection,
    mail: &Prepared,
    submitter: &Submitter,
    routes: &Routes<'_>,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    let local = routes.local.iter().map(|local| local.recipient);
    let recipients = local.chain(routes.remote.iter().copied()).map(|recipient| recipient.address.clone());
    let recipients: Vec<_> = recipients.collect();
    let (message, size) = (submitter.mail(mail.queue_id.clone(), now), mail.content.size());
    if mail.has_log() {
        let fact = SubmittedFact::Accepted { recipients, size };
        let event = submitted(&SubmittedReport { mail: message, fact }, &[]);
        event.map_or(Ok(()), |event| insert_event(connection, &event))?;
        // Readers of the events wait for the feed's signal; a message without local recipients has no report yet.
        touched.feed();
    } else {
        // The reader of the feed stores the event.
        feed::append_accepted(connection, &message, &recipients, size, touched)?;
    }
    for refusal in &routes.refused {
        feed::append(connection, &refused(mail, refusal, now), first_attempt(mail, now), touched)?;
    }
    Ok(())
}

/// Returns what the feed reports with the first outcome of each recipient.
fn first_attempt(mail: &Prepared, now: Timestamp) -> Option<feed::Submitted<'_>> {
    let submitter = mail.incoming.submitter.as_ref()?;
    Some(feed::Submitted { submitter, accepted_at: now, attempts: 0 })
}

/// Reply to a bounce that cannot be verified yet.
fn temporary_failure() -> Reply {
    Reply::new(
        451,
        EnhancedCode::new(4, 3, 0),
        "Delivery of the reported message is still in progress; try again later",
    )
}

fn routes<'a>(
    connection: &Connection,
    mail: &'a Prepared,
    settings: &MessageStoreSettings,
    unusable: &Unusable,
    breadth: MessageBreadth,
    now: Timestamp,
) -> Result<Routes<'a>, Failed> {
    let mut routes = Routes::default();
    let mut seen: HashSet<&EmailAddress> = HashSet::new();
    let mut expanded = Expanded::of(mail);
    for recipient in mail.incoming.recipients.iter().filter(|recipient| seen.insert(&recipient.address)) {
        let (address, size) = (&recipient.address, mail.size_for(&recipient.address));
        let relaying = if recipient.comes_back { Relaying::Allowed } else { mail.incoming.relaying };
        let route = route(connection, address, size, relaying, settings, breadth.largest(), &mut expanded)?;
        breadth.allows(&expanded)?;
        let route = if mail.incoming.is_junk { kept_here(route, recipient) } else { route };
        match without_loop(mail, address, route) {
            Route::Local(mailbox) => routes.add_local(recipient, LocalTo::Mailbox(mailbox)),
            Route::Alias(expansion) => routes.add_local(recipient, LocalTo::Alias(expansion)),
            Route::Remote => routes.remote.push(recipient),
            Route::Refused(reply) => routes.refused.push(Refusal { recipient: recipient.address.clone(), reply }),
        }
    }
    // Aliases come last: their members get no second copy.
    routes.local.sort_by_key(|local| local.alias().is_some());
    rules::apply(connection, mail, settings, unusable, &mut routes, (&mut expanded, breadth), now)?;
    breadth.allows(&expanded)?;
    Ok(routes)
}

/// Refuses an alias that has forwarded the message before: its members have it. An alias without members elsewhere
/// forwards nothing. After too many passes, only the members here get the message. A person with a login may send old mail
/// again, which has passed this server before.
fn without_loop(mail: &Prepared, recipient: &EmailAddress, route: Route) -> Route {
    let Route::Alias(mut expansion) = route else { return route };
    let Some(alias) = expansion.forwarder() else { return Route::Alias(expansion) };
    let earlier = &mail.earlier;
    if earlier.name(recipient) || earlier.name(alias) {
        return Route::Refused(loops::looping());
    }
    if earlier.are_too_many() && mail.incoming.relaying == Relaying::Denied {
        if expansion.mailboxes.is_empty() {
            return Route::Refused(loops::looping());
        }
        expansion.forward_nothing(loops::looping());
    }
    Route::Alias(expansion)
}

/// Returns the route of junk: no other server gets it.
fn kept_here(route: Route, recipient: &Recipient) -> Route {
    if recipient.comes_back {
        return Route::Refused(expansion::junk());
    }
    let Route::Alias(mut expansion) = route else { return route };
    expansion.keep_here();
    expansion.refusal().map_or(Route::Alias(expansion), Route::Refused)
}

/// Adds an entry and an event for each local recipient, for each member of an alias, and for each mailbox to which rules
/// forward.
fn deliver(
    mail: &Prepared,
    settings: &MessageStoreSettings,
    routes: &Routes<'_>,
    forms: &mut StoredForms<'_>,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), Failed> {
    if routes.local.is_empty() {
        return Ok(());
    }
    let (content, connection, rulings) = (forms.kept()?, forms.connection(), &routes.rulings);
    let (forms, delivered_to) = (&*forms, HashMap::new());
    let mut delivery =
        Delivery { connection, mail, settings, rulings, forms, content, now, touched, delivered: delivered_to };
    for Local { recipient, to, .. } in &routes.local {
        match to {
            LocalTo::Mailbox(mailbox) => delivery.deliver_under(*mailbox, recipient)?,
            LocalTo::Alias(expansion) => delivery.deliver_to_members(recipient, expansion)?,
        }
        if let Some(returned) = &mail.returned {
            returned::record(connection, recipient, returned, now, delivery.touched)?;
        }
    }
    // Copies come after all recipients: a recipient whose mailbox had a copy already would get the message twice.
    for Local { recipient, forwarded, .. } in &routes.local {
        delivery.deliver_to_members(recipient, forwarded)?;
    }
    if !delivery.delivered.is_empty() {
        enqueue_for_index(connection, content)?;
    }
    touched.chores();
    Ok(())
}

/// The delivery of a message to mailboxes.
struct Delivery<'a> {
    connection: &'a Connection,
    mail: &'a Prepared,
    settings: &'a MessageStoreSettings,
    rulings: &'a AllRulings,
    forms: &'a StoredForms<'a>,
    content: ContentId,
    now: Timestamp,
    touched: &'a mut Touched,
    /// The mailboxes that have the message, with the number of their copies.
    delivered: HashMap<MailboxId, u64>,
}

impl Delivery<'_> {
    /// Adds an entry to a mailbox, and the event. The mailbox is to blame if a row of it is damaged.
    fn deliver(&mut self, mailbox: MailboxId, recipient: &EmailAddress, event: DeliveryEvent) -> Result<(), Failed> {
        let content = self.content_for(mailbox)?;
        let Self { connection, mail, now, .. } = *self;
        let blamed = Failed::in_store(mailbox);
        let ruling = self.rulings.get(mailbox, recipient);
        let flags = self.flags(ruling).map_err(&blamed)?;
        let (size, to) = (mail.size_for(recipient), EntryRecipient::DeliveredTo(recipient));
        let entry = NewEntry { content, flags: &flags, internal_date: now, size, saved_at: now, recipient: to };
        let (folder, name) = self.folder_for(mailbox, ruling).map_err(&blamed)?;
        let uid = entry::add(connection, folder, &entry).map_err(&blamed)?;
        let address = mailbox::address(connection, mailbox).map_err(|error| blamed(error.into()))?;
        let authentication = mail.incoming.authentication.as_ref();
        let place = feed::Place { mailbox: &address, folder: &name, uid, authentication };
        // If the log of events is in another database, the reader of the feed stores the event.
        let received = match &mail.snippet {
            Some(snippet) => {
                store_event(connection, mail, snippet, place, (&event.recipient, size), now)?;
                None
            }
            None => Some(place),
        };
        feed::append_received(connection, &event, first_attempt(mail, now), received, self.touched)?;
        self.touched.mailbox(mailbox);
        self.answer(mailbox, ruling, &address).map_err(|error| Failed::at(mailbox, error))
    }

    /// Returns the stored message for another entry of a mailbox.
    fn content_for(&mut self, mailbox: MailboxId) -> Result<ContentId, Failed> {
        let copies = self.delivered.entry(mailbox).or_default();
        *copies += 1;
        if *copies == 1 {
            return Ok(self.content);
        }
        let content = self.forms.another()?;
        enqueue_for_index(self.connection, content)?;
        Ok(content)
    }

    /// Returns the flags that rules set.
    fn flags(&self, ruling: Option<&Ruling>) -> Result<FlagColumns, MessageStoreError> {
        let words = ruling.map(|ruling| ruling.flags.as_slice()).unwrap_or_default();
        let most = self.settings.max_keywords;
        to_flag_columns(&Flags::from_words(words.iter().map(String::as_str).take(most)), most)
    }

    /// Returns the folder that receives the message.
    fn folder_for(
        &self,
        mailbox: MailboxId,
        ruling: Option<&Ruling>,
    ) -> Result<(FolderId, FolderName), MessageStoreError> {
        let Self { connection, mail, now, settings, .. } = *self;
        if let Some(name) = ruling.and_then(|ruling| ruling.folder.as_ref())
            && let Some(folder) = folder_for_rule(connection, mailbox, name, settings.max_folders, now)?
        {
            return Ok((folder, name.clone()));
        }
        if mail.incoming.is_junk {
            return folder::special(connection, mailbox, folder::JUNK, now);
        }
        Ok((folder::inbox(connection, mailbox)?, FolderName::inbox()))
    }

    /// Adds the automatic answer of a mailbox for the delivery agent.
    fn answer(
        &mut self,
        mailbox: MailboxId,
        ruling: Option<&Ruling>,
        address: &EmailAddress,
    ) -> Result<(), AcceptError> {
        let Some(vacation) = ruling.and_then(|ruling| ruling.vacation.as_ref()) else { return Ok(()) };
        let Some(answer) = answering::answer(self.mail, address, vacation) else { return Ok(()) };
        let next = self.now.plus(Duration::from_secs(u64::from(vacation.days) * 24 * 60 * 60));
        if add_answer(self.connection, mailbox, &answer, self.now, next)? {
            self.touched.queue();
        }
        Ok(())
    }

    /// Delivers to a mailbox under one of its addresses. After [`Expanded::MOST_COPIES`] copies, it has the message already.
    fn deliver_under(&mut self, mailbox: MailboxId, recipient: &Recipient) -> Result<(), Failed> {
        let event = delivered(self.mail, recipient, self.now);
        if self.delivered.get(&mailbox).is_some_and(|copies| *copies >= Expanded::MOST_COPIES) {
            return Ok(feed::append(self.connection, &event, first_attempt(self.mail, self.now), self.touched)?);
        }
        self.deliver(mailbox, &recipient.address, event)
    }

    /// Delivers to the members of an alias. A mailbox that has the message already gets no second copy.
    fn deliver_to_members(&mut self, recipient: &Recipient, expansion: &Expansion) -> Result<(), Failed> {
        let (mail, now) = (self.mail, self.now);
        let tried = |member: &EmailAddress, event| DeliveryEvent { final_recipient: Some(member.clone()), ..event };
        for Refusal { recipient: member, reply } in &expansion.failed {
            let refusal = Refusal { recipient: recipient.address.clone(), reply: reply.clone() };
            let event = tried(member, refused(mail, &refusal, now));
            feed::append(self.connection, &event, first_attempt(mail, now), self.touched)?;
        }
        for (member, mailbox) in &expansion.mailboxes {
            let event = tried(member, delivered(mail, recipient, now));
            if self.delivered.contains_key(mailbox) {
                feed::append(self.connection, &event, first_attempt(mail, now), self.touched)?;
            } else {
                self.deliver(*mailbox, &recipient.address, event)?;
            }
        }
        Ok(())
    }
}

/// Stores the event of a received message.
fn store_event(
    connection: &Connection,
    mail: &Prepared,
    snippet: &str,
    place: feed::Place<'_>,
    (recipient, size): (&EmailAddress, u64),
    now: Timestamp,
) -> Result<(), StoreError> {
    let (structure, queue_id) = (mail.content.structure(), mail.queue_id.0.as_str());
    let feed::Place { mailbox, folder, uid, authentication } = place;
    let message = ReceivedMessage {
        folder: folder.as_str(),
        uid,
        from_name: &structure.from.name,
        from_email: &structure.from.email,
        subject: &structure.subject,
        snippet,
        size,
        has_attachments: !structure.attachments.is_empty(),
        security: mail.incoming.security.as_ref(),
    };
    let id = received_id(mailbox, now, &[folder.as_str().as_bytes(), &uid.to_be_bytes(), queue_id.as_bytes()]);
    let (recipient, message) = (Some(recipient), Some(message));
    insert_event(connection, &received(Received { mailbox, recipient, queue_id, authentication, message }, id))
}

fn delivered(mail: &Prepared, recipient: &Recipient, now: Timestamp) -> DeliveryEvent {
    DeliveryEvent {
        at: now,
        message_id: mail.incoming.message_id,
        queue_id: mail.queue_id.clone(),
        sender: mail.incoming.sender.clone(),
        recipient: recipient.address.clone().folded(),
        final_recipient: None,
        outcome: Outcome::Sent,
        evidence: Evidence::MailServer,
        dsn: Some(EnhancedCode::new(2, 0, 0)),
        response: "delivered to the mailbox".to_owned(),
        relay: Some(DeliveryEvent::LOCAL_RELAY.to_owned()),
        delay: now.since(mail.incoming.received_at),
        next_attempt_at: None,
    }
}

/// Returns the report about a recipient that was accepted at RCPT and refused at the end of the message. Its sender gets
/// a notice.
fn refused(mail: &Prepared, Refusal { recipient, reply }: &Refusal, now: Timestamp) -> DeliveryEvent {
    DeliveryEvent {
        recipient: recipient.clone(),
        outcome: Outcome::of_refusal(reply),
        dsn: reply.enhanced_or_class(),
        response: reply.to_string(),
        relay: None,
        ..delivered(mail, &Recipient::from(recipient.clone()), now)
    }
}

/// Returns the recipients for the queue: remote ones, and local ones whose sender requested a success notice
/// (RFC 3461 section 4.1).
fn waiting<'a>(mail: &Prepared, routes: &'a Routes<'_>) -> Vec<queue::Waiting<'a>> {
    let wants_notice =
        |recipient: &Recipient| mail.incoming.sender.is_some() && recipient.notify.is_some_and(|notify| notify.success);
    let complete = routes.local.iter().filter(|local| local.is_complete()).map(|local| local.recipient);
    let local = complete.filter(|recipient| wants_notice(recipient));
    let waiting = |recipient, task| queue::Waiting {
        recipient,
        task,
        member: None,
        through: &[],
        alias_has_it: false,
        failure_notified: false,
        is_silent: false,
    };
    let local = local.map(|recipient| waiting(recipient, queue::Task::NotifySuccess));
    let remote = routes.remote.iter().map(|recipient| waiting(*recipient, queue::Task::Deliver));
    let mut waiting: Vec<queue::Waiting<'a>> = remote.chain(local).collect();
    let mut reached: HashSet<&EmailAddress> = waiting.iter().map(queue::Waiting::address).collect();
    let of_aliases: Vec<_> = routes.local.iter().flat_map(|local| forwarded(local, mail)).collect();
    // Authors see the status of each recipient, so they get a delivery for each. To strangers, a catch-all would otherwise
    // send a copy for each of its addresses.
    let is_from_author = mail.incoming.relaying == Relaying::Allowed;
    waiting.extend(of_aliases.into_iter().filter(|copy| reached.insert(copy.address()) || is_from_author));
    // Rules send no second copy to an address that gets the message anyway, or by the rules of another mailbox.
    let by_rules: Vec<_> = routes.local.iter().flat_map(forwarded_by_rules).collect();
    waiting.extend(by_rules.into_iter().filter(|copy| reached.insert(copy.address())));
    waiting
}

/// Returns the members of an alias at other servers.
fn forwarded<'a>(local: &'a Local<'_>, mail: &Prepared) -> impl Iterator<Item = queue::Waiting<'a>> {
    let recipient = local.recipient;
    // The sender of a message from the API gets no notice about members here, but an event.
    let is_notified = mail.incoming.message_id.is_none();
    let members = local
        .alias()
        .into_iter()
        .flat_map(|expansion| expansion.elsewhere.iter().map(move |member| (expansion, member)));
    members.map(move |(expansion, member)| queue::Waiting {
        recipient,
        task: queue::Task::Deliver,
        member: Some(&member.address),
        through: &member.through,
        alias_has_it: !expansion.mailboxes.is_empty(),
        failure_notified: is_notified && !expansion.failed.is_empty(),
        is_silent: false,
    })
}

/// Returns the addresses at other servers to which rules forward. The recipient's mailbox has the message, so the sender
/// gets no notices about them.
fn forwarded_by_rules<'a>(local: &'a Local<'_>) -> impl Iterator<Item = queue::Waiting<'a>> {
    let recipient = local.recipient;
    local.forwarded.elsewhere.iter().map(move |member| queue::Waiting {
        recipient,
        task: queue::Task::Deliver,
        member: Some(&member.address),
        through: &member.through,
        alias_has_it: true,
        failure_notified: false,
        is_silent: true,
    })
}

fn remember(
    connection: &Connection,
    id: MessageId,
    mail: &Prepared,
    routes: &Routes<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = id.to_string();
    let sql = "INSERT INTO drop_accepted (message_uuid, queue_id, accepted_at, sender, left_for)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let sender = mail.incoming.sender.as_ref().map(|sender| sender.as_str());
    let members = routes.local.iter().flat_map(|local| forwarded(local, mail));
    let members = members.map(|waiting| LeftFor::new(&waiting.recipient.address, waiting.member));
    let remote = routes.remote.iter().map(|recipient| LeftFor::new(&recipient.address, None));
    let left = returned::to_column(remote.chain(members));
    connection.prepare_cached(sql)?.execute(params![id, mail.queue_id.0, now.as_millis(), sender, left])?;
    let sql = "INSERT INTO drop_accepted_refusals (message_uuid, recipient, code, enhanced, text)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    for Refusal { recipient, reply } in &routes.refused {
        let (code, enhanced, text) = queue::reply_columns(reply);
        connection.prepare_cached(sql)?.execute(params![id, recipient.wire(), code, enhanced, text])?;
    }
    Ok(())
}

/// Returns the result with which the message was accepted.
pub(super) fn find(connection: &Connection, id: MessageId) -> Result<Option<Accepted>, StoreError> {
    let id = id.to_string();
    let sql = "SELECT queue_id FROM drop_accepted WHERE message_uuid = ?1";
    let queue_id = connection.prepare_cached(sql)?.query_row(params![id], |row| row.get(0)).optional()?;
    let Some(queue_id) = queue_id.map(QueueId) else { return Ok(None) };
    let sql = "SELECT code, enhanced, text, recipient FROM drop_accepted_refusals WHERE message_uuid = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let refused = statement.query_and_then(params![id], |row| {
        let recipient: String = row.get(3)?;
        let recipient = EmailAddress::as_given(&recipient).map_err(|_| damaged("an address"))?;
        let reply = queue::read_reply(row, 0)?.ok_or_else(|| damaged("a refusal"))?;
        Ok(Refusal { recipient, reply })
    })?;
    Ok(Some(Accepted { queue_id, refused: refused.collect::<Result<_, StoreError>>()? }))
}
