//! The identity in which a command works.
//!
//! The owner of the data directory can replace each name in it by a link, also while a command of root runs. SQLite and
//! other libraries open files by their paths. So a command of root that needs no other right takes the identity of that
//! owner before it opens anything there, and can then do nothing that the owner could not do alone.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::system::{ServiceUser, os_user};

/// Number of root.
const ROOT: u32 = 0;
/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// Whose rights a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Those of the owner of the data directory.
    OfOwner,
    /// Those of its caller: it reads or writes other places that the caller names. It uses the data directory by the rules
    /// of `mailapi-files`.
    OfCaller,
    /// Those of the owner, and it must be started with them: a server also opens ports and reads keys.
    StartedByOwner,
}

impl Identity {
    /// Takes the identity, before the process has a second thread.
    pub(crate) fn take(self, data_dir: &Path) -> Outcome {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let path = std::path::absolute(data_dir)?;
        let link_owner = foreign_link(&path)?;
        // A missing directory is created for the owner of the nearest one above it.
        let owner = path.ancestors().find_map(|path| path.metadata().ok()).filter(|owner| owner.uid() != ROOT);
        let Some(owner) = owner.as_ref().or(link_owner.as_ref()) else { return Ok(()) };
        let user = ServiceUser::with_id(owner.uid(), owner.gid());
        let shown = path.display();
        match self {
            Self::OfOwner => become_user(&user),
            Self::OfCaller if link_owner.is_none() => Ok(()),
            Self::OfCaller => Err(Failure::new(format!(
                "the data directory {shown} is reached by a symbolic link of {}, who could let it lead anywhere",
                user.shown()
            ))),
            // The first start of a clone or a container, whose folder often belongs to another user. The directory that it
            // creates is root's.
            Self::StartedByOwner if link_owner.is_none() && !path.exists() => Ok(()),
            Self::StartedByOwner => Err(Failure::new(format!(
                "the data directory {shown} belongs to {}; start the server as that user, not as root: with `User=` in \
                 its unit, or `--user {}:{}` of its container",
                user.shown(),
                user.uid,
                user.gid
            ))),
        }
    }
}

/// Returns the first symbolic link on the way to a path that belongs to another user than root.
fn foreign_link(path: &Path) -> io::Result<Option<Metadata>> {
    let mut rest = path.to_owned();
    for _ in 0..MOST_LINKS {
        // With a slash at its end, the path would mean the target of its last link.
        rest = rest.components().collect();
        let is_link = |path: &&Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let prefixes: Vec<&Path> = rest.ancestors().collect();
        let Some(link) = prefixes.into_iter().rev().find(is_link).map(Path::to_owned) else { return Ok(None) };
        let found = link.symlink_metadata()?;
        if found.uid() != ROOT {
            return Ok(Some(found));
        }
        let target = link.parent().unwrap_or(&link).join(link.read_link()?);
        rest = target.join(rest.strip_prefix(&link).unwrap_or(Path::new("")));
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Takes the identity of a user until the end of the process. A process that is not root keeps its own.
pub(crate) fn become_user(user: &ServiceUser) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // The audit log names who began.
    os_user();
    let failed = |error: io::Error| {
        let name = user.shown();
        Failure::new(format!("the identity of {name} cannot be taken ({error}); run the command as that user"))
    };
    set_identity(user).map_err(failed)
}

/// Sets all identities of this thread, of which later threads are copies. Linux keeps them for each thread.
#[cfg(target_os = "linux")]
fn set_identity(user: &ServiceUser) -> io::Result<()> {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    // The user comes last: afterwards the process may not change its groups. The saved identities change too, so that
    // none can be taken back.
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_identity(_: &ServiceUser) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_link_of_another_user_is_found_behind_links_of_root() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("data/inner")).unwrap();
        symlink("data", path("of-root")).unwrap();
        symlink(path("data"), path("foreign")).unwrap();
        symlink("foreign/inner/../..", path("behind")).unwrap();
        symlink("foreign", path("to-foreign")).unwrap();
        symlink("endless", path("endless")).unwrap();
        lchown(path("foreign"), Some(48_213), None).unwrap();
        for (name, is_foreign) in [
            ("data/inner", false),
            ("of-root/inner", false),
            ("of-root/missing", false),
            ("foreign", true),
            ("foreign/inner", true),
            ("behind/data", true),
            ("to-foreign", true),
            ("foreign/", true),
        ] {
            assert_eq!(foreign_link(&path(name)).unwrap().is_some(), is_foreign, "{name}");
        }
        assert!(foreign_link(&path("endless")).is_err());
    }
}
