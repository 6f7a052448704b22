//! Whether the environment asks for a recording.

use std::env;

/// Returns whether the environment asks for a recording; not in a program with more rights than its caller, whose it is.
pub(crate) fn is_asked_for() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some();
    // SAFETY: it reads a table that the kernel wrote before the program began.
    (unsafe { libc::getauxval(libc::AT_SECURE) }) == 0 && (is_set("MEMREEL_RECORD") || is_set("MEMREEL"))
}
