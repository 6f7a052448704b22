//! `memreel view`: a page in a browser that shows recordings, and the server that answers it.
//!
//! ```text
//! commands::view ─► server ─► http ─► route ─► picture, state, icicle, list, block, compare, answer
//!                      │                            └──► device: figures, sizes, groups, choice
//!                      └──► answering ─► reading, recording; live
//! ```
//!
//! The page never gets events. It asks for pictures of windows, which cost the same for ten events and for ten million.

#![forbid(unsafe_code)]

mod action_filter;
mod answer;
#[cfg(not(target_family = "wasm"))]
mod answering;
mod block;
mod bundle;
mod choice;
mod compare;
mod detached;
mod device;
mod figures;
mod groups;
mod html_file;
#[cfg(not(target_family = "wasm"))]
mod http;
mod icicle;
mod in_use;
mod list;
#[cfg(not(target_family = "wasm"))]
mod live;
mod pack;
mod page;
mod picture;
#[cfg(not(target_family = "wasm"))]
mod question;
mod raster;
mod reading;
mod recording;
mod refusal;
mod request;
mod route;
#[cfg(test)]
mod samples;
#[cfg(not(target_family = "wasm"))]
mod server;
mod sizes;
mod state;
mod sums;
#[cfg(test)]
mod tests;
mod window;
mod words;

pub use bundle::page_with;
pub use detached::View;
pub(crate) use html_file::save;
#[cfg(not(target_family = "wasm"))]
pub(crate) use live::Live;
#[cfg(not(target_family = "wasm"))]
pub(crate) use server::{Address, Serving, listener, refused, serve};
