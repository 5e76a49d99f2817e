//! Operations of mail clients, other mail servers and the operator on the mailboxes of a private Dovecot.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::accounts::Accounts;
use super::{Dovecot, ENDING, MAIL_UID};
use crate::hand_in::HandIn;

impl Dovecot {
    /// Creates a mailbox, or changes its quota.
    ///
    /// # Panics
    /// When its accounts are in a database of a printed configuration.
    pub fn put_mailbox(&self, address: &str, quota_bytes: Option<u64>) {
        self.accounts().put(address, Self::PASSWORD, quota_bytes);
    }

    /// Removes a mailbox with its mail, and closes its connections.
    ///
    /// # Panics
    /// As [`Dovecot::put_mailbox`].
    pub fn remove_mailbox(&self, address: &str) {
        self.accounts().remove(address);
        let _ = self.run_doveadm(&["kick", address]);
        let _ = fs::remove_dir_all(self.home(address));
    }

    /// Replaces the home of a mailbox by a file, so that it cannot be opened, and closes its connections.
    /// Afterwards no Dovecot process serves the mailbox.
    ///
    /// # Panics
    /// When the file cannot be written, or a connection stays open.
    pub async fn break_mailbox(&self, address: &str) {
        let home = self.home(address);
        fs::create_dir_all(home.parent().expect("the directory of the domain")).expect("a directory");
        for _ in 0..ENDING.0 {
            // A delivery that has answered still closes its files, and may make the directory again in between.
            let _ = fs::remove_dir_all(&home);
            let replaced = fs::write(&home, "").is_ok();
            let _ = self.run_doveadm(&["kick", address]);
            if replaced && !self.has_session(address) {
                return;
            }
            tokio::time::sleep(ENDING.1).await;
        }
        panic!("the home of {address} stays a directory, or a session of it does not end");
    }

    /// Returns whether a client is logged in to the mailbox.
    fn has_session(&self, address: &str) -> bool {
        self.doveadm(&["who", address]).lines().any(|line| line.split_whitespace().next() == Some(address))
    }

    /// Repairs a mailbox after [`Dovecot::break_mailbox`]: it has no home, as if it had never been opened.
    ///
    /// # Panics
    /// When the mailbox is not broken.
    pub fn mend_mailbox(&self, address: &str) {
        fs::remove_file(self.home(address)).expect("the file of a broken mailbox");
    }

    /// Delivers a message to a mailbox over LMTP, as another mail server does.
    ///
    /// # Panics
    /// When Dovecot does not accept it.
    pub async fn deliver(&self, address: &str, message: &[u8]) {
        let mut connection = HandIn::connect(self.lmtp, "LHLO client.example").await;
        connection.message("ann@elsewhere.example", address, message).await;
    }

    /// Returns whether Dovecot accepts mail for this recipient over LMTP.
    ///
    /// # Panics
    /// When it does not speak LMTP.
    pub async fn takes(&self, sender: &str, recipient: &str) -> bool {
        HandIn::connect(self.lmtp, "LHLO client.example").await.takes(sender, recipient).await
    }

    /// Returns whether a mail program can log in with this password.
    ///
    /// # Panics
    /// When doveadm cannot be run.
    #[must_use]
    pub fn logs_in(&self, address: &str, password: &str) -> bool {
        self.run_doveadm(&["auth", "test", address, password]).status.success()
    }

