//! Every integration test, in one binary. What belongs where:
//!
//! - `layers`: which room may import which.

mod layers;
