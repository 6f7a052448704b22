//! Tests of questions about a snapshot: all of them on small histories (`questions`), new blocks (`new_blocks`), sites (`sites`), scopes
//! (`scopes`), failed requests (`oom`), limits in tests (`gate`), growth (`growth`), curves (`timeline`), owners (`owners`), the
//! frames that answers show (`real_stacks`), who had an address (`address`),
//! and peaks that events do not have (`earlier_peak`).
#![forbid(unsafe_code)]

mod address;
mod advice;
mod claims;
mod earlier_peak;
mod gate;
mod growth;
mod hostile;
mod owners;
mod new_blocks;
mod questions;
mod oom;
mod pool_uses;
mod pools;
mod ranks;
mod real_stacks;
mod scopes;
mod sites;
mod streams;
mod timeline;
