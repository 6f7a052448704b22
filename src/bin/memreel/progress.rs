//! A bar on the terminal, once a command has taken more than a second.

use std::{
    io::{self, IsTerminal},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// Work of a known length, shown on standard error if that is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    done: AtomicU64,
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(length: u64) -> Progress {
        let bar = if io::stderr().is_terminal() { ProgressBar::new(length) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} %, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { start: Instant::now(), done: AtomicU64::new(0), bar }
    }

    /// That much more is done.
    pub(crate) fn add(&self, done: u64) {
        let sum = self.done.fetch_add(done, Ordering::Relaxed) + done;
        if self.start.elapsed() > Duration::from_secs(1) {
            self.bar.set_position(sum);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
