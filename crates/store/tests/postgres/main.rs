//! Tests of the PostgreSQL engine: connecting, concurrent nodes, and faults.

mod connecting;
mod faults;
mod migrating;
mod nodes;
mod support;
mod trying_again;
