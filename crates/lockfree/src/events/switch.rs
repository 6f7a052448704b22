//! The switch of a recording: its mode, its options and its tapes.
//!
//! Switching off stores the mode before the tapes are erased, and switching on stores it after they have their capacity. So an
//! event between the two steps neither survives the erasing nor is dropped for lack of capacity.
#![forbid(unsafe_code)]

use std::sync::{Arc, atomic::Ordering};

use crate::sync::{AtomicU32, Mutex, lock};

/// The mode of a recording that is off.
pub const OFF: u32 = 0;

/// The list of tapes; each belongs to a device `D`.
pub type Tapes<D, T> = Vec<(D, Arc<T>)>;

/// Whether a recorder records, with which options `O`, and on which tapes.
#[derive(Debug)]
pub struct Switch<O, D, T> {
    /// While recording is off, a report costs one load and one branch.
    ///
    /// Relaxed: a thread that reads an old mode writes to its present chunk, whose events an erasure drops. Whether it gets
    /// another chunk is decided under the tape's lock, by the mode that was stored before the tape was erased.
    mode: AtomicU32,
    options: Mutex<O>,
    tapes: Mutex<Tapes<D, T>>,
}

impl<O, D: Copy + PartialEq, T> Switch<O, D, T> {
    /// Returns a switch that is off.
    pub fn off(options: O) -> Switch<O, D, T> {
        Switch { mode: AtomicU32::new(OFF), options: Mutex::new(options), tapes: Mutex::new(Vec::new()) }
    }

    /// Returns the mode.
    #[inline(always)]
    pub fn mode(&self) -> u32 {
        self.mode.load(Ordering::Relaxed)
    }

    /// Returns whether recording is off.
    #[inline(always)]
    pub fn is_off(&self) -> bool {
        self.mode() == OFF
    }

    /// Switches to a mode and its options. `prepare` may change the mode, `reset` is called with each tape, and `rest` with the
    /// other records of the recorder to reset.
    pub fn set(
        &self,
        options: O,
        mode: u32,
        prepare: impl FnOnce() -> u32,
        mut reset: impl FnMut(&T),
        rest: impl FnOnce(),
    ) {
        // The lock serialises switches; recording an event does not take it.
        let mut current = lock(&self.options);
        if mode == OFF {
            self.mode.store(OFF, Ordering::Relaxed);
        }
        let mode = prepare();
        lock(&self.tapes).iter().for_each(|(_, tape)| reset(tape));
        rest();
        self.mode.store(mode, Ordering::Relaxed);
        *current = options;
    }

    /// Ends the recording, and erases nothing.
    pub fn stop(&self) {
        self.mode.store(OFF, Ordering::Relaxed);
    }

    /// Returns the tape of a device; if it has none, the one that `make` returns for the options. `take` takes a lock between
    /// those of the options and the tapes.
    pub fn tape<G>(&self, device: D, take: impl FnOnce() -> G, make: impl FnOnce(&O, &G) -> T) -> Arc<T> {
        // Locked until the tape is in the list: a switch in between would miss
        // the new tape, which would keep the old capacity.
        let options = lock(&self.options);
        let taken = take();
        let mut tapes = lock(&self.tapes);
        let known = tapes.iter().find(|(of, _)| *of == device).map(|(_, tape)| tape.clone());
        known.unwrap_or_else(|| {
            let tape = Arc::new(make(&options, &taken));
            tapes.push((device, tape.clone()));
            tape
        })
    }

    /// Returns the tape of a device, if it has one.
    pub fn known_tape(&self, device: D) -> Option<Arc<T>> {
        lock(&self.tapes).iter().find(|(of, _)| *of == device).map(|(_, tape)| tape.clone())
    }

    /// Calls `work` with what a mutex protects, unless recording is off. This is checked under the lock: switching off stores
    /// the mode before it erases, so nothing is added after the erasing.
    pub fn unless_off<R>(&self, mutex: &Mutex<R>, work: impl FnOnce(&mut R)) {
        let mut value = lock(mutex);
        if !self.is_off() {
            work(&mut value);
        }
    }

    /// Returns the options, with their lock.
    pub fn options(&self) -> &Mutex<O> {
        &self.options
    }

    /// Returns the list of tapes, with its lock.
    pub fn tapes(&self) -> &Mutex<Tapes<D, T>> {
        &self.tapes
    }
}
