//! The seeds of the fuzz target `security`, checked by its rules.

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/src/security.rs"]
mod security;

#[test]
fn every_seed_keeps_the_rules() {
    corpus::for_each_seed("security", 7, security::check);
}
