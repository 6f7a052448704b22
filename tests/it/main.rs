//! Every integration test, in one binary. What belongs where:
//!
//! - `layers`: which room may import which.
//! - `scenario`: the allocator against recordings of PyTorch's, through `replay`.

mod layers;
mod replay;
mod scenario;
