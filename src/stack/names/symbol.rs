//! A named frame.
#![forbid(unsafe_code)]

use std::sync::Arc;

/// One call at an address. An address has several if calls were inlined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Symbol {
    /// The name of the function, demangled and without its hash.
    pub(crate) name: Arc<str>,
    /// The full path of its source file, `"??"` if unknown.
    pub(crate) filename: Arc<str>,
    /// The line of the call; 0 if unknown.
    pub(crate) line: u32,
}
