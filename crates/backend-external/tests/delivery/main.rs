//! Mail through a real Postfix: submission, delivery status from its log, and recovery.

mod encrypted;
mod faults;
mod kept_connection;
mod mail_host;
mod rotation;
mod storm;
mod truth;
