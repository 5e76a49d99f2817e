//! The mailapi binary.
fn main() {}
