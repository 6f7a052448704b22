//! The folder of the run, as the environment names it.

/// Takes it from the environment of this process, and so from the programs that it starts.
pub(crate) fn leave() {
    // SAFETY: the C library's function, which holds its lock of the environment and moves words within it.
    unsafe { libc::unsetenv(c"MEMREEL_RECORD".as_ptr()) };
}
