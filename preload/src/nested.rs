//! Calls of the driver within calls of the driver, on one thread.
#![forbid(unsafe_code)]

use std::{cell::Cell, marker::PhantomData};

thread_local! {
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// The outermost wrapped call of this thread, while it lives.
///
/// A wrapper calls what comes next, which may be the wrapper of another library, which calls what it took for the
/// driver's function and is this wrapper again. The inner call goes to the driver itself and is not recorded.
#[derive(Debug)]
pub(crate) struct Outermost {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Outermost {
    /// Begins a call; `None` within another, and while the thread's storage is destroyed.
    pub(crate) fn begin() -> Option<Outermost> {
        let was_within = IS_WITHIN.try_with(|is_within| is_within.replace(true)).unwrap_or(true);
        (!was_within).then_some(Outermost { _thread: PhantomData })
    }
}

impl Drop for Outermost {
    fn drop(&mut self) {
        let _ = IS_WITHIN.try_with(|is_within| is_within.set(false));
    }
}
