//! The folders that receive those of an IMAP server.

use mailapi_backend_embedded::message_store::Folder;
use mailapi_backend_external::imap_pool::{RemoteFolder, RemoteFolderKind};
use mailapi_model::FolderName;

use super::report::Report;
use super::special_folders::{prepare, usual_name};
use super::{Chosen, Target};
use crate::failure::Outcome;

/// A folder to import.
pub(super) struct Wanted {
    pub(super) folder: RemoteFolder,
    /// Its name at the server, for reports.
    pub(super) shown: FolderName,
    /// Its name here.
    pub(super) name: FolderName,
}

/// Returns the folders to import: INBOX, then the others by name. All others are reported.
pub(super) async fn wanted(
    target: &Target<'_>,
    folders: Vec<RemoteFolder>,
    chosen: &Chosen,
    report: &mut Report,
) -> Outcome<Vec<Wanted>> {
    let mut named = Vec::new();
    for folder in folders {
        match &folder.name {
            Ok(name) => named.push((name.clone(), folder)),
            Err(name) => report.lost_folder(name, &"no folder can have this name")?,
        }
    }
    named.sort_by_key(|(name, _)| (*name != FolderName::inbox(), name.clone()));
    chosen.check(named.iter().map(|(name, _)| name))?;
    let mut wanted = Vec::new();
    let all: Vec<FolderName> = named.iter().map(|(name, _)| name.clone()).collect();
    for (name, folder) in named.into_iter().filter(|(name, _)| chosen.includes(name)) {
        let reason = match folder.kind {
            _ if chosen.names(&name) => None,
            RemoteFolderKind::Own => None,
            RemoteFolderKind::Virtual => Some("it shows messages of other folders"),
            RemoteFolderKind::Foreign => Some("it belongs to other users"),
        };
        match reason {
            Some(reason) => report.left(name.as_str(), &format!("{reason}; --folder \"{name}\" imports it"))?,
            None => wanted.push(Wanted { folder, shown: name.clone(), name }),
        }
    }
    rename(&mut wanted, &all, &target.store.list_folders(target.email).await?);
    for Wanted { folder, shown, name } in &wanted {
        if name != shown {
            report.note(&format!("{shown}: imported as {name}"))?;
        }
        if let Some(special_use) = folder.special_use.filter(|_| *name != FolderName::inbox()) {
            prepare(target, name, special_use).await?;
        }
    }
    Ok(wanted)
}

/// Gives folders with a special use the names of those here, and those below them as well.
fn rename(wanted: &mut [Wanted], all: &[FolderName], here: &[Folder]) {
    let mut renamed: Vec<(FolderName, FolderName)> = Vec::new();
    for one in wanted.iter() {
        let Some(special_use) = one.folder.special_use else { continue };
        let own = here.iter().find(|folder| folder.special_use.as_deref() == Some(special_use));
        let Some(name) = own.map(|folder| folder.name.clone()).or_else(|| usual_name(special_use)) else { continue };
        // Two folders do not become one: they have UIDs of their own.
        if one.shown != FolderName::inbox() && !all.contains(&name) && renamed.iter().all(|(_, taken)| *taken != name) {
            renamed.push((one.shown.clone(), name));
        }
    }
    for one in wanted {
        let new = renamed.iter().find_map(|(from, to)| {
            let rest = one.shown.as_str().strip_prefix(from.as_str())?;
            let is_below = rest.is_empty() || rest.starts_with('/');
            format!("{to}{rest}").parse().ok().filter(|name| is_below && !all.contains(name))
        });
        if let Some(new) = new {
            one.name = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_folders_get_the_names_of_those_here() {
        let folder = |name: &str, special_use| Wanted {
            folder: RemoteFolder {
                name: Ok(name.parse().unwrap()),
                source_name: name.to_owned(),
                kind: RemoteFolderKind::Own,
                special_use,
                wire_name: name.to_owned(),
            },
            shown: name.parse().unwrap(),
            name: name.parse().unwrap(),
        };
        let renamed = |folders: &[(&str, Option<&'static str>)]| {
            let mut wanted: Vec<_> = folders.iter().map(|(name, special_use)| folder(name, *special_use)).collect();
            let all: Vec<_> = wanted.iter().map(|one| one.shown.clone()).collect();
            rename(&mut wanted, &all, &[]);
            wanted.into_iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
        };
        let (sent, trash) = (Some("\\Sent"), Some("\\Trash"));
        let folders = [("Sent Items", sent), ("Sent Items/2024", None), ("Sent Itemsx", None), ("Deleted", trash)];
        assert_eq!(renamed(&folders), ["Sent", "Sent/2024", "Sent Itemsx", "Trash"]);
        assert_eq!(renamed(&[("Sent Items", sent), ("Sent", None)]), ["Sent Items", "Sent"]);
        assert_eq!(renamed(&[("a", sent), ("b", sent)]), ["Sent", "b"]);
    }
}
