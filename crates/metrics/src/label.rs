//! Labels with a fixed set of values.

use std::marker::PhantomData;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// A label with its value.
pub(crate) type LabelSet = [(&'static str, &'static str); 1];

/// A label with a fixed set of values.
pub(crate) trait Label: Copy + 'static {
    /// Name of the label.
    const NAME: &'static str;
    /// All values.
    const ALL: &'static [Self];

    /// Returns the value in the text format.
    fn value(self) -> &'static str;

    /// Returns the place in [`Label::ALL`].
    fn place(self) -> usize;
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident, $label:literal { $($(#[$doc_of_value:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc_of_value])* $value,)+
        }

        impl Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$value),+];

            fn value(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }

            fn place(self) -> usize {
                self as usize
            }
        }
    };
}

label! {
    /// What became of a recipient of a message sent through the API.
    Recipient, "outcome" {
        /// The mail server accepted it; one of the others but `refused` follows.
        Accepted = "accepted",
        /// The mail server refused it at submission.
        Refused = "refused",
        /// Delivered, or accepted by the next mail server.
        Delivered = "delivered",
        /// Returned as undeliverable, possibly after `delivered`.
        Bounced = "bounced",
        /// Given up by the mail server without a delivery.
        Failed = "failed",
    }
}

label! {
    /// Where an unfinished message is.
    QueueState, "state" {
        /// Its hand-over to the mail server has no result yet.
        Pending = "pending",
        /// At the mail server, which has not attempted a delivery.
        Queued = "queued",
        /// At the mail server, after a failed attempt.
        Deferred = "deferred",
    }
}

label! {
    /// Work in the background of the mail server.
    Work, "work" {
        /// Adding messages to the search index.
        Index = "index",
        /// Deleting messages of emptied mailboxes and deleted folders.
        Removal = "removal",
    }
}

label! {
    /// Class of the reply that ended a delivery attempt.
    CodeClass, "code_class" {
        /// Success.
        Success = "2xx",
        /// Temporary failure.
        Transient = "4xx",
        /// Permanent failure.
        Permanent = "5xx",
        /// There was no reply.
        None = "none",
    }
}

label! {
    /// What became of mail from outside.
    Inbound, "outcome" {
        /// Accepted.
        Accepted = "accepted",
        /// Accepted and marked as spam.
        Spam = "spam",
        /// Rejected during the SMTP session.
        Rejected = "rejected",
    }
}

label! {
    /// What the spam filter asked for.
    SpamCheck, "result" {
        /// To deliver the message.
        Passed = "passed",
        /// To mark it as spam.
        Marked = "marked",
        /// To refuse it for now.
        Deferred = "deferred",
        /// To refuse it.
        Rejected = "rejected",
        /// Nothing: it gave no answer in time, so the message passed.
        Failed = "failed",
    }
}

label! {
    /// What greylisting did with a message of a sender who is not authenticated.
    Greylisted, "result" {
        /// It was refused for now.
        Deferred = "deferred",
        /// Its client had tried before.
        Passed = "passed",
    }
}

label! {
    /// Result of a login with a password.
    LogIn, "result" {
        /// Address and password are right.
        Accepted = "accepted",
        /// Address or password is wrong.
        Refused = "refused",
        /// The mailbox is locked after too many failures.
        Locked = "locked",
        /// The client is delayed after too many failures.
        ClientDelayed = "client_delayed",
        /// The password could not be checked.
        Unavailable = "unavailable",
    }
}

label! {
    /// Result of an attempt to send an event to a webhook.
    Webhook, "result" {
        /// The receiver accepted it.
        Delivered = "delivered",
        /// The receiver answered with another status.
        Refused = "refused",
        /// The receiver asked for a pause.
        Slow = "slow",
        /// The receiver wants no more events.
        Gone = "gone",
        /// There was no answer.
        Failed = "failed",
    }
}

label! {
    /// How a connection to another mail server was protected, or why it could not be (RFC 8460 section 4.3).
    OutboundTls, "result" {
        /// The certificate was verified.
        Verified = "verified",
        /// Encrypted with any certificate.
        Unverified = "unverified",
        /// Not encrypted.
        Plain = "plain",
        /// A policy or TLSA records require TLS, which the server does not offer.
        NotOffered = "starttls-not-supported",
        /// A policy or TLSA records require TLS, and the certificate is for other names.
        HostMismatch = "certificate-host-mismatch",
        /// A policy or TLSA records require TLS, and the certificate has expired.
        Expired = "certificate-expired",
        /// A policy or TLSA records require TLS, and the issuer is not trusted.
        NotTrusted = "certificate-not-trusted",
        /// A policy or TLSA records require TLS, and another part of the check failed.
        Invalid = "validation-failure",
        /// The policy could not be fetched.
        PolicyNotFetched = "sts-policy-fetch-error",
        /// The certificate of the policy's host is not valid.
        PolicyNotAuthentic = "sts-webpki-invalid",
        /// The policy has errors.
        PolicyInvalid = "sts-policy-invalid",
        /// The server has TLSA records, none of which can be used.
        TlsaInvalid = "tlsa-invalid",
        /// The look-up of TLSA records failed.
        DnssecInvalid = "dnssec-invalid",
    }
}

/// One counter for each value of a label. All values are shown from the start, so that rates begin at zero.
pub(crate) struct Counters<L> {
    counters: Vec<Counter>,
    label: PhantomData<L>,
}

impl<L: Label> Counters<L> {
    pub(crate) fn register(registry: &mut Registry, name: &str, help: &str) -> Self {
        let family = Family::<LabelSet, Counter>::default();
        let counter = |value: &L| family.get_or_create_owned(&[(L::NAME, value.value())]);
        let counters = L::ALL.iter().map(counter).collect();
        registry.register(name, help, family);
        Self { counters, label: PhantomData }
    }

    pub(crate) fn add(&self, value: L, count: u64) {
        self.counters[value.place()].inc_by(count);
    }
}
