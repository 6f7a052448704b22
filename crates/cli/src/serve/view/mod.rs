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
mod answering;
mod block;
mod bundle;
mod choice;
mod compare;
mod device;
mod figures;
mod groups;
mod html_file;
mod http;
mod icicle;
mod in_use;
mod list;
mod live;
mod pack;
mod page;
mod picture;
mod question;
mod raster;
mod reading;
mod recording;
mod refusal;
mod request;
mod route;
#[cfg(test)]
mod samples;
mod server;
mod sizes;
mod state;
mod sums;
#[cfg(test)]
mod tests;
mod window;
mod words;

pub(crate) use html_file::save;
pub(crate) use live::Live;
pub(crate) use server::{Address, Serving, listener, refused, serve};
