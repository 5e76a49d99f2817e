//! The identity in which a command works.
//!
//! The owner of the data directory can replace each name in it by a link, also while a command of root runs. SQLite and
//! other libraries open files by their paths. So a command of root takes the identity of that owner before it opens anything
//! there, and can then do nothing that the owner could not do alone. For the places that its caller names, it has a second
//! thread (`rights_thread`).

use std::io;
use std::path::{Path, PathBuf};

use mailapi_files::{PathControl, control_of};

use crate::failure::{Failure, Outcome};
use crate::system::{ServiceUser, os_user};

/// Number of root.
const ROOT: u32 = 0;

/// Whose rights a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Those of the owner of the data directory.
    OfOwner,
    /// Those of its caller: it reads or writes files of other programs, and nothing in the data directory.
    OfCaller,
    /// Those of the owner, and it must be started with them: a server also opens ports and reads keys.
    StartedByOwner,
}

impl Identity {
    /// Returns the user whose identity the command takes; `None` if it keeps its own. `database` is its SQLite file outside
    /// the data directory.
    ///
    /// # Errors
    /// When a symbolic link of one user leads to a directory of another, or a server must not start.
    pub(crate) fn user(self, data_dir: &Path, database: Option<&Path>) -> Outcome<Option<ServiceUser>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let path = std::path::absolute(data_dir)?;
        // A missing directory is created for the owner of the nearest one above it.
        let control = control_of(&path)?;
        refuse_foreign_link("data directory", &path, &control)?;
        if control.end_owner.uid == ROOT {
            self.refuse_replaceable(&path, &control)?;
            return own_database(database, &path).map(|()| None);
        }
        let user = ServiceUser::with_id(control.end_owner.uid, control.end_owner.gid);
        match self {
            Self::OfOwner => Ok(Some(user)),
            Self::OfCaller => Ok(None),
            // The first start of a clone or a container, whose folder often belongs to another user. The directory that it
            // creates is root's.
            Self::StartedByOwner if !control.exists => Ok(None),
            Self::StartedByOwner => Err(Failure::new(format!(
                "the data directory {} belongs to {}; start the server as that user, not as root: with `User=` in \
                 its unit, or `--user {}:{}` of its container",
                path.display(),
                user.shown(),
                user.uid,
                user.gid
            ))),
        }
    }
}

impl Identity {
    /// Refuses a directory of root that another user could exchange while the command works in it with root's rights. A
    /// server may start there: the folder of a clone or a container often belongs to another user.
    fn refuse_replaceable(self, path: &Path, control: &PathControl) -> Outcome {
        if self != Self::OfOwner {
            return Ok(());
        }
        let shown = path.display();
        if let Some(stranger) = control.strangers.first() {
            let user = ServiceUser::with_id(stranger.owner.uid, stranger.owner.gid).shown();
            return Err(Failure::new(format!(
                "the data directory {shown} belongs to root, and {user} could replace it, who controls {}; run `chown -R \
                 {user}: {shown}`, or set data_dir to a directory below those of root",
                stranger.path.display(),
            )));
        }
        match &control.open_to_others {
            None => Ok(()),
            Some(open) => Err(Failure::new(format!(
                "the data directory {shown} belongs to root, and other users can replace entries of {}; remove this right \
                 (chmod go-w), or set another data_dir",
                open.display()
            ))),
        }
    }
}

/// Refuses a path that leads through a link of one user to a directory of another: the first one could let it lead anywhere.
pub(crate) fn refuse_foreign_link(what: &str, path: &Path, control: &PathControl) -> Outcome {
    let end = control.end_owner;
    let Some(link) = control.strangers.iter().find(|stranger| stranger.is_link && stranger.owner.uid != end.uid) else {
        return Ok(());
    };
    let name = |owner: mailapi_files::FileOwner| ServiceUser::with_id(owner.uid, owner.gid).shown();
    Err(Failure::new(format!(
        "the {what} {} is reached by the symbolic link {} of {}, and leads to a directory of {}; name that directory \
         itself, or give the link to root",
        path.display(),
        link.path.display(),
        name(link.owner),
        name(end)
    )))
}

