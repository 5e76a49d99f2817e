//! Checks that mailapi's user can read the log, now and after the next rotation. The doctor has the rights of that user,
//! also when root starts it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::Access;

use super::finding::Finding;
use super::local::output_of;
use super::logrotate::{NextLog, next_log};
use crate::config::{Config, LogPlace};

const ACCESS: &str = "log access";
const NEXT: &str = "next log";
const MAIN_FILE: &str = "/etc/logrotate.conf";
const DIRECTORY: &str = "/etc/logrotate.d";
/// The mode of a log that Postfix creates, unless `maillog_file_permissions` (3.9) has another.
const USUAL_MODE: u32 = 0o600;
const ROOT: u32 = 0;
const SET_GROUP: u32 = 0o2000;

/// Owner, group and mode of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileAccess {
    owner: String,
    group: String,
    mode: u32,
}

impl FileAccess {
    fn shown(&self) -> String {
        format!("{}:{} with mode {:04o}", self.owner, self.group, self.mode & 0o7777)
    }
}

/// The user that reads the log: the owner of the data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogReader {
    uid: u32,
    name: String,
    groups: Vec<String>,
}

impl LogReader {
    fn of(data_dir: &Path) -> Option<Self> {
        let uid = fs::metadata(data_dir).ok()?.uid();
        let number = uid.to_string();
        let groups = output_of("id", &["-Gn", &number])?.ok()?;
        let groups = groups.split_whitespace().map(str::to_owned).collect();
        Some(Self { uid, name: output_of("id", &["-un", &number])?.ok()?, groups })
    }

    fn can_read(&self, file: &FileAccess) -> bool {
        // The first class that fits decides, also if a later one permits more (path_resolution(7)).
        let bit = if self.uid == ROOT {
            return true;
        } else if self.name == file.owner {
            0o400
        } else if self.groups.contains(&file.group) {
            0o040
        } else {
            0o004
        };
        file.mode & bit != 0
    }

    /// Asks the system, so that access lists count too; `None` if this process has the rights of another user.
    fn opens(&self, path: &str) -> Option<bool> {
        let is_this_user = rustix::process::geteuid().as_raw() == self.uid;
        is_this_user.then(|| rustix::fs::access(path, Access::READ_OK).is_ok())
    }
}

/// The settings of Postfix that decide about its log; `None` if another program writes it, or Postfix is elsewhere.
fn mode_of_postfix(path: &str) -> Option<u32> {
    let value = |name| output_of("postconf", &["-h", name]).and_then(Result::ok);
    if value("maillog_file")? != path {
        return None;
    }
    // Postfix before 3.9 does not have the parameter.
    let mode = value("maillog_file_permissions").and_then(|digits| u32::from_str_radix(&digits, 8).ok());
    Some(mode.unwrap_or(USUAL_MODE))
}

/// Checks the access to the log; nothing if it is not a file that is followed here.
pub(super) fn log_access(config: &Config) -> Vec<Finding> {
    let Some(LogPlace::File(path)) = config.mail.external.log_place() else { return Vec::new() };
    let (Some(path), Some(reader)) = (path.to_str(), LogReader::of(&config.data_dir)) else { return Vec::new() };
    let Some(now) = access_of(Path::new(path)) else { return Vec::new() };
    if reader.opens(path) == Some(false) {
        return vec![unreadable(path, &reader, &now)];
    }
    let Some(mode) = mode_of_postfix(path) else { return Vec::new() };
    let created = by_postfix(Path::new(path), mode);
    vec![next(path, &reader, &now, &created, next_log(&logrotate_files(), path))]
}

/// Owner, group and mode of a file that Postfix, as root, creates in the directory of `path`.
fn by_postfix(path: &Path, mode: u32) -> FileAccess {
    let shared = path.parent().and_then(access_of).filter(|directory| directory.mode & SET_GROUP != 0);
    let group = shared.map_or_else(|| "root".to_owned(), |directory| directory.group);
    FileAccess { owner: "root".to_owned(), group, mode }
}

fn access_of(path: &Path) -> Option<FileAccess> {
    let found = fs::metadata(path).ok()?;
    let name = |kind: &str, id: u32| {
        let line = output_of("getent", &[kind, &id.to_string()]).and_then(Result::ok).unwrap_or_default();
        line.split(':').next().filter(|name| !name.is_empty()).map_or_else(|| id.to_string(), str::to_owned)
    };
    Some(FileAccess { owner: name("passwd", found.uid()), group: name("group", found.gid()), mode: found.mode() })
}

/// Returns the main file first, then the others by name, as logrotate reads them.
fn logrotate_files() -> Vec<String> {
    let mut paths: Vec<_> = fs::read_dir(DIRECTORY).into_iter().flatten().flatten().map(|file| file.path()).collect();
    paths.sort();
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    std::iter::once(text(Path::new(MAIN_FILE))).chain(paths.iter().map(|path| text(path))).collect()
}

