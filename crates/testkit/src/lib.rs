//! Test support: a controlled clock, reproducible randomness, a scripted remote mail server, and a whole
//! server in a temporary directory.
//!
//! Without the default feature `app`, only the support for the store's own tests is built.

#[cfg(feature = "app")]
mod app;
#[cfg(feature = "app")]
mod backend;
mod clock;
mod copied_program;
mod database;
pub mod dialog;
#[cfg(feature = "app")]
mod dns;
#[cfg(feature = "mail-server")]
mod dovecot;
mod entropy;
mod foreign_users;
mod guard;
mod hand_in;
#[cfg(feature = "mail-server")]
mod hooked;
mod logger;
#[cfg(feature = "mail-server")]
mod mail_server;
mod name_server;
mod pebble;
mod ports;
mod postfix;
mod postgres;
mod real_rspamd;
mod runtime;
pub mod scripted_imap;
mod scripted_rspamd;
mod signal;
mod sink;
mod strict_smtp;
#[cfg(feature = "mail-server")]
mod submission_recorder;

#[cfg(feature = "app")]
pub use app::{Answer, PASSWORD, TestApp, TestSettings};
#[cfg(feature = "app")]
pub use backend::{TestBackend, TestMailServer, TestMailServerParts};
pub use clock::{FakeClock, RealClock};
pub use copied_program::start_copy;
pub use database::{OlderDatabase, TestDatabase, TestEngine};
#[cfg(feature = "app")]
pub use dns::{FakeDns, HangingDns};
#[cfg(feature = "mail-server")]
pub use dovecot::{Dovecot, DovecotFormat, DovecotSettings};
pub use entropy::SeededEntropy;
pub use foreign_users::{ForeignSchema, ForeignUsers};
pub use guard::TestDirectory;
#[cfg(feature = "mail-server")]
pub use hooked::{HookedProvisioning, ProvisioningHook};
#[cfg(feature = "mail-server")]
pub use mail_server::{MailServerPorts, RealMailServer};
pub use name_server::{NameServerProgram, RealNameServer};
pub use pebble::{Pebble, PebbleSettings};
pub use ports::free_port;
pub use postfix::{Postfix, PostfixDelivery, PostfixRecipients, PostfixSettings};
pub use postgres::{PostgresDatabase, PostgresServer};
pub use real_rspamd::RealRspamd;
pub use runtime::turns_of_the_runtime;
pub use scripted_rspamd::{RspamdRequest, ScriptedRspamd};
pub use signal::{StoppedProcess, kill_children, send_signal};
pub use sink::{Received, SmtpSink};
pub use strict_smtp::{Moment, Reaction, StrictRecord, StrictServer, StrictSmtp};
#[cfg(feature = "mail-server")]
pub use submission_recorder::SubmissionRecorder;
