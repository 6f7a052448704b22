//! Recording options from the environment that override the program's.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::recorder::{Context, Enabled, Recording, StackKind};
use crate::trigger::files::{pattern, template::Template};

/// The recording options that are named; the others remain as the program sets them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overlay {
    pub(crate) enabled: Option<Enabled>,
    pub(crate) context: Option<Context>,
    pub(crate) stacks: Option<StackKind>,
    pub(crate) max_entries: Option<usize>,
    pub(crate) min_size_bytes: Option<u64>,
    pub(crate) sample_bytes: Option<u64>,
    pub(crate) tape: Option<Template>,
}

impl Overlay {
    /// Returns the path of a reel's tape, if one is named: for the first reel of the process the named path, for later
    /// ones with a number.
    pub(crate) fn tape_of_reel(&self) -> Option<PathBuf> {
        static N_REELS: AtomicU64 = AtomicU64::new(0);
        let path = self.tape.as_ref()?.clone().absolute().of_process();
        Some(match N_REELS.fetch_add(1, Ordering::Relaxed) {
            0 => path,
            n => {
                let name = path.file_name().unwrap_or(OsStr::new("memreel.tape")).to_string_lossy();
                path.with_file_name(pattern::numbered(&name, n))
            }
        })
    }

    /// Returns the options for a program that did not switch recording on; `None` if it remains off.
    pub(crate) fn alone(&self, tape: Option<&Path>) -> Option<Recording> {
        self.enabled.map(|enabled| self.over(&Recording::all().enabled(enabled), tape))
    }

    /// Returns the program's options overridden by the named ones, and the tape of its reel. A program that switches
    /// recording off switches it off.
    pub(crate) fn over(&self, program: &Recording, tape: Option<&Path>) -> Recording {
        let mut history = program.clone();
        if *program == program.clone().enabled(Enabled::Off) {
            return history;
        }
        if let Some(enabled) = self.enabled {
            history = history.enabled(enabled);
        }
        if let Some(context) = self.context {
            history = history.context(context);
        }
        if let Some(stacks) = self.stacks {
            history = history.stacks(stacks);
        }
        if let Some(max_entries) = self.max_entries {
            history = history.max_entries(max_entries);
        }
        if let Some(bytes) = self.min_size_bytes {
            history = history.min_size(bytes);
        }
        if let Some(bytes) = self.sample_bytes {
            history = history.sample_every(bytes);
        }
        if let Some(tape) = tape {
            history = history.tape(tape);
        }
        history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_options_win_and_a_program_can_switch_off() {
        let overlay = Overlay { max_entries: Some(7), stacks: Some(StackKind::None), ..Overlay::default() };
        let program = Recording::state().min_size(100);
        assert_eq!(overlay.over(&program, None), program.clone().max_entries(7).stacks(StackKind::None));
        assert_eq!((overlay.alone(None), overlay.over(&Recording::off(), None)), (None, Recording::off()));
        let on = Overlay { enabled: Some(Enabled::All), ..overlay };
        assert_eq!(on.alone(None), Some(Recording::all().max_entries(7).stacks(StackKind::None)));
        assert_eq!(
            on.over(&program, None).enabled(Enabled::State),
            program.max_entries(7).stacks(StackKind::None)
        );
        let off = Overlay { enabled: Some(Enabled::Off), ..Overlay::default() };
        assert_eq!(off.over(&Recording::all(), None), Recording::off());
    }
}
