//! Stories about the message store on a temporary database.

mod accept;
mod at_rest;
mod bulk;
mod counters;
mod feed;
mod folders;
mod garbage;
mod queue;
mod queue_changes;
mod reading;
mod recorded;
mod returned;
mod search;
mod test_store;
mod views;
