//! The thread that looks at the devices: what they report as used, what streams have passed.
#![forbid(unsafe_code)]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use once_cell::race::OnceBox;

use super::{
    gpu::Gpu,
    looks::Looks,
    signals,
    state::{State, record},
};

/// How often the thread looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// The sampling thread, once there is a context.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    thread: OnceBox<Thread>,
    /// The most bytes that were accounted for when a peak was last looked at, of all devices.
    peak_bytes: AtomicU64,
}

impl Sampler {
    /// Starts the thread, and has it look at a device.
    pub(crate) fn start(&self, _: &Gpu) {
        let started = self.thread.get_or_try_init(|| {
            let _blocked = signals::blocked();
            let builder = thread::Builder::new().name("memreel-look".into());
            builder.spawn(run).map(|handle| Box::new(handle.thread().clone()))
        });
        if let Ok(thread) = started {
            thread.unpark();
        }
    }

    /// Has the thread look now.
    pub(crate) fn wake(&self) {
        self.thread.get().into_iter().for_each(Thread::unpark);
    }

    /// Notes that more may be accounted for on a device; a new peak is looked at.
    #[inline]
    pub(crate) fn note(&self, gpu: &Gpu) {
        let bytes = gpu.booked_bytes() + gpu.pool_bytes();
        let peak = self.peak_bytes.load(Ordering::Relaxed);
        // Not every few bytes: a look takes microseconds of a processor.
        if bytes > peak + peak / 64 + (1 << 20) {
            self.peak_bytes.store(bytes, Ordering::Relaxed);
            self.wake();
        }
    }
}

fn run() {
    let mut looks = Looks::default();
    let mut next = Instant::now();
    loop {
        thread::park_timeout(INTERVAL);
        // A program that reaches peak after peak is looked at ten times as often, and not more.
        let now = Instant::now();
        if now < next {
            thread::sleep(next - now);
        }
        next = Instant::now() + INTERVAL / 10;
        if record(|state: &'static State| looks.look(state)).is_none() {
            return;
        }
    }
}
