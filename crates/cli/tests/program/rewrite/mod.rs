//! The commands that write other snapshots: `fix`, `slim`, `merge`, `split` and `convert`.

mod commands;
mod fix;
mod windows;
