//! What is served over HTTP: the page about files, the page that follows programs, and metrics.

#![forbid(unsafe_code)]

pub(crate) mod address_file;
pub(crate) mod browser;
mod connections;
#[cfg(target_os = "linux")]
pub(crate) mod live;
#[cfg(target_os = "linux")]
pub(crate) mod metrics;
#[cfg(target_os = "linux")]
pub(crate) mod snapshot_page;
pub(crate) mod token;
pub(crate) mod view;
