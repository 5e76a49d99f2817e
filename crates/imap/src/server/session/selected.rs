//! Commands that require a selected mailbox: those on messages.

use std::convert::Infallible;

use super::completion::Completion;
use super::effect::{Effect, Failure, FetchRequest, Reply};
use super::{Flow, Phase, Session};
use crate::server::MessageSource;
use crate::server::command::{Command, FetchItem, MessageSet, SearchCommand, SearchReturn, SearchSet, StoreAction};
use crate::server::encode::{fetch, search, select};
use crate::server::view::{MessageEntry, SelectedView};
use crate::token::{SequenceSet, Writer};

/// A command that waits for the host.
pub(super) enum Pending {
    /// NOOP or CHECK.
    Refresh,
    /// EXPUNGE or UID EXPUNGE.
    Expunge,
    /// CLOSE.
    Close,
    /// SEARCH.
    Search { uid: bool, results: Option<SearchReturn> },
    /// FETCH.
    Fetch { uid: bool, items: Vec<FetchItem>, missing: usize },
    /// STORE.
    Store { uid: bool, action: StoreAction, missing: usize },
    /// COPY or MOVE.
    Copy { remove: bool, may_be_new: bool },
}

impl Pending {
    /// Whether the client relies on sequence numbers: EXPUNGE must wait then (RFC 3501 section 7.4.1). The UID
    /// forms do not.
    pub(super) fn keeps_numbers(&self) -> bool {
        match self {
            Self::Search { uid, .. } | Self::Fetch { uid, .. } | Self::Store { uid, .. } => !uid,
            _ => false,
        }
    }

    /// Writes one message of a FETCH.
    pub(super) fn write_message(&mut self, out: &mut Writer, view: &mut SelectedView, message: &dyn MessageSource) {
        let Self::Fetch { items, missing, .. } = self else { return };
        // A message outside the view has no sequence number.
        let Some(number) = view.number_of(message.uid()) else { return };
        *missing = missing.saturating_sub(1);
        let news = view.flags_of(message.uid()) != Some(message.flags());
        let is_recent = view.is_recent(message.uid());
        if let Some(keywords) = view.set_flags(message.uid(), message.flags().clone()) {
            select::write_untagged(out, &keywords);
        }
        if news && !items.contains(&FetchItem::Flags) {
            // The flags changed, for example `\Seen` by this FETCH, so the response must include them.
            let with_flags: Vec<FetchItem> = items.iter().cloned().chain([FetchItem::Flags]).collect();
            return fetch::write(out, number, &with_flags, message, is_recent);
        }
        fetch::write(out, number, items, message, is_recent);
    }
}

pub(super) fn run(session: &mut Session, command: Command) -> Flow {
    let Phase::Selected(view) = &session.phase else {
        return Flow::Complete(Completion::bad("No mailbox is selected"));
    };
    let folder = view.folder();
    match command {
        Command::Noop | Command::Check => wait(Effect::Refresh { folder }, Pending::Refresh),
        Command::Close { expunge: true } if !view.is_read_only() => {
            wait(Effect::Expunge { folder, uids: None }, Pending::Close)
        }
        // Nothing to remove, so the host need not act.
        Command::Close { .. } => {
            session.phase = Phase::Authenticated;
            Flow::Complete(Completion::ok("Mailbox closed"))
        }
        Command::Search(command) => run_search(view, command),
        Command::Fetch { messages, items } => run_fetch(view, &messages, items),
        Command::Expunge(_) | Command::Store { .. } | Command::Copy { remove: true, .. } if view.is_read_only() => {
            Flow::Complete(Completion::no("READ-ONLY", "Mailbox is selected read-only"))
        }
        Command::Expunge(None) => wait(Effect::Expunge { folder, uids: None }, Pending::Expunge),
        Command::Expunge(Some(set)) => match view.resolve(&MessageSet { uid: true, set }) {
            Ok(uids) => wait(Effect::Expunge { folder, uids: Some(uids) }, Pending::Expunge),
            Err(error) => Flow::Complete(Completion::bad(error.0)),
        },
        Command::Store { messages, action } => run_store(view, &messages, action),
        Command::Copy { messages, mailbox, remove } => on_uids(view, &messages, |uids| {
            let pending = Pending::Copy { remove, may_be_new: mailbox.may_be_new() };
            wait(Effect::Copy { folder, uids, to: mailbox, remove }, pending)
        }),
        _ => Flow::Complete(Completion::bad("Command is not allowed in this state")),
    }
}

fn wait(effect: Effect, pending: Pending) -> Flow {
    Flow::Run(effect, super::Pending::Selected(pending))
}

/// Runs a command on the messages of a set. An empty set succeeds without an effect: missing UIDs are not an error
/// (RFC 3501 section 6.4.8).
fn on_uids(view: &SelectedView, messages: &MessageSet, run: impl FnOnce(Vec<u32>) -> Flow) -> Flow {
    match view.resolve(messages).map(|ranges| view.uids_in(&ranges)) {
        Err(error) => Flow::Complete(Completion::bad(error.0)),
        Ok(uids) if uids.is_empty() => Flow::Complete(Completion::ok("No messages matched")),
        Ok(uids) => run(uids),
    }
}

