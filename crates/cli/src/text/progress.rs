//! Shows progress on the terminal, once a command has taken more than a second.

#![forbid(unsafe_code)]

use std::{
    io::{self, IsTerminal},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for work of a known length, on standard error if that is a terminal.
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

    /// Adds work that was done.
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

/// A line for work of unknown length, on standard error if that is a terminal; removed when dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Option<(Sender<()>, thread::JoinHandle<()>)>);

impl Waiting {
    pub(crate) fn new(what: String) -> Waiting {
        if !io::stderr().is_terminal() {
            return Waiting(None);
        }
        let (sender, receiver) = mpsc::channel();
        // The work itself cannot look at the clock, so a thread does.
        let thread = thread::spawn(move || {
            if receiver.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let bar = ProgressBar::new_spinner().with_message(what);
                bar.enable_steady_tick(Duration::from_millis(100));
                let _ = receiver.recv();
                bar.finish_and_clear();
            }
        });
        Waiting(Some((sender, thread)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
