//! Tests of names against other readers and on broken files.
#![forbid(unsafe_code)]

mod against_backtrace;
mod broken_files;
mod of_run;
