//! Commands valid after login, with or without a selected mailbox: mailboxes, APPEND, quota, IDLE.

use super::completion::Completion;
use super::effect::{Effect, Failure, Reply};
use super::{Expecting, Flow, Phase, Running, Session, Step};
use crate::mailbox::{DELIMITER, MailboxName};
use crate::server::command::{Command, Extension, ListQuery, Resync, SelectParameters, StatusItem, UidRanges};
use crate::server::encode::fetch::{self, Changed};
use crate::server::encode::{list, quota, select, status};
use crate::server::view::SelectedView;
use crate::token::SequenceSet;

/// A command that waits for the host.
pub(super) enum Pending {
    /// SELECT or EXAMINE.
    Select { mailbox: MailboxName, read_only: bool, resync: Option<Resync> },
    /// Commands that only succeed or fail, with the text for success.
    Plain(&'static str),
    /// CREATE.
    Create,
    /// DELETE.
    Delete,
    /// LIST or LSUB.
    List(ListQuery),
    /// The counts for LIST with RETURN (STATUS ...).
    ListStatus(Vec<StatusItem>),
    /// STATUS.
    Status(Vec<StatusItem>),
    /// APPEND, and whether its mailbox may be created by the client.
    Append { may_be_new: bool },
    /// COMPRESS.
    Compress,
    /// GETQUOTA.
    Quota,
    /// GETQUOTAROOT.
    QuotaRoot(MailboxName),
}

/// Runs the command, or returns it if it requires a selected mailbox.
pub(super) fn run(session: &mut Session, tag: &str, command: Command) -> Result<Flow, Command> {
    Ok(match command {
        Command::Login { .. } | Command::Authenticate { .. } | Command::StartTls => {
            Flow::Complete(Completion::bad("Already logged in"))
        }
        Command::Enable(extensions) => enable(session, &extensions),
        Command::Namespace => {
            session.out.raw(&format!("* NAMESPACE ((\"\" \"{DELIMITER}\")) NIL NIL")).crlf();
            Flow::Complete(Completion::ok("NAMESPACE completed"))
        }
        Command::Compress if session.compressed => {
            Flow::Complete(Completion::no("COMPRESSIONACTIVE", "Compression is already active"))
        }
        Command::Compress => wait(Effect::Compress, Pending::Compress),
        Command::Idle => {
            session.out.raw("+ idling").crlf();
            Flow::Expect(Expecting::Done { tag: tag.to_owned() })
        }
        Command::Select { mailbox, read_only, parameters } => select_mailbox(session, mailbox, read_only, parameters),
        Command::List(query) if query.delimiter_only => {
            list::write_delimiter(&mut session.out, query.lsub);
            Flow::Complete(Completion::ok("LIST completed"))
        }
        Command::List(query) => wait(Effect::Folders, Pending::List(query)),
        Command::Status { mailbox, items } => wait(status(vec![mailbox], &items), Pending::Status(items)),
        Command::Append { mailbox, messages } => {
            let may_be_new = mailbox.may_be_new();
            wait(Effect::Append { mailbox, messages }, Pending::Append { may_be_new })
        }
        Command::GetQuota(root) if root.is_empty() => wait(Effect::Quota, Pending::Quota),
        Command::GetQuota(_) => Flow::Complete(no_such_root()),
        Command::GetQuotaRoot(mailbox) => wait(Effect::QuotaRoot(mailbox.clone()), Pending::QuotaRoot(mailbox)),
        other => return change_mailboxes(other),
    })
}

/// Enables extensions. QRESYNC includes CONDSTORE (RFC 7162 section 3.2.3).
fn enable(session: &mut Session, extensions: &[Extension]) -> Flow {
    session.out.raw("* ENABLED");
    if extensions.contains(&Extension::Qresync) {
        session.enabled.qresync = true;
        session.out.raw(" QRESYNC");
    }
    if extensions.iter().any(|extension| matches!(extension, Extension::Condstore | Extension::Qresync)) {
        session.out.raw(" CONDSTORE");
    }
    if extensions.contains(&Extension::Utf8) {
        session.enabled.utf8 = true;
        session.out.raw(" UTF8=ACCEPT");
    }
    if extensions.contains(&Extension::Rev2) {
        session.enabled.rev2 = true;
        session.out.raw(" IMAP4rev2");
        if let Phase::Selected(view) = &mut session.phase {
            view.hide_recent();
        }
    }
    if session.enabled.has_utf8() {
        session.out.enable_utf8();
    }
    session.out.crlf();
    Flow::Complete(Completion::ok("ENABLE completed"))
}

fn select_mailbox(session: &mut Session, mailbox: MailboxName, read_only: bool, parameters: SelectParameters) -> Flow {
    let SelectParameters { resync, .. } = parameters;
    if resync.is_some() && !session.enabled.qresync {
        return Flow::Complete(Completion::bad("Enable QRESYNC first"));
    }
    // SELECT deselects the old mailbox even if the new one cannot be opened (RFC 3501 section 6.3.1).
    let phase = std::mem::replace(&mut session.phase, Phase::Authenticated);
    if (session.enabled.qresync || session.enabled.rev2) && matches!(phase, Phase::Selected(_)) {
        // Later responses are about the new mailbox (RFC 7162 section 3.2.11, RFC 9051 section 7.1).
        session.out.raw("* OK [CLOSED] Previous mailbox closed").crlf();
    }
    let pending = Pending::Select { mailbox: mailbox.clone(), read_only, resync: resync.clone() };
    wait(Effect::Select { mailbox, read_only, resync }, pending)
}

/// Writes what changed since the client's earlier session (RFC 7162 section 3.2.5.1). Under another UIDVALIDITY the
/// client knows nothing.
fn write_resync(session: &mut Session, view: &SelectedView, resync: &Resync, vanished: &UidRanges) {
    if resync.uid_validity != view.uid_validity() {
        return;
    }
    let known = |uid| resync.known.as_ref().is_none_or(|known| known.contains(uid));
    let vanished = resync.known.as_ref().map_or_else(|| vanished.clone(), |known| known.intersection(vanished));
    select::write_vanished_earlier(&mut session.out, &view.absent(&vanished));
    for (number, entry) in view.changed_since(resync.modseq).filter(|(_, entry)| known(entry.uid)) {
        let flags = Some((&entry.flags, view.is_recent(entry.uid)));
        let changed = Changed { number, uid: entry.uid, flags, modseq: Some(entry.modseq) };
        fetch::write_change(&mut session.out, changed);
    }
}

fn change_mailboxes(command: Command) -> Result<Flow, Command> {
    Ok(match command {
        Command::Create { mailbox, .. } if mailbox.is_inbox() => Flow::Complete(Failure::AlreadyExists.into()),
        Command::Create { mailbox, special_use } => wait(Effect::Create { mailbox, special_use }, Pending::Create),
        Command::Delete(name) if name.is_inbox() => Flow::Complete(Completion::no("CANNOT", "INBOX cannot be deleted")),
        Command::Delete(name) => wait(Effect::Delete(name), Pending::Delete),
        Command::Rename { from, to } => rename(from, to),
        Command::Subscribe { mailbox, subscribed } => {
            let text = if subscribed { "SUBSCRIBE completed" } else { "UNSUBSCRIBE completed" };
            wait(Effect::Subscribe { mailbox, subscribed }, Pending::Plain(text))
        }
        other => return Err(other),
    })
}

fn rename(from: MailboxName, to: MailboxName) -> Flow {
    if to.is_inbox() || to == from {
        return Flow::Complete(Failure::AlreadyExists.into());
    }
    // A mailbox cannot move below itself, but INBOX can: only its messages move (RFC 3501 section 6.3.5).
    if !from.is_inbox() && to.parents().any(|parent| parent == from) {
        return Flow::Complete(Failure::Cannot.into());
    }
    wait(Effect::Rename { from, to }, Pending::Plain("RENAME completed"))
}

fn wait(effect: Effect, pending: Pending) -> Flow {
    Flow::Run(effect, super::Pending::Authenticated(pending))
}

/// Completes the command; returns `None` if it continues with another effect.
pub(super) fn finish(
    session: &mut Session,
    tag: &str,
    pending: Pending,
    result: Result<Reply, Failure>,
) -> Option<Completion> {
    let reply = match result {
        Ok(reply) => reply,
        Err(failure) => {
            let stores = matches!(pending, Pending::Append { may_be_new: true });
            return Some(if stores { Completion::from_storing(failure) } else { failure.into() });
        }
    };
    let out = &mut session.out;
    Some(match (pending, reply) {
        (Pending::Plain(text), Reply::Done) => Completion::ok(text),
        (Pending::Create, Reply::Created(id)) => {
            Completion::ok("CREATE completed").with_code(format!("MAILBOXID ({id})"))
        }
        (Pending::Delete, Reply::Done) => Completion::ok("DELETE completed"),
        (Pending::Select { mailbox, read_only, resync }, Reply::Selected { snapshot, vanished }) => {
            let mut view = SelectedView::new(mailbox, read_only, snapshot);
            if session.enabled.rev2 {
                view.hide_recent();
            }
            select::write_selected(out, &view, session.enabled);
            if let Some(resync) = resync {
                write_resync(session, &view, &resync, &vanished);
            }
            session.phase = Phase::Selected(Box::new(view));
            let code = if read_only { "READ-ONLY" } else { "READ-WRITE" };
            Completion::ok("Mailbox selected").with_code(code.to_owned())
        }
        (Pending::List(query), Reply::Folders(folders)) => {
            let mailboxes = list::write(out, &query, &folders);
            if query.return_status.is_empty() || mailboxes.is_empty() {
                return Some(Completion::ok(if query.lsub { "LSUB completed" } else { "LIST completed" }));
            }
            // LIST completes only after the STATUS responses (RFC 5819 section 2).
            session.next = Some(Step::Run(status(mailboxes, &query.return_status)));
            let pending = super::Pending::Authenticated(Pending::ListStatus(query.return_status));
            session.running = Some(Running { tag: tag.to_owned(), pending });
            return None;
        }
        (Pending::ListStatus(items), Reply::Statuses(statuses)) => {
            write_statuses(session, &items, &statuses);
            Completion::ok("LIST completed")
        }
        (Pending::Status(_), Reply::Statuses(statuses)) if statuses.is_empty() => Failure::NoSuchMailbox.into(),
        (Pending::Status(items), Reply::Statuses(statuses)) => {
            write_statuses(session, &items, &statuses);
            Completion::ok("STATUS completed")
        }
        (Pending::Append { .. }, Reply::Appended { uid_validity, uids }) => {
            let uids = SequenceSet::compact(&uids);
            Completion::ok("APPEND completed").with_code(format!("APPENDUID {uid_validity} {uids}"))
        }
        (Pending::Compress, Reply::Done) => {
            session.next = Some(Step::Compress);
            Completion::ok("DEFLATE active")
        }
        (Pending::Quota, Reply::Quota(figures)) if !figures.is_limited() => no_such_root(),
        (Pending::Quota, Reply::Quota(figures)) => {
            quota::write(out, &figures);
            Completion::ok("GETQUOTA completed")
        }
        (Pending::QuotaRoot(mailbox), Reply::Quota(figures)) => {
            quota::write_root(out, &mailbox, &figures);
            Completion::ok("GETQUOTAROOT completed")
        }
        _ => Completion::server_bug(),
    })
}

fn no_such_root() -> Completion {
    Completion::no("NONEXISTENT", "No such quota root")
}

fn status(mailboxes: Vec<MailboxName>, items: &[StatusItem]) -> Effect {
    let (recent, deleted) = (items.contains(&StatusItem::Recent), items.contains(&StatusItem::Deleted));
    Effect::Status { mailboxes, recent, deleted }
}

fn write_statuses(
    session: &mut Session,
    items: &[StatusItem],
    statuses: &[(MailboxName, crate::server::MailboxStatus)],
) {
    let append_limit = session.config.limits.max_message as u64;
    for (mailbox, figures) in statuses {
        status::write(&mut session.out, mailbox, items, figures, append_limit);
    }
}
