//! Every command meets links, FIFOs, devices, sockets and directories in place of the files of its directories.
//!
//! As root, the tests give the directories to another user, as after a break-in into the server. As an ordinary user they
//! show that no command hangs, and that none follows a link out of the directory.

#[path = "../support/mod.rs"]
mod support;

mod backups;
mod data_directory;
mod places;
mod races;
mod traps;
