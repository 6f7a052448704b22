//! How the program that was recorded ended: `memreel_program_failure` of `allocator_settings`.

use super::{Snapshot, Value, recorded::set_setting};

const FAILURE: &str = "memreel_program_failure";

impl Snapshot {
    /// Returns how the program failed, such as `exit status: 1` or `signal: 11 (SIGSEGV)`; `None` if it succeeded, or
    /// if the file does not have it. `memreel record` writes it for the process that it started.
    #[must_use]
    pub fn program_failure(&self) -> Option<&str> {
        self.allocator_settings()?.get(FAILURE)?.as_text().map(|text| &**text)
    }

    /// Notes how the program failed, if the snapshot has settings.
    #[doc(hidden)]
    pub fn set_program_failure(&mut self, failure: &str) {
        set_setting(self, FAILURE, Value::text(failure));
    }
}
