//! Reads environment variables, in this one place. A process with more rights than its caller has none: the variables
//! are the caller's, who may not have files written with these rights, or see the process's memory.

use std::{
    env::{self, VarError},
    ffi::OsString,
};

/// Returns a variable of the environment; `None` in a process that started with more rights than its caller: by setuid,
/// setgid or the capabilities of its file.
///
/// Use it instead of [`std::env::var_os`] in a library that others preload or link.
///
/// ```
/// let home = memreel::integrate::variable("HOME");
/// assert_eq!(home, std::env::var_os("HOME"), "this program has the rights of its caller");
/// ```
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    if has_rights_of_others() { None } else { env::var_os(name) }
}

/// Returns a variable as text.
///
/// # Errors
/// The errors of [`env::var`]; a variable that [`variable`] does not return is absent.
pub(crate) fn text(name: &str) -> Result<String, VarError> {
    variable(name).ok_or(VarError::NotPresent)?.into_string().map_err(VarError::NotUnicode)
}

/// Returns whether the kernel started this program with more rights than its caller.
#[cfg(all(target_os = "linux", not(miri)))]
fn has_rights_of_others() -> bool {
    // SAFETY: it reads a table that the kernel wrote before the program began.
    (unsafe { libc::getauxval(libc::AT_SECURE) }) != 0
}

/// Where memreel only reads, it runs with its user's rights.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn has_rights_of_others() -> bool {
    false
}
