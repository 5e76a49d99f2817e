//! The folders of a mailbox at any IMAP server, under the names that they get here.

use std::collections::HashSet;

use mailapi_imap::client::{ListedFolder, Namespace, Namespaces};
use mailapi_model::FolderName;

/// A folder of the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFolder {
    /// Its name with `/` between levels and without the prefix of the user's namespace; an error with the server's name if
    /// no folder here can have it.
    pub name: Result<FolderName, String>,
    /// Its whole name at the server with `/` between levels, which identifies its messages in later imports.
    pub source_name: String,
    /// What kind of folder it is.
    pub kind: RemoteFolderKind,
    /// Its special use, such as `\Sent` (RFC 6154 section 2).
    pub special_use: Option<&'static str>,
    /// Its decoded name as the server writes it.
    pub wire_name: String,
}

/// The kinds of folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteFolderKind {
    /// The user's own messages.
    Own,
    /// Messages of other folders as well, such as `\All` (RFC 6154 section 2).
    Virtual,
    /// Messages of other users.
    Foreign,
}

/// The special uses of folders that hold messages of their own.
const SPECIAL_USES: [&str; 5] = ["\\Sent", "\\Drafts", "\\Junk", "\\Trash", "\\Archive"];

/// The special uses of folders that show messages of others.
const VIRTUAL_USES: [&str; 3] = ["\\All", "\\Flagged", "\\Important"];

impl RemoteFolder {
    /// Returns the folders of a listing that can be opened.
    pub(super) fn of_listing(listing: Vec<ListedFolder>, namespaces: &Namespaces) -> Vec<Self> {
        let opens = |folder: &ListedFolder| !folder.has("\\Noselect") && !folder.has("\\NonExistent");
        let mut folders: Vec<_> =
            listing.into_iter().filter(opens).map(|folder| Self::of(folder, namespaces)).collect();
        // Names that are unchanged come first: another folder may not take them.
        let is_unchanged = |folder: &Self| folder.name.as_ref().is_ok_and(|name| name.as_str() == folder.source_name);
        let mut taken: HashSet<FolderName> = HashSet::from([FolderName::inbox()]);
        taken
            .extend(folders.iter().filter(|folder| is_unchanged(folder)).filter_map(|folder| folder.name.clone().ok()));
        for folder in folders.iter_mut().filter(|folder| !is_unchanged(folder)) {
            let is_inbox = folder.wire_name.eq_ignore_ascii_case("INBOX");
            if let Ok(name) = &folder.name
                && !is_inbox
                && !taken.insert(name.clone())
            {
                folder.name = named(&folder.source_name, &folder.wire_name);
            }
        }
        folders
    }

    fn of(listed: ListedFolder, namespaces: &Namespaces) -> Self {
        let used = |uses: &[&'static str]| uses.iter().find(|special_use| listed.has(special_use)).copied();
        let special_use = used(&SPECIAL_USES);
        let Some(wire_name) = listed.name.clone() else {
            let name = Err(listed.written.clone());
            let kind = RemoteFolderKind::Own;
            return Self { name, source_name: listed.written.clone(), kind, special_use, wire_name: listed.written };
        };
        let (place, is_own) = place_of(&wire_name, namespaces);
        let kind = match () {
            () if !is_own => RemoteFolderKind::Foreign,
            () if used(&VIRTUAL_USES).is_some() => RemoteFolderKind::Virtual,
            () => RemoteFolderKind::Own,
        };
        let with_slashes = |name: &str| match listed.separator {
            Some(separator) => name.replace(separator, "/"),
            None => name.to_owned(),
        };
        let source_name = with_slashes(&wire_name);
        let prefix = place.filter(|_| is_own).map_or(0, |namespace| namespace.prefix.len());
        let name = named(&with_slashes(&wire_name[prefix..]), &wire_name);
        Self { name, source_name, kind, special_use, wire_name }
    }
}

/// Returns the prefixes of namespaces of which no folder is listed.
pub(super) fn unlisted(namespaces: &Namespaces, listing: &[ListedFolder]) -> Vec<String> {
    let Namespaces { personal, others, shared } = namespaces;
    let is_listed = |namespace: &Namespace| {
        listing.iter().filter_map(|folder| folder.name.as_ref()).any(|name| begins(name, namespace))
    };
    let all = [personal, others, shared].into_iter().flatten();
    all.filter(|namespace| !namespace.prefix.is_empty() && !is_listed(namespace))
        .map(|one| one.prefix.clone())
        .collect()
}

fn named(name: &str, wire_name: &str) -> Result<FolderName, String> {
    name.parse().map_err(|_| wire_name.to_owned())
}

/// Returns the namespace with the longest prefix of a name, and whether it is the user's. INBOX is always the user's, and
/// so is every name if the server has no namespaces.
fn place_of<'a>(name: &str, namespaces: &'a Namespaces) -> (Option<&'a Namespace>, bool) {
    if name.eq_ignore_ascii_case("INBOX") {
        return (None, true);
    }
    let owned = [(&namespaces.personal, true), (&namespaces.others, false), (&namespaces.shared, false)];
    let all = owned.into_iter().flat_map(|(list, is_own)| list.iter().map(move |namespace| (namespace, is_own)));
    // Of equal prefixes, that of the user counts.
    let best = all
        .filter(|(namespace, _)| begins(name, namespace))
        .max_by_key(|(namespace, is_own)| (namespace.prefix.len(), *is_own));
    best.map_or((None, true), |(namespace, is_own)| (Some(namespace), is_own))
}

