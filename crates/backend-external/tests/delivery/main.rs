//! Mail through a real Postfix: what is handed over, what its log says, what survives.

mod encrypted;
mod faults;
mod kept_connection;
mod mail_host;
mod rotation;
mod storm;
mod truth;
