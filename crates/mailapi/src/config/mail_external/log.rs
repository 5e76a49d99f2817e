//! `[mail.external.log]`: the mail server's log, the source of delivery events.

use std::path::{Path, PathBuf};

use mailapi_backend_external::log_follower::{LogSettings, LogSource};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::advanced::Advanced;
use crate::config::secret::FilePath;
use crate::config::values::Unset;

/// The follower's state directory in the data directory.
const STATE_DIR: &str = "log-follower";

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LogKeys {
    path: Unset<FilePath>,
    rotated_dir: Unset<FilePath>,
    journal: bool,
    journal_directory: Unset<FilePath>,
    syslog_name: String,
    host: Unset<String>,
    postqueue: Vec<String>,
}

/// Source of the log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogPlace {
    /// A log file.
    File(PathBuf),
    /// The systemd journal, in this directory or the default one.
    Journal(Option<PathBuf>),
}

impl Default for LogKeys {
    fn default() -> Self {
        Self {
            path: Unset(None),
            rotated_dir: Unset(None),
            journal: false,
            journal_directory: Unset(None),
            syslog_name: LogSettings::new(LogSource::journal(None), "").syslog_name,
            host: Unset(None),
            postqueue: Vec::new(),
        }
    }
}

impl LogKeys {
    pub(super) fn place(&self) -> Option<LogPlace> {
        let file = self.path.0.as_ref().map(|path| LogPlace::File(path.0.clone()));
        let directory = || self.journal_directory.0.as_ref().map(|path| path.0.clone());
        file.or_else(|| self.journal.then(|| LogPlace::Journal(directory())))
    }

    pub(super) fn syslog_name(&self) -> &str {
        &self.syslog_name
    }

    pub(super) fn host(&self) -> Option<String> {
        self.host.0.clone()
    }

    pub(super) fn settings(&self, data_dir: &Path, advanced: &Advanced) -> Option<LogSettings> {
        let mut source = match self.place()? {
            LogPlace::File(path) => LogSource::file(path),
            LogPlace::Journal(directory) => LogSource::journal(directory.as_deref()),
        };
        if let LogSource::File(file) = &mut source {
            file.rotated_dir = self.rotated_dir.0.as_ref().map(|path| path.0.clone());
        }
        let mut settings = LogSettings::new(source, data_dir.join(STATE_DIR));
        advanced.external_log.apply(&mut settings);
        settings.syslog_name.clone_from(&self.syslog_name);
        settings.postqueue.clone_from(&self.postqueue);
        settings.postsuper = postsuper(&self.postqueue, rustix::process::geteuid().is_root());
        Some(settings)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.path.0.is_some() && self.journal {
            return Err(ConfigError::new("mail.external.log.path and journal: set one of them"));
        }
        if self.journal_directory.0.is_some() && !self.journal {
            return Err(ConfigError::new("mail.external.log.journal_directory: set journal = true with it"));
        }
        Ok(())
    }
}

/// Returns the command that runs postsuper(1) as root, where this command lists the queue with postqueue(1); empty if it
/// does not name that program. Behind another program, such as ssh(1), that one decides about the user.
fn postsuper(postqueue: &[String], is_root: bool) -> Vec<String> {
    const SUDO: [&str; 2] = ["sudo", "-n"];
    let Some((_, command)) = postqueue.split_last().filter(|(last, _)| *last == "-j") else { return Vec::new() };
    let is_postqueue = |word: &String| Path::new(word).file_name().is_some_and(|name| name == "postqueue");
    let Some(place) = command.iter().position(is_postqueue) else { return Vec::new() };
    let mut command = command.to_vec();
    command[place] = Path::new(&command[place]).with_file_name("postsuper").display().to_string();
    let by_sudo = place == 0 && !is_root;
    SUDO.into_iter().filter(|_| by_sudo).map(str::to_owned).chain(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postsuper_is_beside_postqueue_and_needs_root() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (postqueue, is_root, expected) in [
            ("", false, ""),
            ("/usr/local/bin/list-queue -j", false, ""),
            ("postqueue", true, ""),
            ("postqueue -j", true, "postsuper"),
            ("/usr/sbin/postqueue -c /etc/postfix-2 -j", true, "/usr/sbin/postsuper -c /etc/postfix-2"),
            ("/usr/sbin/postqueue -j", false, "sudo -n /usr/sbin/postsuper"),
            ("ssh root@mx1 postqueue -j", false, "ssh root@mx1 postsuper"),
        ] {
            assert_eq!(postsuper(&words(postqueue), is_root), words(expected), "{postqueue}");
        }
    }
}
