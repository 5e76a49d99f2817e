//! The interface as its callers see it: one file for each operation, and some for what holds for all of them.

mod support;

mod bodies;
mod docs;
mod domains;
mod errors;
mod health;
mod limits;
mod mail;
mod mailbox;
mod openapi;
mod permissions;
mod requests;
mod serve;
mod stories;
mod tokens;
mod users;