/// Refuses a database in a directory of another user: SQLite would open its files with the rights of root.
fn own_database(database: Option<&Path>, data_dir: &Path) -> Outcome {
    let Some(directory) = database.and_then(Path::parent) else { return Ok(()) };
    let control = control_of(directory)?;
    refuse_foreign_link("directory of the database", directory, &control)?;
    if control.end_owner.uid == ROOT {
        return Ok(());
    }
    let user = ServiceUser::with_id(control.end_owner.uid, control.end_owner.gid).shown();
    Err(Failure::new(format!(
        "the directory of the database {} belongs to {user}, and the data directory {} to root; give both to {user}",
        directory.display(),
        data_dir.display()
    )))
}

/// Returns the absolute path of an SQLite file that is not in the data directory.
pub(crate) fn database_elsewhere(database: PathBuf, data_dir: &Path) -> io::Result<Option<PathBuf>> {
    let (database, data_dir) = (std::path::absolute(database)?, std::path::absolute(data_dir)?);
    Ok((!database.starts_with(data_dir)).then_some(database))
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
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    const OWNER: u32 = 48_213;
    const STRANGER: u32 = 48_214;

    #[test]
    fn a_link_that_leads_to_another_user_is_named_with_its_owner() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, uid) in [("owner", OWNER), ("stranger", STRANGER), ("root", 0)] {
            std::fs::create_dir(path(name)).unwrap();
            chown(path(name), Some(uid), Some(uid)).unwrap();
        }
        for (link, target, uid) in [
            ("to-stranger", "stranger", OWNER),
            ("to-root", "root", OWNER),
            ("to-own", "owner", OWNER),
            ("of-root", "owner", 0),
        ] {
            symlink(target, path(link)).unwrap();
            lchown(path(link), Some(uid), None).unwrap();
        }
        let user = |name: &str| Identity::OfOwner.user(&path(name), None).map(|user| user.map(|user| user.uid));
        for (name, end) in [("to-stranger", "uid 48214"), ("to-stranger/new", "uid 48214"), ("to-root", "root")] {
            let refused = user(name).unwrap_err().to_string();
            let link = path(name.trim_end_matches("/new"));
            let expected =
                format!("the symbolic link {} of uid 48213, and leads to a directory of {end}", link.display());
            assert!(refused.contains(&expected), "{refused}");
        }
        for name in ["owner", "owner/new", "to-own", "of-root"] {
            assert_eq!(user(name), Ok(Some(OWNER)), "{name}");
        }
        assert_eq!((user("root"), user("new")), (Ok(None), Ok(None)));
    }

    #[test]
    fn a_directory_that_another_user_could_replace_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["owner", "owner/of-root", "open", "open/of-root"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        chown(path("owner"), Some(OWNER), Some(OWNER)).unwrap();
        std::fs::set_permissions(path("open"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        for (name, reason) in [
            ("owner/of-root", "and uid 48213 could replace it"),
            ("owner/of-root/new", "and uid 48213 could replace it"),
            ("open/of-root", "other users can replace entries of"),
        ] {
            let refused = Identity::OfOwner.user(&path(name), None).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
            assert_eq!(Identity::StartedByOwner.user(&path(name), None), Ok(None), "a server that runs as root anyway");
        }
    }

    #[test]
    fn root_opens_no_database_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (data_dir, place) = (folder.path().join("data"), folder.path().join("place"));
        std::fs::create_dir(&data_dir).unwrap();
        std::fs::create_dir(&place).unwrap();
        let user = || Identity::OfOwner.user(&data_dir, Some(&place.join("mailapi.db"))).map(|user| user.is_some());
        assert_eq!(user(), Ok(false));
        chown(&place, Some(OWNER), None).unwrap();
        assert!(user().unwrap_err().to_string().contains("give both to uid 48213"));
        chown(&data_dir, Some(OWNER), None).unwrap();
        assert_eq!(user(), Ok(true));
    }
}
