//! Calls in the words of the page: short names, and files without folders.

#![forbid(unsafe_code)]

use memreel::{
    analysis::{DeviceHistory, base_name},
    history::Life,
    snapshot::Frame,
};

use crate::names::short;

/// The most characters of a name.
const ROOM: usize = 120;

/// Returns a file without its folders.
pub(super) fn base(filename: &str) -> &str {
    base_name(filename)
}

/// Returns a call: `train.py:12 forward`.
pub(super) fn call(frame: &Frame) -> String {
    let file = base_name(&frame.filename);
    let name = short(&frame.name, ROOM);
    match file {
        "" | "??" => name,
        _ => format!("{file}:{} {name}", frame.line),
    }
}

/// Returns a function: `forward (train.py)`.
pub(super) fn function(frame: &Frame) -> String {
    let file = base_name(&frame.filename);
    let name = short(&frame.name, ROOM);
    if matches!(file, "" | "??") { name } else { format!("{name} ({file})") }
}

/// Returns the call that allocated a block; empty if it is not known.
pub(super) fn site(history: &DeviceHistory<'_>, life: &Life) -> String {
    life.stack.and_then(|stack| history.shown_frames().innermost(stack)).map_or_else(String::new, call)
}
