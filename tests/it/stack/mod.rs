//! Tests of captures and of the names of stacks.

mod library;
mod locks;
mod names;
