//! Stories about the message store on a temporary database.

mod accept;
mod aliases;
mod at_rest;
mod bulk;
mod counters;
mod exporting;
mod feed;
mod folders;
mod garbage;
mod importing;
mod mended;
mod queue;
mod queue_changes;
mod reading;
mod recipients;
mod recorded;
mod returned;
mod rules;
mod search;
mod sent_copy;
mod test_store;
mod views;
