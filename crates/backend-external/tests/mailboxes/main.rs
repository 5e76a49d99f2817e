//! Mailboxes over IMAP: against a private Dovecot, and against a server that plays a script.

mod against_dovecot;
mod agreement;
mod contract;
mod faults;
mod fixture;
mod scripted;
