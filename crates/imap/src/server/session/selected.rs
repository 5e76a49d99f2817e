//! Commands that require a selected mailbox: those on messages.

use std::convert::Infallible;

use super::completion::Completion;
use super::effect::{Effect, Failure, FetchRequest, Reply};
use super::{Flow, Phase, Session};
use crate::server::MessageSource;
use crate::server::command::{
    Command, FetchItem, FetchModifiers, MessageSet, SearchCommand, SearchKey, SearchReturn, SearchSet, SortCommand,
    SortCriterion, StoreAction, ThreadAlgorithm, ThreadCommand, UidRanges,
};
use crate::server::encode::fetch::{self, Changed};
use crate::server::encode::select::{self, Enabled};
use crate::server::encode::{search, thread};
use crate::server::ordering;
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
    Search { uid: bool, results: Option<SearchReturn>, modseq: bool },
    /// SORT.
    Sort { uid: bool, results: Option<SearchReturn>, modseq: bool, criteria: Vec<SortCriterion> },
    /// THREAD.
    Thread { uid: bool, algorithm: ThreadAlgorithm },
    /// FETCH.
    Fetch { uid: bool, items: Vec<FetchItem>, missing: usize, is_undecodable: bool },
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
            Self::Search { uid, .. } | Self::Sort { uid, .. } | Self::Thread { uid, .. } => !uid,
            Self::Fetch { uid, .. } | Self::Store { uid, .. } => !uid,
            _ => false,
        }
    }

    /// Whether the command removes messages. Its client learns the new HIGHESTMODSEQ (RFC 7162 section 3.2.7).
    pub(super) const fn removes(&self) -> bool {
        matches!(self, Self::Expunge | Self::Copy { remove: true, .. })
    }

    /// Writes one message of a FETCH.
    pub(super) fn write_message(
        &mut self,
        out: &mut Writer,
        view: &mut SelectedView,
        message: &dyn MessageSource,
        enabled: Enabled,
    ) {
        let Self::Fetch { items, missing, is_undecodable, .. } = self else { return };
        // A message outside the view has no sequence number.
        let Some(number) = view.number_of(message.uid()) else { return };
        *missing = missing.saturating_sub(1);
        *is_undecodable |= fetch::is_undecodable(items, message);
        let news = view.flags_of(message.uid()) != Some(message.flags());
        let is_recent = view.is_recent(message.uid());
        let keywords = view.set_flags(message.uid(), message.flags().clone(), message.modseq());
        select::write_changes(out, keywords.as_slice(), enabled);
        if !news {
            return fetch::write(out, number, items, message, is_recent);
        }
        // The flags changed, for example `\Seen` by this FETCH, so the response must include them.
        let due = [(FetchItem::Flags, true), (FetchItem::Modseq, enabled.condstore)];
        let due = due.into_iter().filter(|(item, is_due)| *is_due && !items.contains(item)).map(|(item, _)| item);
        let with_news: Vec<FetchItem> = items.iter().cloned().chain(due).collect();
        fetch::write(out, number, &with_news, message, is_recent);
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
        // All strings are UTF-8 then (RFC 6855 section 3).
        Command::Search(SearchCommand { charset: true, .. }) if session.enabled.utf8 => {
            Flow::Complete(Completion::bad("CHARSET is not allowed with UTF8=ACCEPT"))
        }
        Command::Search(mut command) => {
            // IMAP4rev2 has no SEARCH response (RFC 9051 section 6.4.4).
            let all = SearchReturn { all: true, ..SearchReturn::default() };
            command.results = command.results.or_else(|| session.enabled.rev2.then_some(all));
            run_search(view, command)
        }
        Command::Sort(command) => run_sort(view, command),
        Command::Thread(command) => run_thread(view, command),
        Command::Fetch { modifiers: FetchModifiers { vanished: true, .. }, messages, .. }
            if !session.enabled.qresync || !messages.uid =>
        {
            Flow::Complete(Completion::bad("VANISHED needs UID FETCH and QRESYNC"))
        }
        Command::Fetch { messages, items, modifiers } => run_fetch(view, &messages, items, modifiers),
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

fn on_view(view: &SelectedView, key: SearchKey<SearchSet>) -> SearchKey {
    let uids = |set| match set {
        SearchSet::Set(set) => view.existing(&set),
        SearchSet::Recent => view.recent().clone(),
    };
    let Ok(key) = key.map_messages(&|set| Ok::<_, Infallible>(uids(set)));
    key
}

fn run_sort(view: &SelectedView, SortCommand { uid, results, criteria, key }: SortCommand) -> Flow {
    let key = on_view(view, key);
    let modseq = key.uses_modseq();
    let with_header = criteria.iter().any(|criterion| criterion.key.needs_header());
    wait(Effect::Order { folder: view.folder(), key, with_header }, Pending::Sort { uid, results, modseq, criteria })
}

fn run_thread(view: &SelectedView, ThreadCommand { uid, algorithm, key }: ThreadCommand) -> Flow {
    let key = on_view(view, key);
    wait(Effect::Order { folder: view.folder(), key, with_header: true }, Pending::Thread { uid, algorithm })
}

fn run_search(view: &SelectedView, SearchCommand { uid, results, key, .. }: SearchCommand) -> Flow {
    let key = on_view(view, key);
    let modseq = key.uses_modseq();
    wait(Effect::Search { folder: view.folder(), key }, Pending::Search { uid, results, modseq })
}

fn run_fetch(view: &SelectedView, messages: &MessageSet, mut items: Vec<FetchItem>, modifiers: FetchModifiers) -> Flow {
    // UID FETCH always returns UIDs (RFC 3501 section 6.4.8).
    if messages.uid && !items.contains(&FetchItem::Uid) {
        items.insert(0, FetchItem::Uid);
    }
    let FetchModifiers { changed_since, vanished } = modifiers;
    // CHANGEDSINCE implies MODSEQ (RFC 7162 section 3.1.4.1).
    if changed_since.is_some() && !items.contains(&FetchItem::Modseq) {
        items.push(FetchItem::Modseq);
    }
    let fetch = |uids: Vec<u32>, vanished| {
        // With CHANGEDSINCE, a message without a response need not be missing.
        let missing = if changed_since.is_some() { 0 } else { uids.len() };
        let pending = Pending::Fetch { uid: messages.uid, items: items.clone(), missing, is_undecodable: false };
        let request = FetchRequest::new(uids, items, view.is_read_only(), changed_since, vanished);
        wait(Effect::Fetch { folder: view.folder(), request }, pending)
    };
    if !vanished {
        return on_uids(view, messages, |uids| fetch(uids, None));
    }
    match view.resolve(messages) {
        Err(error) => Flow::Complete(Completion::bad(error.0)),
        // The last messages may be the removed ones, so `*` stands for all UIDs here.
        Ok(ranges) => fetch(view.uids_in(&ranges), Some(UidRanges::from_ranges(messages.set.resolve(u32::MAX)))),
    }
}

fn run_store(view: &SelectedView, messages: &MessageSet, action: StoreAction) -> Flow {
    on_uids(view, messages, |uids| {
        let change = action.change.clone();
        let unchanged_since = action.unchanged_since;
        let pending = Pending::Store { uid: messages.uid, action, missing: uids.len() };
        wait(Effect::Store { folder: view.folder(), uids, change, unchanged_since }, pending)
    })
}

pub(super) fn finish(session: &mut Session, tag: &str, pending: Pending, result: Result<Reply, Failure>) -> Completion {
    let reply = match result {
        Ok(reply) => reply,
        Err(failure) if matches!(pending, Pending::Copy { may_be_new: true, .. }) => {
            return Completion::from_storing(failure);
        }
        Err(failure) => {
            if saves(&pending) {
                forget_saved(session);
            }
            return failure.into();
        }
    };
    if let (Pending::Close, Reply::Expunged(_)) = (&pending, &reply) {
        session.phase = Phase::Authenticated;
        return Completion::ok("Mailbox closed");
    }
    let enabled = session.enabled;
    let Phase::Selected(view) = &mut session.phase else { return Completion::server_bug() };
    let out = &mut session.out;
    match (pending, reply) {
        (Pending::Refresh, Reply::Done) => Completion::ok("Done"),
        (Pending::Expunge, Reply::Expunged(uids)) => {
            view.expunge(uids);
            Completion::ok("EXPUNGE completed")
        }
        (Pending::Search { uid, results, modseq }, Reply::Found(mut uids)) => {
            uids.sort_unstable();
            uids.dedup();
            write_found(out, view, tag, &Wanted { uid, results, modseq, name: "SEARCH" }, uids);
            Completion::ok("SEARCH completed")
        }
        (Pending::Sort { uid, results, modseq, criteria }, Reply::Facts(facts)) => {
            let wanted = Wanted { uid, results, modseq, name: "SORT" };
            write_found(out, view, tag, &wanted, ordering::sort(&facts, &criteria));
            Completion::ok("SORT completed")
        }
        (Pending::Thread { uid, algorithm }, Reply::Facts(mut facts)) => {
            facts.retain(|facts| view.number_of(facts.uid).is_some());
            let (threads, roots) = ordering::thread(&facts, algorithm);
            let number = |found| if uid { Some(found) } else { view.number_of(found) };
            thread::write(out, &threads, &roots, number);
            Completion::ok("THREAD completed")
        }
        (Pending::Fetch { is_undecodable: true, .. }, Reply::Done) => {
            Completion::no("UNKNOWN-CTE", "Unknown transfer encoding")
        }
        (Pending::Fetch { uid, missing, .. }, Reply::Done) => completed("FETCH completed", uid, missing),
        (Pending::Store { uid, action, missing }, Reply::Stored { entries, modified }) => {
            let missing = missing.saturating_sub(entries.len() + modified.len());
            for entry in entries {
                report_stored(out, view, &action, entry, enabled);
            }
            match modified_code(view, uid, &modified) {
                Some(code) => Completion::ok("Conditional STORE failed for some messages").with_code(code),
                None => completed("STORE completed", uid, missing),
            }
        }
        (Pending::Copy { remove, .. }, Reply::Copied { uid_validity, uids }) => {
            finish_copy(out, view, remove, uid_validity, &uids)
        }
        _ => Completion::server_bug(),
    }
}

/// Completes a command that may have met messages removed by another session. A command by sequence number gets
/// EXPUNGEISSUED (RFC 5530), since its client still counts them. It gets OK, as from Dovecot: nothing failed for the
/// messages that exist (RFC 2180 sections 4.1 and 4.2), and EXPUNGE follows.
fn completed(text: &str, uid: bool, missing: usize) -> Completion {
    if missing > 0 && !uid {
        return Completion::ok("Some messages no longer exist").with_code("EXPUNGEISSUED".to_owned());
    }
    Completion::ok(text)
}

/// The code that lists the messages left as they are, by number or UID as in the command (RFC 7162 section 3.1.3).
fn modified_code(view: &SelectedView, uid: bool, modified: &[u32]) -> Option<String> {
    let numbers: Vec<u32> =
        modified.iter().filter_map(|&found| if uid { Some(found) } else { view.number_of(found) }).collect();
    (!numbers.is_empty()).then(|| format!("MODIFIED {}", SequenceSet::compact(&numbers)))
}

/// What a response to SEARCH or SORT contains.
struct Wanted {
    uid: bool,
    results: Option<SearchReturn>,
    modseq: bool,
    name: &'static str,
}

/// Empties the saved result: a failed search with SAVE leaves none (RFC 5182 section 2.1).
pub(super) fn forget_saved(session: &mut Session) {
    if let Phase::Selected(view) = &mut session.phase {
        view.save(&[]);
    }
}

/// Whether a command was to save its result.
fn saves(pending: &Pending) -> bool {
    let (Pending::Search { results, .. } | Pending::Sort { results, .. }) = pending else { return false };
    results.is_some_and(|results| results.save)
}

/// The UIDs that SAVE keeps: those that MIN and MAX name, or else all (RFC 5182 section 2.1).
fn saved(results: SearchReturn, uids: &[u32]) -> Vec<u32> {
    match results {
        SearchReturn { min, max, count: false, all: false, .. } if min || max => {
            let ends = [uids.first().filter(|_| min), uids.last().filter(|_| max)];
            ends.into_iter().flatten().copied().collect()
        }
        _ => uids.to_vec(),
    }
}

/// Writes the UIDs that are in the view, in the given order.
fn write_found(out: &mut Writer, view: &mut SelectedView, tag: &str, wanted: &Wanted, mut uids: Vec<u32>) {
    uids.retain(|&uid| view.number_of(uid).is_some());
    let modseq = if wanted.modseq { highest_modseq(view, wanted.results, &uids) } else { None };
    if let Some(results) = wanted.results.filter(|results| results.save) {
        view.save(&saved(results, &uids));
    }
    let numbers: Vec<u32> =
        if wanted.uid { uids } else { uids.into_iter().filter_map(|uid| view.number_of(uid)).collect() };
    match wanted.results {
        None => search::write_plain(out, wanted.name, &numbers, modseq),
        // With SAVE alone, the client wants no response (RFC 5182 section 2.1).
        Some(SearchReturn { min: false, max: false, count: false, all: false, .. }) => {}
        Some(results) => search::write_extended(out, tag, wanted.uid, results, &numbers, modseq),
    }
}

/// The highest modification sequence of the messages in the response. MIN and MAX alone name one message each (RFC 4731
/// section 3.2).
fn highest_modseq(view: &SelectedView, results: Option<SearchReturn>, uids: &[u32]) -> Option<u64> {
    let ends = match results {
        Some(SearchReturn { min, max, count: false, all: false, .. }) => {
            [uids.first().filter(|_| min), uids.last().filter(|_| max)]
        }
        _ => return uids.iter().filter_map(|&uid| view.modseq_of(uid)).max(),
    };
    ends.into_iter().flatten().filter_map(|&uid| view.modseq_of(uid)).max()
}

/// Writes the new flags. After `.SILENT`, only if they differ from what the client can compute itself; the modification
/// sequence is written in any case (RFC 7162 section 3.1.3).
fn report_stored(
    out: &mut Writer,
    view: &mut SelectedView,
    action: &StoreAction,
    entry: MessageEntry,
    enabled: Enabled,
) {
    let Some(number) = view.number_of(entry.uid) else { return };
    let expected = view.flags_of(entry.uid).map(|before| action.change.apply(before));
    let keywords = view.set_flags(entry.uid, entry.flags.clone(), entry.modseq);
    select::write_changes(out, keywords.as_slice(), enabled);
    let is_news = !action.silent || expected.as_ref() != Some(&entry.flags);
    let flags = is_news.then(|| (&entry.flags, view.is_recent(entry.uid)));
    let modseq = enabled.condstore.then_some(entry.modseq);
    if flags.is_some() || modseq.is_some() {
        fetch::write_change(out, Changed { number, uid: entry.uid, flags, modseq });
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
