//! The files of an installation: the configuration and the systemd unit.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mailapi_files::{FileError, OpenDirectory};
use mailapi_model::Timestamp;
use toml::Value;

use super::Choices;
use crate::failure::{Failure, Outcome};

/// Every user may read the files: they contain no secret.
const FILE_MODE: u32 = 0o644;
/// Every user may look into the directory of the configuration.
const DIRECTORY_MODE: u32 = 0o755;
/// Longer files are no configuration, and stay as they are.
const LONGEST_FILE: u64 = 16 * 1024 * 1024;
/// systemd creates this directory for the server's user.
const STATE_DIRECTORY: &str = "/var/lib/mailapi";

/// A file as it would be written.
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Both files.
pub(super) struct Plan {
    pub(super) config: PlannedFile,
    unit: PlannedFile,
}

impl Plan {
    pub(super) fn new(choices: &Choices, unit: &Path) -> Self {
        let config = PlannedFile { path: choices.config_file.clone(), text: configuration(choices) };
        Self { config, unit: PlannedFile { path: unit.to_owned(), text: systemd_unit(choices) } }
    }

    pub(super) fn shown(&self) -> String {
        [&self.config, &self.unit].map(PlannedFile::shown).concat()
    }

    /// Writes the files that differ. Returns a line for each.
    pub(super) fn write(&self, now: Timestamp) -> Outcome<String> {
        let config = self.config.write(now)?;
        Ok(config + &self.unit.write(now)?)
    }
}

impl PlannedFile {
    fn shown(&self) -> String {
        format!("### {}\n{}\n", self.path.display(), self.text)
    }

    /// Replaces the file if it differs, after a copy of the previous one was made. Returns a line for people.
    fn write(&self, now: Timestamp) -> Outcome<String> {
        let path = self.path.display();
        self.replace(now).map_err(|error| {
            let is_denied =
                matches!(&error, FileError::System { error, .. } if error.kind() == ErrorKind::PermissionDenied);
            let advice = "; run the command as root, or name other files with --config, --unit and --data-dir";
            Failure::new(format!("{path} cannot be written: {error}{}", if is_denied { advice } else { "" }))
        })
    }

    fn replace(&self, now: Timestamp) -> Result<String, FileError> {
        let path = self.path.display();
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = OpenDirectory::open_or_create(directory.unwrap_or(Path::new(".")), DIRECTORY_MODE)?;
        let name = self.path.file_name().unwrap_or_default();
        let previous = match directory.facts(name)? {
            Some(facts) => Some((directory.read_limited(name, LONGEST_FILE)?, facts.mode)),
            None => None,
        };
        let write = || directory.replace_file(name, self.text.as_bytes(), FILE_MODE, None);
        match previous {
            Some((previous, _)) if previous == self.text.as_bytes() => Ok(format!("{path}: unchanged\n")),
            None => write().map(|()| format!("{path}: written\n")),
            Some((previous, mode)) => {
                let mut copy = name.to_owned();
                // A colon separates paths in several programs.
                copy.push(format!(".{}", now.to_string().replace(':', "-")));
                directory.write_new_file(&copy, &previous, mode & 0o777)?;
                write()?;
                let copy = directory.path().join(copy);
                Ok(format!("{path}: written; the previous file is {}\n", copy.display()))
            }
        }
    }
}

