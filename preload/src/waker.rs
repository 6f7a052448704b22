//! Wakes the thread that looks at the devices.
#![forbid(unsafe_code)]

use std::thread::Thread;

use once_cell::race::OnceBox;

/// The sampling thread, once there is a context.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    pub(crate) thread: OnceBox<Thread>,
}

impl Waker {
    /// Has the thread look now.
    pub(crate) fn wake(&self) {
        self.thread.get().into_iter().for_each(Thread::unpark);
    }
}