/// Returns whether the name is in the namespace. The first level `INBOX` has any case (RFC 3501 section 5.1).
fn begins(name: &str, namespace: &Namespace) -> bool {
    let prefix = &namespace.prefix;
    name.len() > prefix.len()
        && name.get(..prefix.len()).is_some_and(|start| {
            start == prefix || (prefix.to_ascii_uppercase().starts_with("INBOX") && start.eq_ignore_ascii_case(prefix))
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(name: &str, attribute: &str) -> ListedFolder {
        let (attributes, separator) = (vec![attribute.to_owned()], Some('.'));
        ListedFolder { attributes, separator, name: Some(name.to_owned()), written: name.to_owned() }
    }

    fn namespaces(personal: &str, others: &str, shared: &str) -> Namespaces {
        let list = |prefix: &str| vec![Namespace { prefix: prefix.to_owned(), separator: Some('.') }];
        Namespaces { personal: list(personal), others: list(others), shared: list(shared) }
    }

    fn shown(names: &[&str], namespaces: &Namespaces) -> Vec<(String, RemoteFolderKind)> {
        let listing = names.iter().map(|name| listed(name, "")).collect();
        let folders = RemoteFolder::of_listing(listing, namespaces).into_iter();
        folders.map(|folder| (folder.name.map_or_else(|name| name, |name| name.to_string()), folder.kind)).collect()
    }

    #[test]
    fn closed_folders_are_left_out_and_bad_names_are_shown() {
        let unreadable = ListedFolder { name: None, ..listed("Gr\u{fffd}n", "") };
        let listing = vec![listed("a", "\\noselect"), listed("b", "\\NonExistent"), unreadable, listed("c..d", "")];
        let folders = RemoteFolder::of_listing(listing, &Namespaces::default());
        let names: Vec<_> = folders.into_iter().map(|folder| folder.name.unwrap_err()).collect();
        assert_eq!(names, ["Gr\u{fffd}n", "c..d"]);
    }

    #[test]
    fn the_prefix_of_the_user_is_left_out() {
        use RemoteFolderKind::{Foreign, Own};
        let cyrus = namespaces("INBOX.", "user.", "");
        let names = ["INBOX", "INBOX.Sent", "Inbox.Work.2026", "user.bob.Sent", "news"];
        let expected =
            [("INBOX", Own), ("Sent", Own), ("Work/2026", Own), ("user/bob/Sent", Foreign), ("news", Foreign)];
        assert_eq!(shown(&names, &cyrus), expected.map(|(name, kind)| (name.to_owned(), kind)));
        let plain = namespaces("", "Other Users.", "Shared.");
        let expected = [("Sent", Own), ("Shared/x", Foreign), ("Shared", Own)];
        assert_eq!(
            shown(&["Sent", "Shared.x", "Shared"], &plain),
            expected.map(|(name, kind)| (name.to_owned(), kind))
        );
        assert_eq!(shown(&["INBOX.Sent"], &Namespaces::default()), [("INBOX/Sent".to_owned(), Own)]);
    }

    #[test]
    fn namespaces_without_a_listed_folder_are_found() {
        let listing = [listed("INBOX", ""), listed("INBOX.Sent", ""), listed("user", "\\Noselect")];
        assert_eq!(unlisted(&namespaces("INBOX.", "user.", "#shared."), &listing), ["user.", "#shared."]);
        assert!(unlisted(&namespaces("inbox.", "", ""), &listing).is_empty());
    }

    #[test]
    fn two_folders_do_not_get_one_name() {
        let both = namespaces("INBOX.", "", "");
        let names: Vec<_> =
            shown(&["INBOX", "INBOX.inbox", "INBOX.a", "INBOX.a"], &both).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["INBOX", "INBOX/inbox", "a", "INBOX/a"]);
    }

    #[test]
    fn special_uses_are_read() {
        let folders = vec![listed("Sent Items", "\\sent"), listed("Everything", "\\All"), listed("a", "\\HasChildren")];
        let folders = RemoteFolder::of_listing(folders, &Namespaces::default());
        let kinds: Vec<_> = folders.iter().map(|folder| (folder.kind, folder.special_use)).collect();
        use RemoteFolderKind::{Own, Virtual};
        assert_eq!(kinds, [(Own, Some("\\Sent")), (Virtual, None), (Own, None)]);
    }

    proptest! {
        #[test]
        fn any_listing_has_names_of_its_own(
            names in prop::collection::btree_set("(INBOX|inbox|a|b|user|\u{fc}|\\PC)(\\.(INBOX|a|b)){0,2}", 0..8),
            prefixes in prop::array::uniform3("(INBOX|inbox|user|\u{fc})?\\.?"),
        ) {
            let [personal, others, shared] = prefixes;
            let listing = names.iter().map(|name| listed(name, "")).collect();
            let folders = RemoteFolder::of_listing(listing, &namespaces(&personal, &others, &shared));
            prop_assert_eq!(folders.len(), names.len());
        }
    }
}
