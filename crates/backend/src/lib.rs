//! The port to a mail server, and the contract suite that every backend passes.
