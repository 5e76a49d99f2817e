//! The directories and the configuration of a private Postfix.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::{Postfix, PostfixDelivery, PostfixRecipients, PostfixSettings, maildir};

/// Postfix reads only files older than this, in case they are still being written.
const OLD_ENOUGH: Duration = Duration::from_secs(60);
/// Owner of delivered mail; the user need not exist.
const MAIL_OWNER: u32 = 5000;

impl Postfix {
    pub(super) fn lay_out(&self, settings: &PostfixSettings) {
        set_mode(self.dir.path(), 0o755);
        for name in ["etc", "queue", "data", "mail", "log"] {
            fs::create_dir(self.path(name)).expect("a directory");
        }
        let (postfix, postdrop) = (id_of("-u", "postfix"), group_of("postdrop"));
        own(&self.path("mail"), MAIL_OWNER, MAIL_OWNER);
        own(&self.path("data"), postfix, 0);
        for (name, mode) in QUEUE {
            let path = self.path("queue").join(name);
            fs::create_dir(&path).expect("a queue directory");
            let group = if ["maildrop", "public"].contains(&name) { postdrop } else { 0 };
            own(&path, if name == "pid" { 0 } else { postfix }, group);
            set_mode(&path, mode);
        }
        self.write("etc/main.cf", &self.main_cf(settings));
        self.write("etc/master.cf", &self.master_cf(settings));
    }

    fn main_cf(&self, settings: &PostfixSettings) -> String {
        let (dir, remote) = (self.dir.path().display(), settings.remote);
        let yes_or_no = |yes| if yes { "yes" } else { "no" };
        let mut text = format!(
            "compatibility_level = 3.6
queue_directory = {dir}/queue
data_directory = {dir}/data
maillog_file = {dir}/log/mail.log
maillog_file_prefixes = {dir}
myhostname = mx.example.org
mydomain = example.org
myorigin = example.org
mydestination =
local_transport = error:5.1.1 no local delivery
alias_maps =
alias_database =
local_recipient_maps =
notify_classes =
mynetworks = 127.0.0.255/32
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtpd_peername_lookup = no
smtp_dns_support_level = disabled
smtp_host_lookup = native
relayhost = [{}]:{}
virtual_alias_domains =
recipient_delimiter = +
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
minimal_backoff_time = {}s
maximal_backoff_time = {}s
queue_run_delay = {}s
maximal_queue_lifetime = {}s
bounce_queue_lifetime = {}s
enable_long_queue_ids = {}
message_size_limit = 52428800
smtputf8_enable = yes
biff = no
",
            remote.ip(),
            remote.port(),
            settings.backoff_seconds,
            settings.backoff_seconds,
            settings.backoff_seconds,
            settings.queue_lifetime_seconds,
            settings.queue_lifetime_seconds,
            yes_or_no(settings.long_queue_ids),
        );
        text += &self.recipients(&settings.recipients);
        text += &match &settings.delivery {
            PostfixDelivery::Lmtp(socket) => format!("virtual_transport = lmtp:unix:{}\n", socket.display()),
            PostfixDelivery::Maildirs => format!(
                "virtual_transport = virtual\nvirtual_mailbox_base = {dir}/mail\nvirtual_minimum_uid = 1\nvirtual_mailbox_limit = 0\n\
                 virtual_uid_maps = static:{MAIL_OWNER}\nvirtual_gid_maps = static:{MAIL_OWNER}\n"
            ),
        };
        if let Some((certificate, key)) = &settings.tls {
            text += &format!(
                "smtpd_tls_security_level = may\nsmtpd_tls_cert_file = {}\nsmtpd_tls_key_file = {}\n",
                certificate.display(),
                key.display()
            );
        }
        let further = settings.parameters.iter().map(|(name, value)| format!("{name} = {value}\n"));
        text + &further.collect::<String>()
    }

