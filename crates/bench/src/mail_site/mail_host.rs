//! A private Postfix and Dovecot with a full INBOX, as the mail server of the product.

use std::path::Path;

use mailapi_testkit::{Dovecot, Postfix, PostfixSettings};

use crate::mail::{Author, PROBED, READER, RECEIVER, WRITER};
use crate::outcome::{Failure, Outcome};
use crate::process::Process;
use crate::scale::Scale;
use crate::server::Product;

/// The floor opens sixteen connections to one mailbox; Dovecot's default is ten.
const MANY_CONNECTIONS: &str = "protocol imap {\n mail_max_userip_connections = 64\n}\n";
/// A port without a listener; Postfix discards mail for others instead.
const NOWHERE: ([u8; 4], u16) = ([127, 0, 0, 1], 9);
/// The programs that must be installed.
const NEEDED: [&str; 2] = ["/usr/sbin/postfix", "/usr/sbin/dovecot"];

/// The mail servers of the product.
pub(crate) struct MailHost {
    pub(crate) postfix: Postfix,
    pub(crate) dovecot: Dovecot,
}

impl MailHost {
    /// Starts both and fills the INBOX that is read, a maildir. Postfix accepts mail for all recipients and
    /// discards it at delivery, which costs little more than accepting it.
    pub(crate) async fn open(scale: &Scale) -> Outcome<Self> {
        if let Some(missing) = NEEDED.iter().find(|program| !Path::new(program).exists()) {
            return Err(Failure::new(format!("{missing} does not exist; install Postfix and Dovecot, as ./test does")));
        }
        let dovecot = Dovecot::start_with(MANY_CONNECTIONS).await;
        for mailbox in [READER, WRITER, RECEIVER, PROBED] {
            dovecot.put_mailbox(mailbox, None);
        }
        let author = Author::new();
        for number in 0..scale.messages {
            dovecot.drop_message(READER, u32::try_from(number)?, author.stored_message(number, scale).as_bytes());
        }
        let mut settings = PostfixSettings::new(&[], NOWHERE.into());
        settings.parameters.push(("default_transport".to_owned(), "discard:".to_owned()));
        let postfix = Postfix::start(&settings).await;
        Ok(Self { postfix, dovecot })
    }

    /// The product with settings that select these servers.
    pub(crate) fn in_front(&self, product: &Product) -> Product {
        self.following(product, &self.postfix.log())
    }

    /// The product with settings that select these servers, and another log than Postfix' own.
    pub(crate) fn following(&self, product: &Product, log: &Path) -> Product {
        product
            .with("MAILAPI_MAIL__BACKEND", "external")
            .with("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", &self.postfix.api().port().to_string())
            .with("MAILAPI_MAIL__EXTERNAL__IMAP__PORT", &self.dovecot.imap().port().to_string())
            .with("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_USER", Dovecot::MASTER_USER)
            .with("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", Dovecot::MASTER_PASSWORD)
            .with("MAILAPI_MAIL__EXTERNAL__LOG__PATH", &log.display().to_string())
    }

    /// Dovecot's processes, for their processor time.
    pub(crate) fn dovecot_process(&self) -> Outcome<Process> {
        family(self.dovecot.process_id())
    }

    /// Postfix' processes, for their processor time.
    pub(crate) fn postfix_process(&self) -> Outcome<Process> {
        family(self.postfix.process_id())
    }

    /// The numbers of messages that Postfix has accepted, and that have left its queue, by its log.
    pub(crate) fn taken_and_removed(&self) -> Outcome<(usize, usize)> {
        let log = std::fs::read_to_string(self.postfix.log())?;
        let count = |is_such: fn(&str) -> bool| log.lines().filter(|line| is_such(line)).count();
        Ok((
            count(|line| line.contains("/cleanup[") && line.contains(": message-id=<")),
            count(|line| line.ends_with(": removed")),
        ))
    }
}

fn family(process: Option<u32>) -> Outcome<Process> {
    process.map(Process::Family).ok_or_else(|| Failure::new("a mail server has ended"))
}
