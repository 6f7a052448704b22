//! What is served over HTTP: the page about files, the page that follows programs, and metrics.

#![forbid(unsafe_code)]

#[cfg(not(target_family = "wasm"))]
pub(crate) mod address_file;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod browser;
#[cfg(not(target_family = "wasm"))]
mod connections;
#[cfg(target_os = "linux")]
pub(crate) mod live;
#[cfg(target_os = "linux")]
pub(crate) mod metrics;
#[cfg(target_os = "linux")]
pub(crate) mod snapshot_page;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod token;
pub(crate) mod view;
