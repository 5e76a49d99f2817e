//! The rules of the fuzz targets, checked for their seeds.

use crate::corpus::for_each_seed;
use crate::{imap_client, imap_session};

#[test]
fn the_server_keeps_its_rules_for_every_seed() {
    for_each_seed("imap_session", 15, |input| imap_session::check(input, || 0));
}

#[test]
fn the_client_keeps_its_rules_for_every_seed() {
    for_each_seed("imap_client", 15, |input| imap_client::check(input, || 0));
}
