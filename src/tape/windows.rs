//! Parts of a tape's file that are mapped before they exist: another process extends the file.

use std::{fs::File, io, ops::Range, ptr::NonNull};

use super::{
    layout::{HEADER_BYTES, STEP_BYTES},
    pages::{advise_random, map, map_again, unmap},
};

/// The number of steps in a window. Address space counts too: programs limit it (`ulimit -v`).
const WINDOW_STEPS: usize = 8;

/// The windows of one file; none if only this process extends it.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<Window>);

#[derive(Debug)]
struct Window {
    /// The places of its steps.
    steps: Range<usize>,
    at: NonNull<u8>,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Windows {}

impl Windows {
    /// Opens the first window of a file, whose header is mapped.
    pub(super) fn open(&mut self, file: &File, header: NonNull<u8>) -> io::Result<()> {
        let at = map(file, HEADER_BYTES as u64, WINDOW_STEPS * STEP_BYTES, Some(header))?;
        // A short process uses only some pages of the first step. Otherwise the system would also read the pages around
        // them.
        advise_random(at, STEP_BYTES);
        self.0.push(Window { steps: 0..WINDOW_STEPS, at });
        Ok(())
    }

    /// Returns the memory of a step, which is inaccessible until the file has the step. A new window for it is opened
    /// without the file, because the program may have closed the descriptor, or have forbidden itself to use it. `None`
    /// if there is no window before it, or if the system refuses another one.
    pub(super) fn step(&mut self, place: usize) -> Option<NonNull<u8>> {
        self.find(place).or_else(|| {
            self.open_next(place)?;
            self.find(place)
        })
    }

    /// Returns the memory of a step in an open window.
    pub(super) fn find(&self, place: usize) -> Option<NonNull<u8>> {
        let window = self.0.iter().find(|window| window.steps.contains(&place))?;
        // SAFETY: a step of the window.
        Some(unsafe { window.at.add((place - window.steps.start) * STEP_BYTES) })
    }

    /// Opens a window that starts with the last step of the previous one, and has the steps from `place` on.
    fn open_next(&mut self, place: usize) -> Option<()> {
        let last = self.0.last()?.steps.end - 1;
        let steps = last..place.max(last) + WINDOW_STEPS;
        let at = map_again(self.find(last)?, steps.len() * STEP_BYTES).ok()?;
        self.0.push(Window { steps, at });
        Some(())
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        for Window { steps, at } in self.0.drain(..) {
            // SAFETY: mapped by `open` or `open_next`; the file's memory is used no more.
            unsafe { unmap(at, steps.len() * STEP_BYTES) };
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn each_step_is_that_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        let mut windows = Windows::default();
        assert_eq!(windows.step(0), None, "not opened");
        windows.open(&file, NonNull::dangling()).unwrap();
        let n_steps = 4 * WINDOW_STEPS;
        file.set_len((HEADER_BYTES + n_steps * STEP_BYTES) as u64).unwrap();
        // Steps that another process takes are left out.
        for place in (0..n_steps).filter(|place| place % 7 != 1) {
            let at = windows.step(place).unwrap();
            assert_eq!(windows.step(place), Some(at));
            // SAFETY: the file has the step.
            unsafe { at.write(place as u8 + 1) };
            let mut byte = [0];
            file.read_exact_at(&mut byte, (HEADER_BYTES + place * STEP_BYTES) as u64).unwrap();
            assert_eq!(byte, [place as u8 + 1]);
        }
        assert!(windows.0.len() > 3);
    }
}
