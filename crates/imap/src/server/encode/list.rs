//! LIST and LSUB responses: the selected names and their attributes.

use std::collections::{BTreeMap, BTreeSet};

use crate::mailbox::{DELIMITER, MailboxName};
use crate::server::command::ListQuery;
use crate::token::Writer;

/// The purpose of a mailbox (RFC 6154).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialUse {
    /// `\All`
    All,
    /// `\Archive`
    Archive,
    /// `\Drafts`
    Drafts,
    /// `\Flagged`
    Flagged,
    /// `\Junk`
    Junk,
    /// `\Sent`
    Sent,
    /// `\Trash`
    Trash,
}

impl SpecialUse {
    /// The purpose with this attribute; case is ignored.
    pub fn named(attribute: &str) -> Option<Self> {
        let known = [Self::All, Self::Archive, Self::Drafts, Self::Flagged, Self::Junk, Self::Sent, Self::Trash];
        known.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(attribute))
    }

    /// Whether it is a mailbox of its own. `\All` and `\Flagged` would show the messages of others.
    pub(crate) const fn has_messages(self) -> bool {
        !matches!(self, Self::All | Self::Flagged)
    }

    /// The attribute as written, with its backslash.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "\\All",
            Self::Archive => "\\Archive",
            Self::Drafts => "\\Drafts",
            Self::Flagged => "\\Flagged",
            Self::Junk => "\\Junk",
            Self::Sent => "\\Sent",
            Self::Trash => "\\Trash",
        }
    }
}

/// A mailbox of the account, or a subscribed name without a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its name.
    pub name: MailboxName,
    /// False for a subscription whose mailbox was deleted.
    pub exists: bool,
    /// Whether the user subscribed to it.
    pub subscribed: bool,
    /// Its purpose.
    pub special_use: Option<SpecialUse>,
}

/// One response line.
struct Entry<'a> {
    name: &'a MailboxName,
    folder: Option<&'a Folder>,
    child_info: bool,
}

/// Writes the lines of the selected names. Returns the mailboxes among them that exist, for `RETURN (STATUS ...)`.
pub(in crate::server) fn write(writer: &mut Writer, query: &ListQuery, folders: &[Folder]) -> Vec<MailboxName> {
    let tree = Tree::new(folders);
    let mut existing = Vec::new();
    for entry in tree.select(query, folders) {
        write_entry(writer, query, &entry, &tree);
        if entry.folder.is_some_and(|folder| folder.exists) {
            existing.push(entry.name.clone());
        }
    }
    existing
}

/// Writes the response to `LIST "" ""`.
pub(in crate::server) fn write_delimiter(writer: &mut Writer, lsub: bool) {
    writer.raw(if lsub { "* LSUB" } else { "* LIST" });
    writer.raw(&format!(" (\\Noselect) \"{DELIMITER}\" \"\"")).crlf();
}

/// All names and their parents. A parent need not exist as a mailbox.
struct Tree<'a> {
    names: BTreeMap<MailboxName, Option<&'a Folder>>,
    with_children: BTreeSet<MailboxName>,
}

impl<'a> Tree<'a> {
    fn new(folders: &'a [Folder]) -> Self {
        let mut names = BTreeMap::new();
        let mut with_children = BTreeSet::new();
        for folder in folders {
            names.insert(folder.name.clone(), Some(folder));
        }
        for folder in folders {
            for parent in folder.name.parents() {
                names.entry(parent.clone()).or_insert(None);
                if folder.exists {
                    with_children.insert(parent);
                }
            }
        }
        Self { names, with_children }
    }

    fn select(&self, query: &ListQuery, folders: &[Folder]) -> Vec<Entry<'_>> {
        let children = parents_to_show(query, folders);
        let entries = self.names.iter().filter(|(name, _)| matches(query, name));
        entries
            .filter_map(|(name, &folder)| {
                let has_selected_child = children.contains(name);
                // Without selection options, a missing parent of a mailbox is listed as well, as \NonExistent.
                let shown =
                    is_selected(query, folder) || has_selected_child || (is_plain(query) && self.leads_somewhere(name));
                let child_info = query.recursive_match && has_selected_child;
                shown.then_some(Entry { name, folder, child_info })
            })
            .collect()
    }

    fn leads_somewhere(&self, name: &MailboxName) -> bool {
        self.with_children.contains(name)
    }
}

fn is_plain(query: &ListQuery) -> bool {
    !query.only_subscribed && !query.only_special_use
}

fn matches(query: &ListQuery, name: &MailboxName) -> bool {
    query.patterns.iter().any(|pattern| pattern.matches(name))
}

/// Whether the selection options select this name.
fn is_selected(query: &ListQuery, folder: Option<&Folder>) -> bool {
    let Some(folder) = folder else { return false };
    let exists = folder.exists || query.only_subscribed;
    let subscribed = folder.subscribed || !query.only_subscribed;
    let special = folder.special_use.is_some() || !query.only_special_use;
    exists && subscribed && special
}

/// Parents to show because a name below them is selected but does not match itself. This applies to RECURSIVEMATCH
/// (RFC 5258 section 3.5), and to LSUB with `%` (RFC 3501 section 6.3.9).
fn parents_to_show(query: &ListQuery, folders: &[Folder]) -> BTreeSet<MailboxName> {
    let selected = folders.iter().filter(|folder| is_selected(query, Some(folder)));
    let below = selected.filter(|folder| (query.recursive_match || query.lsub) && !matches(query, &folder.name));
    below.flat_map(|folder| folder.name.parents()).collect()
}

fn write_entry(writer: &mut Writer, query: &ListQuery, entry: &Entry<'_>, tree: &Tree<'_>) {
    writer.raw(if query.lsub { "* LSUB " } else { "* LIST " });
    writer.list(attributes(query, entry, tree), |writer, attribute| {
        writer.raw(attribute);
    });
    writer.raw(&format!(" \"{DELIMITER}\" ")).mailbox(entry.name);
    if entry.child_info {
        let mut selected_by = Vec::new();
        selected_by.extend(query.only_subscribed.then_some("\"SUBSCRIBED\""));
        selected_by.extend(query.only_special_use.then_some("\"SPECIAL-USE\""));
        writer.raw(" (\"CHILDINFO\" ").list(selected_by, |writer, word| {
            writer.raw(word);
        });
        writer.raw(")");
    }
    writer.crlf();
}

fn attributes(query: &ListQuery, entry: &Entry<'_>, tree: &Tree<'_>) -> Vec<&'static str> {
    let exists = entry.folder.is_some_and(|folder| folder.exists);
    let subscribed = entry.folder.is_some_and(|folder| folder.subscribed);
    if query.lsub {
        // In LSUB, \Noselect marks a parent that is not subscribed itself (RFC 3501 section 6.3.9).
        return if subscribed { vec![] } else { vec!["\\Noselect"] };
    }
    let mut attributes = Vec::new();
    if !exists {
        attributes.push("\\NonExistent");
        // \NonExistent implies \Noselect (RFC 5258 section 3), but a client that sent the basic form may not
        // support it.
        attributes.extend((!query.extended).then_some("\\Noselect"));
    }
    attributes.push(if tree.leads_somewhere(entry.name) { "\\HasChildren" } else { "\\HasNoChildren" });
    if query.return_subscribed && subscribed {
        attributes.push("\\Subscribed");
    }
    attributes.extend(entry.folder.and_then(|folder| folder.special_use).map(SpecialUse::as_str));
    attributes
}
