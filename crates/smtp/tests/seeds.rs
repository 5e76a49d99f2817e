//! The rules of the fuzz targets, checked for their seeds.

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/src/cut.rs"]
mod cut;
#[path = "../../../fuzz/src/script.rs"]
mod script;
#[path = "../../../fuzz/src/smtp_client.rs"]
mod smtp_client;
#[path = "../../../fuzz/src/smtp_session.rs"]
mod smtp_session;

use corpus::for_each_seed;

#[test]
fn the_server_keeps_its_rules_for_every_seed() {
    for_each_seed("smtp_session", 15, |input| smtp_session::check(input, || 0));
}

#[test]
fn the_client_keeps_its_rules_for_every_seed() {
    for_each_seed("smtp_client", 15, smtp_client::check);
}