fn unreadable(path: &str, reader: &LogReader, now: &FileAccess) -> Finding {
    let (name, access) = (&reader.name, now.shown());
    Finding::wrong(
        ACCESS,
        format!("mailapi's user {name} cannot read {path}, which belongs to {access}"),
        format!(
            "run `chgrp adm {path} && chmod 0640 {path}`, and rotate as docs/operating.md says, so that the next file \
             can be read; mailapi then reads what it missed"
        ),
    )
}

/// Looks ahead to the file after the next rotation.
fn next(
    path: &str,
    reader: &LogReader,
    now: &FileAccess,
    by_postfix: &FileAccess,
    rotation: Option<NextLog>,
) -> Finding {
    let is_rotated = rotation.is_some();
    let (creator, created) = match rotation {
        Some(NextLog::Kept) => return Finding::fine(NEXT, "logrotate keeps the file"),
        Some(NextLog::Created { mode, owner, group }) => {
            let values = (owner.unwrap_or_else(|| now.owner.clone()), group.unwrap_or_else(|| now.group.clone()));
            ("logrotate", FileAccess { owner: values.0, group: values.1, mode: mode.unwrap_or(now.mode) })
        }
        Some(NextLog::ByWriter) | None => ("Postfix", by_postfix.clone()),
    };
    let access = created.shown();
    if reader.can_read(&created) {
        return Finding::fine(NEXT, format!("{creator} will create it as {access}"));
    }
    let how = if is_rotated { "the next rotation" } else { "`postfix logrotate`" };
    Finding::noted(
        NEXT,
        format!("after {how}, mailapi's user {} cannot read {path}: {creator} will create it as {access}", reader.name),
        "let logrotate create the file so that mailapi's user can read it: docs/operating.md, section 5, has the lines",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(owner: &str, group: &str, mode: u32) -> FileAccess {
        FileAccess { owner: owner.to_owned(), group: group.to_owned(), mode }
    }

    fn reader() -> LogReader {
        LogReader { uid: 999, name: "mailapi".to_owned(), groups: vec!["mailapi".to_owned(), "adm".to_owned()] }
    }

    fn looked(by_postfix: &FileAccess, rotation: Option<NextLog>) -> String {
        let now = access("postfix", "adm", 0o100_640);
        next("/var/log/mail.log", &reader(), &now, by_postfix, rotation).shown()
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        for (file, expected) in [
            (access("root", "root", 0o600), false),
            (access("root", "adm", 0o640), true),
            (access("root", "adm", 0o604), false),
            (access("mailapi", "root", 0o044), false),
            (access("mailapi", "root", 0o400), true),
            (access("root", "root", 0o644), true),
        ] {
            assert_eq!(reader().can_read(&file), expected, "{file:?}");
        }
        assert!(LogReader { uid: ROOT, ..reader() }.can_read(&access("root", "root", 0)));
    }

    #[test]
    fn an_unreadable_next_log_is_noted_before_the_rotation() {
        let (closed, open) = (access("root", "root", 0o600), access("root", "adm", 0o640));
        let created = |mode, owner: Option<&str>, group: Option<&str>| {
            let (owner, group) = (owner.map(str::to_owned), group.map(str::to_owned));
            Some(NextLog::Created { mode, owner, group })
        };
        for (by_postfix, rotation, expected) in [
            (&closed, None, "after `postfix logrotate`, mailapi's user mailapi cannot read"),
            (&closed, Some(NextLog::ByWriter), "Postfix will create it as root:root with mode 0600"),
            (
                &closed,
                created(Some(0o600), Some("root"), Some("adm")),
                "logrotate will create it as root:adm with mode 0600",
            ),
            (&open, created(Some(0o640), Some("root"), Some("root")), "cannot read"),
        ] {
            let shown = looked(by_postfix, rotation);
            assert!(shown.starts_with("note   next log: ") && shown.contains(expected), "{shown}");
        }
        for (by_postfix, rotation) in [
            (&open, None),
            (&open, Some(NextLog::ByWriter)),
            (&closed, Some(NextLog::Kept)),
            (&closed, created(Some(0o640), Some("postfix"), Some("adm"))),
            (&closed, created(None, None, None)),
        ] {
            let shown = looked(by_postfix, rotation);
            assert!(shown.starts_with("ok     next log: "), "{shown}");
        }
    }

    #[test]
    fn a_directory_can_give_its_group_to_new_logs() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("mail.log");
        assert_eq!(by_postfix(&log, 0o640).group, "root");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o2750)).unwrap();
        assert_eq!(
            by_postfix(&log, 0o640),
            FileAccess { mode: 0o640, owner: "root".to_owned(), ..access_of(directory.path()).unwrap() }
        );
    }
}
