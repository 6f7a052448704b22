//! Requests of other threads and signal handlers to the thread of triggers.
#![forbid(unsafe_code)]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use crate::trigger::{
    signal_number::{N_SIGNALS, Signal},
    thread::futex::Futex,
};

/// Rings at every request.
pub(in crate::trigger) static BELL: Futex = Futex::new();
pub(in crate::trigger) static EXIT: Request = Request::new();
pub(in crate::trigger) static PANIC: Request = Request::new();
/// By the number of the signal.
static SIGNALS: [Request; N_SIGNALS] = [const { Request::new() }; N_SIGNALS];

/// A kind of request. Several requests before the thread runs are served once.
#[derive(Debug)]
pub(in crate::trigger) struct Request {
    /// The number of requests so far.
    asked: AtomicU32,
    /// The value of `asked` up to which requests were served.
    served: Futex,
}

impl Request {
    const fn new() -> Request {
        Request { asked: AtomicU32::new(0), served: Futex::new() }
    }

    /// Adds a request, and returns a ticket to wait with. It may be called in a signal handler.
    pub(in crate::trigger) fn ask(&self) -> u32 {
        let ticket = self.asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        BELL.increase();
        ticket
    }

    /// Returns the ticket of the latest request.
    pub(in crate::trigger) fn latest(&self) -> u32 {
        self.asked.load(Ordering::Acquire)
    }

    /// Serves the requests that are not served yet.
    pub(in crate::trigger) fn serve(&self, work: impl FnOnce()) {
        let asked = self.latest();
        if self.served.get() != asked {
            work();
            self.served.set(asked);
        }
    }

    /// Waits until the request of a ticket is served; returns whether that was before the deadline.
    pub(in crate::trigger) fn wait(&self, ticket: u32, until: Instant) -> bool {
        loop {
            let served = self.served.get();
            if served.wrapping_sub(ticket).cast_signed() >= 0 {
                return true;
            }
            let Some(time) = until.checked_duration_since(Instant::now()).filter(|time| !time.is_zero())
            else {
                return false;
            };
            self.served.wait(served, Some(time));
        }
    }

    fn forget(&self) {
        self.served.set(self.latest());
    }
}

/// Returns the request that a signal makes.
pub(in crate::trigger) fn of_signal(number: i32) -> Option<&'static Request> {
    SIGNALS.get(usize::try_from(number).ok()?)
}

/// Serves the signals that arrived.
pub(in crate::trigger) fn serve_signals(work: impl Fn(Signal)) {
    for (number, request) in (0_i32..).zip(&SIGNALS) {
        request.serve(|| {
            if let Some(signal) = Signal::numbered(number) {
                work(signal);
            }
        });
    }
}

/// Forgets all requests, in a child of `fork`.
pub(in crate::trigger) fn forget_all() {
    [&EXIT, &PANIC].into_iter().chain(&SIGNALS).for_each(Request::forget);
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn a_wish_is_done_once_and_waited_for() {
        static REQUEST: Request = Request::new();
        let tickets = [REQUEST.ask(), REQUEST.ask()];
        assert!(!REQUEST.wait(tickets[0], Instant::now() + Duration::from_millis(10)));
        let waiting =
            thread::spawn(move || REQUEST.wait(tickets[1], Instant::now() + Duration::from_secs(20)));
        let mut n = 0;
        REQUEST.serve(|| n += 1);
        REQUEST.serve(|| n += 1);
        assert_eq!(n, 1);
        assert!(waiting.join().unwrap() && REQUEST.wait(tickets[0], Instant::now()));
    }

    /// A request that arrives during the work is served again.
    #[test]
    fn a_wish_during_the_work_is_not_lost() {
        static REQUEST: Request = Request::new();
        REQUEST.ask();
        let mut ticket = 0;
        REQUEST.serve(|| ticket = REQUEST.ask());
        assert!(!REQUEST.wait(ticket, Instant::now()));
        REQUEST.serve(|| {});
        assert!(REQUEST.wait(ticket, Instant::now()));
    }
}
