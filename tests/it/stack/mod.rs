//! Tests of captures and of the names of stacks.

mod locks;
mod names;
