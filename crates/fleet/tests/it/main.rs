//! Tests of the tables and of the program, on PyTorch's snapshots.

#![forbid(unsafe_code)]

mod ask;
mod answers;
mod broken;
mod cluster;
mod export;
mod machines;
mod program;
mod pushdown;
mod tape;
