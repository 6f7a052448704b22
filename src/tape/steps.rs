//! The steps by which a process has extended a tape's file, and the slots in them.

use std::ptr::NonNull;

use super::{
    layout::{SLOT_BYTES, STEP_SLOTS},
    windows::Windows,
};

/// The slots of a file.
#[derive(Debug, Default)]
pub(super) struct Slots {
    steps: Vec<Step>,
    free: Vec<u32>,
    /// How many slots of these steps were used; later ones are zeros.
    n_used: usize,
    pub(super) windows: Windows,
}

/// The memory of a step of slots, and its place among the file's steps.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) at: NonNull<u8>,
    pub(super) place: usize,
    /// Whether it has its own mapping instead of being in a window.
    pub(super) is_alone: bool,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Step {}

impl Slots {
    /// Returns whether every slot of these steps was used.
    pub(super) fn are_used(&self) -> bool {
        self.n_used == self.steps.len() * STEP_SLOTS
    }

    /// Adds a step, which comes after earlier ones in the file.
    pub(super) fn add(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Takes a slot that was freed; returns its number and its memory.
    pub(super) fn reused(&mut self) -> Option<(u32, NonNull<u8>)> {
        let number = self.free.pop()?;
        Some((number, self.place(number)?))
    }

    /// Takes a slot back, for the next use.
    pub(super) fn take_back(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Returns the memory of all steps with their own mappings, which are no longer used.
    pub(super) fn end(&mut self) -> impl Iterator<Item = NonNull<u8>> {
        self.steps.drain(..).filter(|step| step.is_alone).map(|step| step.at)
    }

    /// Returns the memory of a step by which this process has extended the file, by its place in the file.
    pub(super) fn step(&self, place: usize) -> Option<NonNull<u8>> {
        let step = self.steps.binary_search_by_key(&place, |step| step.place).ok()?;
        Some(self.steps[step].at)
    }

    /// Returns the memory of a slot in these steps.
    fn place(&self, number: u32) -> Option<NonNull<u8>> {
        let (place, at) = (number as usize / STEP_SLOTS, number as usize % STEP_SLOTS);
        // SAFETY: slot `at` of a step of `STEP_SLOTS`.
        Some(unsafe { self.step(place)?.add(at * SLOT_BYTES) })
    }

    /// Takes the first slot that was never used; returns its number and its memory.
    pub(super) fn fresh(&mut self) -> Option<(u32, NonNull<u8>)> {
        let (step, at) = (self.steps.get(self.n_used / STEP_SLOTS)?, self.n_used % STEP_SLOTS);
        let number = u32::try_from(step.place * STEP_SLOTS + at).ok()?;
        self.n_used += 1;
        Some((number, self.place(number)?))
    }
}
