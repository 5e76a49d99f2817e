//! The rules of the fuzz target, checked for its seeds.

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/src/mime.rs"]
mod mime;
#[path = "../../../fuzz/src/script.rs"]
mod script;

#[test]
fn every_seed_is_read_by_the_rules() {
    corpus::for_each_seed("mime", 10, mime::check);
}
