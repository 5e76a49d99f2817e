//! A thread with rights of its own: Linux keeps the identity of each thread.
//!
//! A command of root uses the data directory with the rights of its owner, and the places that its caller names with those
//! of the caller. No thread of a process has both. Handles may pass from one to the other: they are checked already.

use std::fmt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use mailapi_files::{PathControl, control_of};
use tokio::sync::oneshot;

use crate::failure::{Failure, Outcome};
use crate::identity::{become_user, refuse_foreign_link};
use crate::system::ServiceUser;

type Work = Box<dyn FnOnce() + Send>;

/// Runs operations one after the other. Clones use the same thread, which ends with the last of them.
#[derive(Clone)]
pub(crate) struct RightsThread(mpsc::Sender<Work>);

impl fmt::Debug for RightsThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RightsThread")
    }
}

impl RightsThread {
    /// Starts a thread with the present rights of the calling one.
    pub(crate) fn start() -> Outcome<Self> {
        let (sender, receiver) = mpsc::channel::<Work>();
        thread::Builder::new().name("rights".to_owned()).spawn(move || receiver.iter().for_each(|work| work()))?;
        Ok(Self(sender))
    }

    /// Starts a thread that may write files below a path which a library opens: no other user may lead the path elsewhere.
    /// `owner` is the user of the data directory; `None` is the caller.
    ///
    /// # Errors
    /// When another user controls the path.
    pub(crate) fn for_place(path: &Path, owner: Option<&ServiceUser>) -> Outcome<Self> {
        let thread = Self::start()?;
        if !rustix::process::geteuid().is_root() {
            return Ok(thread);
        }
        if let Some(user) = user_of_place(path, &control_of(path)?, owner)?.cloned() {
            thread.run(move || become_user(&user))??;
        }
        Ok(thread)
    }

    /// Runs an operation, and waits for its result.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
        let (done, result) = mpsc::sync_channel(1);
        self.begin(move || drop(done.send(work())))?;
        result.recv().map_err(|_| ended())
    }

    /// Like [`Self::run`], without blocking the calling task.
    pub(crate) async fn call<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
        let (done, result) = oneshot::channel();
        self.begin(move || drop(done.send(work())))?;
        result.await.map_err(|_| ended())
    }

    fn begin(&self, work: impl FnOnce() + Send + 'static) -> Outcome {
        self.0.send(Box::new(work)).map_err(|_| ended())
    }
}

fn ended() -> Failure {
    Failure::new("a thread of this process ended early")
}

/// Decides whose rights suffice for a place that root names; `None` is root.
fn user_of_place<'a>(
    path: &Path,
    control: &PathControl,
    owner: Option<&'a ServiceUser>,
) -> Outcome<Option<&'a ServiceUser>> {
    let shown = path.display();
    refuse_foreign_link("directory", path, control)?;
    let Some(first) = control.strangers.first() else {
        return match &control.open_to_others {
            None => Ok(None),
            Some(open) => Err(Failure::new(format!(
                "{shown}: other users can replace entries of {}; remove this right (chmod go-w), or use another directory",
                open.display()
            ))),
        };
    };
    let other = control.strangers.iter().find(|stranger| owner.is_none_or(|owner| stranger.owner.uid != owner.uid));
    if let Some(other) = other {
        let name = ServiceUser::with_id(other.owner.uid, other.owner.gid).shown();
        let kind = if other.is_link { "the symbolic link" } else { "the directory" };
        return Err(Failure::new(format!(
            "{shown}: {kind} {} belongs to {name}, who could replace what is written; use a directory that only root or \
             the owner of the data directory can change",
            other.path.display()
        )));
    }
    let name = owner.map(ServiceUser::shown).unwrap_or_default();
    if control.exists && control.strangers.iter().all(|stranger| stranger.owner != control.end_owner) {
        return Err(Failure::new(format!(
            "{shown} does not belong to {name}, who controls {}; run `chown -R {name}: {shown}`, or use another directory",
            first.path.display()
        )));
    }
    Ok(owner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

    use super::*;

    const OWNER: u32 = 48_213;
    const STRANGER: u32 = 48_214;

    #[test]
    fn a_thread_keeps_its_rights_and_gives_results() {
        let thread = RightsThread::start().unwrap();
        assert_eq!(thread.run(|| 1 + 1).unwrap(), 2);
        assert!(thread.run(|| panic!("a fault")).map(|()| 0).is_err());
        assert!(thread.run(|| 3).is_err(), "it has ended");
    }

    #[test]
    fn threads_of_one_process_have_different_rights() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let (root, other) = (RightsThread::start().unwrap(), RightsThread::start().unwrap());
        other.run(|| become_user(&ServiceUser::with_id(OWNER, OWNER))).unwrap().unwrap();
        for (thread, name, uid) in [(&root, "one", 0), (&other, "two", OWNER)] {
            let path = folder.path().join(name);
            let written = path.clone();
            thread.run(move || std::fs::write(written, "")).unwrap().unwrap();
            assert_eq!(path.metadata().unwrap().uid(), uid);
        }
        let taken = folder.path().join("one");
        assert!(other.run(move || std::fs::write(taken, "")).unwrap().is_err());
    }

    #[test]
    fn the_place_of_a_stranger_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, uid) in [("root", 0), ("owner", OWNER), ("owner/of-root", 0), ("stranger", STRANGER), ("open", 0)] {
            std::fs::create_dir(path(name)).unwrap();
            chown(path(name), Some(uid), Some(uid)).unwrap();
        }
        std::fs::set_permissions(path("open"), PermissionsExt::from_mode(0o777)).unwrap();
        symlink("root", path("link")).unwrap();
        lchown(path("link"), Some(STRANGER), None).unwrap();
        let owner = ServiceUser::with_id(OWNER, OWNER);
        let user = |name: &str| {
            let path = path(name);
            user_of_place(&path, &control_of(&path).unwrap(), Some(&owner)).map(|user| user.map(|user| user.uid))
        };
        assert_eq!((user("root"), user("root/new/one")), (Ok(None), Ok(None)));
        assert_eq!((user("owner"), user("owner/new")), (Ok(Some(OWNER)), Ok(Some(OWNER))));
        for (name, expected) in [
            ("owner/of-root", "does not belong to uid 48213, who controls"),
            ("stranger/new", "stranger belongs to uid 48214"),
            ("link", "link of uid 48214, and leads to a directory of root"),
            ("open/new", "other users can replace entries"),
        ] {
            let refused = user(name).unwrap_err().to_string();
            assert!(refused.contains(expected), "{name}: {refused}");
        }
    }
}
