//! Tests of the PostgreSQL engine: connecting, concurrent nodes, events, and faults.

mod connecting;
mod events;
mod faults;
mod mail_owner;
mod migrating;
mod nodes;
mod support;
mod trying_again;
