//! The bounce mailbox, and the feed that reads it.

use std::time::Duration;

use mailapi_backend::DeliveryFeed;
use mailapi_backend_external::bounces::{BounceFeed, BounceKey, BounceLimits, BounceSettings, ReturnAddress};
use mailapi_backend_external::imap_pool::{ImapPool, ImapSettings};
use mailapi_model::{DeliveryEvent, FeedCursor, FolderName, MessageId, Secret, Timestamp};
use mailapi_testkit::{Dovecot, SeededEntropy};
use mailapi_tls::{Trust, client_config};
use tokio::time::Instant;

pub(crate) const MAILBOX: &str = "bounces@example.org";

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct BounceMailbox {
    pub(crate) dovecot: Dovecot,
    pub(crate) feed: BounceFeed,
    pub(crate) cursor: FeedCursor,
}

pub(crate) fn settings(key: u8) -> BounceSettings {
    BounceSettings {
        mailbox: MAILBOX.parse().expect("an address"),
        delimiter: '+',
        folder: FolderName::inbox(),
        key: BounceKey::new([key; BounceKey::BYTES]),
        limits: BounceLimits { poll_interval: Duration::from_millis(10), ..BounceLimits::default() },
    }
}

impl BounceMailbox {
    pub(crate) async fn open(change: impl FnOnce(&mut BounceLimits)) -> Self {
        let dovecot = Dovecot::start_with("").await;
        dovecot.put_mailbox(MAILBOX, None);
        let password = Secret::new(Dovecot::MASTER_PASSWORD.to_owned());
        let imap = ImapSettings::new("127.0.0.1", dovecot.imap().port(), Dovecot::MASTER_USER, password);
        // The mailbox and the server appear and disappear within a test.
        let nothing = Duration::ZERO;
        // An open session survives the server's master process.
        let imap = ImapSettings { unknown_mailbox_pause: nothing, pause: nothing, idle_lifetime: nothing, ..imap };
        let pool = ImapPool::new(imap, client_config(&Trust::System).expect("the system's trusted certificates load"));
        let mut settings = settings(1);
        change(&mut settings.limits);
        let feed = BounceFeed::new(pool, settings).expect("a mailbox with room for return addresses");
        Self { dovecot, feed, cursor: FeedCursor::default() }
    }

    /// Returns the return addresses of another installation.
    pub(crate) fn addresses_of_others() -> ReturnAddress {
        settings(2).return_addresses().expect("return addresses")
    }

    /// Returns the identifier of a submitted message.
    pub(crate) fn id(&self, seed: u64) -> MessageId {
        MessageId::random(Timestamp::from_millis(0), &SeededEntropy::new(seed))
    }

    /// Returns the address for that message's bounces.
    pub(crate) fn address(&self, seed: u64) -> String {
        self.feed.return_addresses().of(self.id(seed))
    }

    /// Delivers a mail to the mailbox.
    pub(crate) fn mail(&mut self, number: u32, text: &str) {
        self.dovecot.drop_message(MAILBOX, number, text.as_bytes());
    }

    /// Delivers a notification that this message failed.
    pub(crate) fn notice(&mut self, number: u32, seed: u64, recipients: &[&str]) {
        self.mail(number, &Self::notice_to(&self.address(seed), recipients, "failed"));
    }

    /// Writes another server's notification about these recipients.
    pub(crate) fn notice_to(address: &str, recipients: &[&str], action: &str) -> String {
        let of = |recipient: &&str| {
            format!(
                "\r\nFinal-Recipient: rfc822; {recipient}\r\nAction: {action}\r\nStatus: 5.1.1\r\n\
                 Diagnostic-Code: smtp; 550 5.1.1 No such user\r\n"
            )
        };
        format!(
            "Return-Path: <>\r\nDelivered-To: {address}\r\nFrom: MAILER-DAEMON@mx.example.net\r\nTo: <{address}>\r\n\
             Content-Type: multipart/report; report-type=delivery-status; boundary=x\r\n\r\n\
             --x\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\
             --x\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example.net\r\n{}--x--\r\n",
            recipients.iter().map(of).collect::<String>()
        )
    }

    /// Reads all new events.
    pub(crate) async fn read(&mut self) -> Vec<DeliveryEvent> {
        let mut events = Vec::new();
        loop {
            let batch = self.feed.read_after(&self.cursor, 100).await.expect("the mailbox can be read");
            self.feed.forget_until(&batch.cursor).await.expect("the feed accepts the cursor");
            self.cursor = batch.cursor;
            events.extend(batch.events);
            if !batch.more {
                return events;
            }
        }
    }

    /// Removes and recreates the mailbox, which changes its UIDVALIDITY: Dovecot uses the time in seconds.
    pub(crate) async fn make_anew(&mut self) {
        let validity =
            |mailbox: &Self| mailbox.dovecot.doveadm(&["mailbox", "status", "-u", MAILBOX, "uidvalidity", "INBOX"]);
        let (before, end) = (validity(self), Instant::now() + PATIENCE);
        while validity(self) == before {
            assert!(Instant::now() < end, "the UIDVALIDITY stays {before}");
            tokio::time::sleep(LOOK_AGAIN).await;
            self.dovecot.remove_mailbox(MAILBOX);
            self.dovecot.put_mailbox(MAILBOX, None);
        }
    }
}