fn run_search(view: &SelectedView, SearchCommand { uid, results, key }: SearchCommand) -> Flow {
    let uids = |set| match set {
        SearchSet::Set(set) => view.existing(&set),
        SearchSet::Recent => view.recent().clone(),
    };
    let Ok(key) = key.map_messages(&|set| Ok::<_, Infallible>(uids(set)));
    wait(Effect::Search { folder: view.folder(), key }, Pending::Search { uid, results })
}

fn run_fetch(view: &SelectedView, messages: &MessageSet, mut items: Vec<FetchItem>) -> Flow {
    // UID FETCH always returns UIDs (RFC 3501 section 6.4.8).
    if messages.uid && !items.contains(&FetchItem::Uid) {
        items.insert(0, FetchItem::Uid);
    }
    on_uids(view, messages, |uids| {
        let pending = Pending::Fetch { uid: messages.uid, items: items.clone(), missing: uids.len() };
        let request = FetchRequest::new(uids, items, view.is_read_only());
        wait(Effect::Fetch { folder: view.folder(), request }, pending)
    })
}

fn run_store(view: &SelectedView, messages: &MessageSet, action: StoreAction) -> Flow {
    on_uids(view, messages, |uids| {
        let change = action.change.clone();
        let pending = Pending::Store { uid: messages.uid, action, missing: uids.len() };
        wait(Effect::Store { folder: view.folder(), uids, change }, pending)
    })
}

pub(super) fn finish(session: &mut Session, tag: &str, pending: Pending, result: Result<Reply, Failure>) -> Completion {
    let reply = match result {
        Ok(reply) => reply,
        Err(failure) if matches!(pending, Pending::Copy { may_be_new: true, .. }) => {
            return Completion::from_storing(failure);
        }
        Err(failure) => return failure.into(),
    };
    if let (Pending::Close, Reply::Expunged(_)) = (&pending, &reply) {
        session.phase = Phase::Authenticated;
        return Completion::ok("Mailbox closed");
    }
    let Phase::Selected(view) = &mut session.phase else { return Completion::server_bug() };
    let out = &mut session.out;
    match (pending, reply) {
        (Pending::Refresh, Reply::Done) => Completion::ok("Done"),
        (Pending::Expunge, Reply::Expunged(uids)) => {
            view.expunge(uids);
            Completion::ok("EXPUNGE completed")
        }
        (Pending::Search { uid, results }, Reply::Found(uids)) => {
            write_found(out, view, tag, uid, results, uids);
            Completion::ok("SEARCH completed")
        }
        (Pending::Fetch { uid, missing, .. }, Reply::Done) => completed("FETCH completed", uid, missing),
        (Pending::Store { uid, action, missing }, Reply::Stored(entries)) => {
            let missing = missing.saturating_sub(entries.len());
            for entry in entries {
                report_stored(out, view, &action, entry);
            }
            completed("STORE completed", uid, missing)
        }
        (Pending::Copy { remove, .. }, Reply::Copied { uid_validity, uids }) => {
            finish_copy(out, view, remove, uid_validity, &uids)
        }
        _ => Completion::server_bug(),
    }
}

/// Completes a command that may have met messages removed by another session. A command by sequence number gets
/// EXPUNGEISSUED (RFC 5530), since its client still counts them.
fn completed(text: &str, uid: bool, missing: usize) -> Completion {
    if missing > 0 && !uid {
        return Completion::no("EXPUNGEISSUED", "Some messages no longer exist");
    }
    Completion::ok(text)
}

fn write_found(
    out: &mut Writer,
    view: &SelectedView,
    tag: &str,
    uid: bool,
    results: Option<SearchReturn>,
    mut uids: Vec<u32>,
) {
    uids.sort_unstable();
    uids.dedup();
    let numbers =
        uids.into_iter().filter_map(|found| view.number_of(found).map(|number| if uid { found } else { number }));
    let numbers: Vec<u32> = numbers.collect();
    match results {
        None => search::write_plain(out, &numbers),
        Some(wanted) => search::write_extended(out, tag, uid, wanted, &numbers),
    }
}

/// Writes the new flags. After `.SILENT`, only if they differ from what the client can compute itself.
fn report_stored(out: &mut Writer, view: &mut SelectedView, action: &StoreAction, entry: MessageEntry) {
    let Some(number) = view.number_of(entry.uid) else { return };
    let expected = view.flags_of(entry.uid).map(|before| action.change.apply(before));
    if let Some(keywords) = view.set_flags(entry.uid, entry.flags.clone()) {
        select::write_untagged(out, &keywords);
    }
    if !action.silent || expected.as_ref() != Some(&entry.flags) {
        fetch::write_flags(out, number, entry.uid, &entry.flags, view.is_recent(entry.uid));
    }
}

fn finish_copy(
    out: &mut Writer,
    view: &mut SelectedView,
    remove: bool,
    uid_validity: u32,
    uids: &[(u32, u32)],
) -> Completion {
    let completion = Completion::ok(if remove { "MOVE completed" } else { "COPY completed" });
    if uids.is_empty() {
        return completion;
    }
    let (from, to): (Vec<u32>, Vec<u32>) = uids.iter().copied().unzip();
    let code = format!("COPYUID {uid_validity} {} {}", SequenceSet::compact(&from), SequenceSet::compact(&to));
    if !remove {
        return completion.with_code(code);
    }
    // For MOVE, the code must precede the EXPUNGE responses (RFC 6851 section 4.3).
    out.raw("* OK [").raw(&code).raw("] Moved").crlf();
    view.expunge(from);
    completion
}
