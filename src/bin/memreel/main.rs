//! memreel
fn main() {}
