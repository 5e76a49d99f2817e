//! Mailboxes over IMAP: with a private Dovecot, and with a server that plays a script.

mod against_dovecot;
mod agreement;
mod contract;
mod cutting_proxy;
mod drafts;
mod faults;
mod fixture;
mod kept_connection;
mod model_server;
mod quotas;