    /// Writes a message file into a mailbox's INBOX, bypassing Dovecot; fast for many messages.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn drop_message(&self, address: &str, number: u32, message: &[u8]) {
        let inbox = self.home(address).join("Maildir");
        let folder = inbox.join("new");
        // Dovecot may not have created the mailbox yet.
        if !folder.exists() {
            for name in ["cur", "new", "tmp"] {
                fs::create_dir_all(inbox.join(name)).expect("the maildir is made");
            }
            let parents = [inbox.join("cur"), folder.clone(), inbox.join("tmp"), inbox.clone(), self.home(address)];
            let domain = self.home(address).parent().map(Path::to_path_buf);
            for path in parents.into_iter().chain(domain) {
                chown(path, Some(MAIL_UID), Some(MAIL_UID)).expect("root can change the maildir's owner");
            }
        }
        // Dovecot's hash of a file name depends mostly on its last seven letters. With equal ones, a large
        // folder takes minutes.
        let file = folder.join(format!("{}.M{number}P1.{number:07}", 1_700_000_000 + number));
        fs::write(&file, message).expect("the message is written");
        chown(file, Some(MAIL_UID), Some(MAIL_UID)).expect("root can change the message's owner");
    }

    /// Runs `doveadm` for an operation of a mail client or the operator; returns its output.
    ///
    /// # Panics
    /// When the command fails.
    pub fn doveadm(&self, arguments: &[&str]) -> String {
        let output = self.run_doveadm(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "doveadm {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns whether a mailbox has this folder.
    ///
    /// # Panics
    /// When the mailbox does not exist.
    #[must_use]
    pub fn has_folder(&self, address: &str, folder: &str) -> bool {
        self.doveadm(&["mailbox", "list", "-u", address]).lines().any(|line| line == folder)
    }

    /// Creates a folder, as a mail client does.
    ///
    /// # Panics
    /// When the folder exists.
    pub fn create_folder(&self, address: &str, folder: &str) {
        self.doveadm(&["mailbox", "create", "-u", address, folder]);
    }

    /// Replaces a message's flags, as a mail client does.
    ///
    /// # Panics
    /// When the folder is missing.
    pub fn set_flags(&self, address: &str, folder: &str, uid: u32, flags: &[&str]) {
        let of = ["-u", address, &flags.join(" "), "mailbox", folder, "uid", &uid.to_string()];
        self.doveadm(&[&["flags", "replace"][..], &of].concat());
    }

    /// Moves a message into another folder, as a mail client does.
    ///
    /// # Panics
    /// When a folder is missing.
    pub fn move_message(&self, address: &str, folder: &str, uid: u32, target: &str) {
        self.doveadm(&["move", "-u", address, target, "mailbox", folder, "uid", &uid.to_string()]);
    }

    /// Returns a message's flags as a mail client sees them, without `\Recent`.
    ///
    /// # Panics
    /// When the folder is missing.
    #[must_use]
    pub fn flags(&self, address: &str, folder: &str, uid: u32) -> Vec<String> {
        let of = ["-u", address, "flags", "mailbox", folder, "uid", &uid.to_string()];
        let fetched = self.doveadm(&[&["-f", "tab", "fetch"][..], &of].concat());
        let flags = fetched.lines().nth(1).unwrap_or_default().split(' ').map(ToOwned::to_owned);
        flags.filter(|flag| !flag.is_empty() && flag != "\\Recent").collect()
    }

    /// Stores a message unchanged in a folder, as a mail client does with a draft.
    ///
    /// # Panics
    /// When the folder is missing.
    pub fn append(&self, address: &str, folder: &str, message: &[u8]) {
        let mut command = Command::new("doveadm");
        command.arg("-c").arg(self.path("dovecot.conf")).args(["save", "-u", address, "-m", folder]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("doveadm starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(message).expect("the message is read");
        drop(input);
        assert!(child.wait().expect("doveadm ends").success(), "the message is not put into {folder} of {address}");
    }

    fn accounts(&self) -> &Accounts {
        self.accounts.as_ref().expect("accounts of its own")
    }

    fn run_doveadm(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("doveadm");
        command.arg("-c").arg(self.path("dovecot.conf")).args(arguments);
        command.output().expect("doveadm starts")
    }

    fn home(&self, address: &str) -> PathBuf {
        let (local, domain) = address.split_once('@').expect("an address");
        self.path("mail").join(domain).join(local)
    }
}
