//! What record, watch, attach and the pages that follow programs share: the tapes of a run, and what recorded processes
//! hold.
//!
//! `found` finds the tapes, `watched` follows one process, `figures` are shown for a device, and `all` has the
//! processes. `detail` is how much is read of them, `work` measures the cost, and `saved` writes snapshots. `libraries`
//! are preloaded into a program if it is `preloadable`.

#![forbid(unsafe_code)]

pub(crate) mod all;
pub(crate) mod detail;
pub(crate) mod figures;
pub(crate) mod found;
pub(crate) mod libraries;
pub(crate) mod preloadable;
pub(crate) mod process_root;
pub(crate) mod saved;
pub(crate) mod tape_file;
pub(crate) mod watched;
mod work;