/// The configuration of a server that faces the internet.
fn configuration(choices: &Choices) -> String {
    let text = |text: &str| Value::String(text.to_owned()).to_string();
    let listen = |port: u16| text(&format!("{}:{port}", choices.any_address));
    let hostname = choices.hostname.as_str();
    format!(
        "# Written by `mailapi setup`. docs/settings.md describes every setting.\n\
         data_dir = {data_dir}\n\n\
         [http]\nlisten = \"127.0.0.1:8080\"\ntls_listen = {https}\npublic_url = {url}\n\n\
         [tls]\n# You agree to the terms of the certificate authority; see docs/tls.md.\nmode = \"acme\"\n\n\
         [mail.embedded]\nhostname = {host}\npostmaster = {postmaster}\nsmtp_listen = {smtp}\n\
         submission_listen = {submission}\nsubmissions_listen = {submissions}\nimap_listen = \"\"\n\
         imaps_listen = {imaps}\n",
        data_dir = text(&choices.data_dir.display().to_string()),
        https = listen(443),
        url = text(&format!("https://{hostname}")),
        host = text(hostname),
        postmaster = text(&choices.mailbox.to_string()),
        smtp = listen(25),
        submission = listen(587),
        submissions = listen(465),
        imaps = listen(993),
    )
}

/// The unit. The server needs no right but that to the ports below 1024.
fn systemd_unit(choices: &Choices) -> String {
    let state = match choices.data_dir.starts_with(STATE_DIRECTORY) {
        true => "StateDirectory=mailapi\nStateDirectoryMode=0700\n".to_owned(),
        false => format!("ReadWritePaths={}\n", escaped(&choices.data_dir)),
    };
    format!(
        "[Unit]\nDescription=mailapi, a mail server with an HTTP interface\nWants=network-online.target\n\
         After=network-online.target nss-lookup.target\n\n\
         [Service]\nUser={user}\nExecStart={program} --config {config} --log-format json serve\n\
         ExecReload=/bin/kill -HUP $MAINPID\nRestart=on-failure\nRestartSec=2\nTimeoutStopSec=90\n\
         LimitNOFILE=65536\nUMask=0077\n{state}{HARDENING}\n[Install]\nWantedBy=multi-user.target\n",
        user = choices.user,
        program = argument(&choices.program),
        config = argument(&choices.config_file),
    )
}

/// What the server never needs, so that a fault in it cannot use it either.
const HARDENING: &str = "\
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
";

/// A path in a unit, where a percent sign begins a specifier.
fn escaped(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) {
        return text;
    }
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{text}\"")
}

/// A path in the command of a unit, where a dollar sign begins a variable too.
fn argument(path: &Path) -> String {
    escaped(path).replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn planned(directory: &Path, text: &str) -> PlannedFile {
        PlannedFile { path: directory.join("etc/mailapi.toml"), text: text.to_owned() }
    }

    fn at(time: &str) -> Timestamp {
        Timestamp::parse_date_or_time(time).unwrap()
    }

    #[test]
    fn an_existing_file_is_never_lost() {
        let directory = tempfile::tempdir().unwrap();
        let first = planned(directory.path(), "first");
        assert!(first.write(at("2026-11-23")).unwrap().ends_with("mailapi.toml: written\n"));
        assert!(first.write(at("2026-11-24")).unwrap().ends_with(": unchanged\n"));
        let written = planned(directory.path(), "second").write(at("2026-11-25")).unwrap();
        let copy = directory.path().join("etc/mailapi.toml.2026-11-25T00-00-00.000Z");
        assert!(written.contains(&copy.display().to_string()), "{written}");
        assert_eq!((fs::read(&first.path).unwrap(), fs::read(&copy).unwrap()), (b"second".to_vec(), b"first".to_vec()));
        // A second copy of the same moment would replace the first one.
        assert!(planned(directory.path(), "third").write(at("2026-11-25")).is_err());
        assert_eq!(fs::read(&first.path).unwrap(), b"second");
        assert_eq!(fs::metadata(&first.path).unwrap().permissions().mode() & 0o777, FILE_MODE);
    }

    #[test]
    fn a_path_in_a_unit_means_itself() {
        assert_eq!(escaped(Path::new("/usr/local/bin/mailapi")), "/usr/local/bin/mailapi");
        assert_eq!(escaped(Path::new("/a b/%n$X\"")), "\"/a b/%%n$X\\\"\"");
        assert_eq!(argument(Path::new("/a b/%n$X\"")), "\"/a b/%%n$$X\\\"\"");
    }
}
