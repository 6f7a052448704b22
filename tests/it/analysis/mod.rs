//! Tests of questions about a snapshot: all of them on small histories (`questions`), sites (`sites`), scopes
//! (`scopes`), failed requests (`oom`), limits in tests (`gate`) and curves (`timeline`).
#![forbid(unsafe_code)]

mod gate;
mod questions;
mod oom;
mod scopes;
mod sites;
mod timeline;
