//! The thread that looks at the devices: what they report as used, what streams have passed.
#![forbid(unsafe_code)]

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    looks, signals,
    state::{State, record},
};

/// How often the thread looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// Starts the thread, unless it runs, and has it look.
pub(crate) fn start(state: &State) {
    let started = state.waker.thread.get_or_try_init(|| {
        let _blocked = signals::blocked();
        let builder = thread::Builder::new().name("memreel-look".into());
        builder.spawn(run).map(|handle| Box::new(handle.thread().clone()))
    });
    if started.is_ok() {
        state.waker.wake();
    }
}

fn run() {
    let mut next = Instant::now();
    loop {
        thread::park_timeout(INTERVAL);
        // A program that reaches peak after peak is looked at ten times as often, and not more.
        let now = Instant::now();
        if now < next {
            thread::sleep(next - now);
        }
        next = Instant::now() + INTERVAL / 10;
        if record(looks::look_at_all).is_none() {
            return;
        }
    }
}
