//! The Python frames of this process, and their check at the start of the interpreter.

use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use memreel::integrate::PythonFrames;
use once_cell::race::OnceBox;

use super::notice;

/// Why this process has no Python frames.
static FAILURE: OnceBox<String> = OnceBox::new();

/// Returns the source of Python frames.
pub(crate) fn frames() -> Arc<PythonFrames> {
    static FRAMES: OnceBox<Arc<PythonFrames>> = OnceBox::new();
    Arc::clone(FRAMES.get_or_init(|| Box::new(PythonFrames::new())))
}

/// Prints why a starting recording has no Python frames, if a check failed.
pub(crate) fn report() {
    if let Some(why) = FAILURE.get() {
        notice::print(&format!("stacks only have native frames: {why}"));
    }
}

/// Compares this thread's Python frames with those that the interpreter reports, and records no Python frames if they
/// differ. Returns 0 if they are equal. `sitecustomize.py` calls it with the interpreter's lock.
#[unsafe(no_mangle)]
extern "C" fn memreel_preload_check_python() -> c_int {
    let check = || frames().check().map_err(|why| why.to_string());
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(_)) => 0,
        Ok(Err(why)) => {
            let _ = FAILURE.set(Box::new(why));
            1
        }
        Err(_) => 1,
    }
}
