//! Checks whether the environment requests a recording.

use std::env;

/// Returns whether the environment requests a recording; false in a program with more rights than its caller, because
/// the environment is the caller's.
pub(crate) fn is_asked_for() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some();
    // SAFETY: it reads a table that the kernel wrote before the program began.
    (unsafe { libc::getauxval(libc::AT_SECURE) }) == 0 && (is_set("MEMREEL_RECORD") || is_set("MEMREEL"))
}
