//! The files of an installation: the configuration and the systemd unit.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mailapi_model::Timestamp;
use toml::Value;

use super::Choices;
use crate::failure::{Failure, Outcome};

/// Every user may read the files: they contain no secret.
const FILE_MODE: u32 = 0o644;
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
        let failed = |error: io::Error| {
            let advice = "; run the command as root, or name other files with --config, --unit and --data-dir";
            let advice = if error.kind() == ErrorKind::PermissionDenied { advice } else { "" };
            Failure::new(format!("{path} cannot be written: {error}{advice}"))
        };
        let previous = match fs::read(&self.path) {
            Ok(previous) => Some(previous),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        match previous {
            Some(previous) if previous == self.text.as_bytes() => return Ok(format!("{path}: unchanged\n")),
            None => self.replace().map_err(failed)?,
            Some(previous) => {
                let copy = self.copy_path(now);
                write_new(&copy, &previous, &fs::metadata(&self.path).map_err(failed)?.permissions())
                    .map_err(failed)?;
                self.replace().map_err(failed)?;
                return Ok(format!("{path}: written; the previous file is {}\n", copy.display()));
            }
        }
        Ok(format!("{path}: written\n"))
    }

    fn copy_path(&self, now: Timestamp) -> PathBuf {
        let mut copy = self.path.clone().into_os_string();
        // A colon separates paths in several programs.
        copy.push(format!(".{}", now.to_string().replace(':', "-")));
        copy.into()
    }

    fn replace(&self) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        // An interrupted command may have left one.
        if let Err(error) = fs::remove_file(&new)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        write_new(&new, self.text.as_bytes(), &Permissions::from_mode(FILE_MODE))?;
        fs::rename(&new, &self.path)
    }
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, bytes: &[u8], permissions: &Permissions) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    // Whatever the umask is: the server's user must be able to read the file.
    file.set_permissions(permissions.clone())?;
    file.sync_all()
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
