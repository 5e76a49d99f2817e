//! The PostgreSQL engine by itself: who is let in, what several nodes may do at once, and what is survived.

mod connecting;
mod faults;
mod migrating;
mod nodes;
mod support;
mod trying_again;
