//! Tests of the follower: a log is written, rotated and read in a temporary directory.

mod aliases;
mod attempts;
mod clocks;
mod commands;
mod copies;
mod deletions;
mod forms;
mod golden;
mod interrupted;
mod journal;
mod links;
mod looking_up;
mod losses;
mod received;
mod restarts;
mod rotations;
mod status;
mod stops;
mod strangers;
mod support;