    fn recipients(&self, recipients: &PostfixRecipients) -> String {
        let (domains, mailboxes, aliases) = match recipients {
            PostfixRecipients::Tables { domains, mailboxes, aliases } => {
                (domains.clone(), mailboxes.clone(), aliases.clone())
            }
            PostfixRecipients::Fixed { domains, mailboxes, aliases } => {
                let table = |name: &str, rows: Vec<String>| {
                    self.write(name, &rows.concat());
                    format!("texthash:{}", self.path(name).display())
                };
                let rows = mailboxes.iter().map(|mailbox| format!("{mailbox} {}/\n", maildir(mailbox).display()));
                let mailboxes = table("etc/mailboxes", rows.collect());
                let rows = aliases.iter().map(|(from, to)| format!("{from} {to}\n"));
                (domains.join(", "), mailboxes, table("etc/aliases", rows.collect()))
            }
        };
        format!(
            "virtual_mailbox_domains = {domains}\nvirtual_mailbox_maps = {mailboxes}\nvirtual_alias_maps = {aliases}\n"
        )
    }

    fn master_cf(&self, settings: &PostfixSettings) -> String {
        let logger = (!settings.separate_logger).then_some(&LOGGER);
        let daemons: String = DAEMONS.iter().chain(logger).map(|line| format!("{line}\n")).collect();
        format!(
            "{} inet n - n - - smtpd\n{} inet n - n - - smtpd\n  -o syslog_name=postfix/api\n  \
             -o mynetworks=127.0.0.0/8\n  -o smtpd_relay_restrictions=permit_mynetworks,reject\n  \
             -o smtpd_client_event_limit_exceptions=127.0.0.0/8\n{daemons}",
            self.smtp, self.api
        )
    }

    fn write(&self, name: &str, text: &str) {
        let mut file = File::create(self.path(name)).expect("a file");
        file.write_all(text.as_bytes()).expect("room for a file");
        #[expect(clippy::disallowed_methods, reason = "file times use the machine's clock")]
        let before = SystemTime::now() - OLD_ENOUGH;
        file.set_modified(before).expect("the file's time can be set");
    }
}

const QUEUE: [(&str, u32); 14] = [
    ("active", 0o700),
    ("bounce", 0o700),
    ("corrupt", 0o700),
    ("defer", 0o700),
    ("deferred", 0o700),
    ("flush", 0o700),
    ("hold", 0o700),
    ("incoming", 0o700),
    ("maildrop", 0o730),
    ("pid", 0o755),
    ("private", 0o700),
    ("public", 0o710),
    ("saved", 0o700),
    ("trace", 0o700),
];

const DAEMONS: [&str; 18] = [
    "pickup unix n - n 60 1 pickup",
    "cleanup unix n - n - 0 cleanup",
    "qmgr unix n - n 300 1 qmgr",
    "tlsmgr unix - - n 1000? 1 tlsmgr",
    "rewrite unix - - n - - trivial-rewrite",
    "bounce unix - - n - 0 bounce",
    "defer unix - - n - 0 bounce",
    "trace unix - - n - 0 bounce",
    "verify unix - - n - 1 verify",
    "flush unix n - n 1000? 0 flush",
    "proxymap unix - - n - - proxymap",
    "smtp unix - - n - - smtp",
    "error unix - - n - - error",
    "retry unix - - n - - error",
    "discard unix - - n - - discard",
    "lmtp unix - - n - - lmtp",
    "virtual unix - n n - - virtual",
    "anvil unix - - n - 1 anvil",
];

const LOGGER: &str = "postlog unix-dgram n - n - 1 postlogd";

pub(super) fn id_of(option: &str, user: &str) -> u32 {
    let output = Command::new("id").args([option, user]).output().expect("id(1) runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_else(|_| panic!("there is no user {user}"))
}

fn group_of(name: &str) -> u32 {
    let groups = fs::read_to_string("/etc/group").expect("the groups");
    let line = groups.lines().find(|line| line.split(':').next() == Some(name));
    let number = line.and_then(|line| line.split(':').nth(2)).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("there is no group {name}"))
}

pub(super) fn own(path: &Path, user: u32, group: u32) {
    let owned = chown(path, Some(user), Some(group));
    owned.unwrap_or_else(|error| panic!("a private Postfix needs root ({}: {error})", path.display()));
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions can be set");
}
