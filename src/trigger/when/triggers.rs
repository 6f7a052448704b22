//! Selects when snapshots are written, and to which files.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::trigger::{files::template::Template, signal_number::Signal};
use memreel_snapshot::words::{Error, Result};

/// Selects when snapshots are written, and to which files. [`Reel::dump_on`](crate::Reel::dump_on) activates it.
///
/// The path may have placeholders: `{host}`, `{rank}`, `{pid}`, `{time}` (UTC, to the second), `{n}` (the number of the
/// snapshot, counted from 0) and `{cause}`. `{{` is a brace. Folders are created. An existing file is never
/// overwritten: the next one gets a number, as in `snap-1.pickle`. `docs/triggers.md` describes each trigger exactly.
///
/// The same as text, for [`str::parse`] and the variable `MEMREEL`: `dump=oom+exit,file=snap-{pid}.pickle,keep=5`.
///
/// ```
/// use memreel::{Reel, device::Simulated, recorder::Recording, trigger::Triggers};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// let reel = Reel::builder().device(Simulated::new(1 << 30)).history(Recording::all()).build()?;
/// reel.dump_on(&Triggers::to(folder.join("runs/{cause}-{pid}-{time}.pickle")).oom().keep(5))?;
/// let error = reel.alloc(2 << 30).unwrap_err();
/// assert!(error.out_of_memory().unwrap().snapshot.as_ref().unwrap().exists());
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "triggers do nothing until `dump_on`"]
pub struct Triggers {
    pub(in crate::trigger) file: PathBuf,
    pub(in crate::trigger) keep: Option<usize>,
    pub(in crate::trigger) oom: bool,
    pub(in crate::trigger) signals: Vec<Signal>,
    pub(in crate::trigger) exit: bool,
    pub(in crate::trigger) panic: bool,
    pub(in crate::trigger) every: Option<Duration>,
    pub(in crate::trigger) every_bytes: Option<u64>,
    pub(in crate::trigger) peak_bytes: Option<u64>,
}

/// The file of triggers that name no file.
const DEFAULT_FILE: &str = "memreel-{host}-{rank}-{pid}-{time}.pickle";

impl Default for Triggers {
    /// Returns no trigger, and the file `memreel-{host}-{rank}-{pid}-{time}.pickle`.
    fn default() -> Triggers {
        Triggers::to(DEFAULT_FILE)
    }
}

impl Triggers {
    /// Writes to the files of this path; no trigger is set yet. A relative path starts in the folder that is current
    /// when the triggers are activated.
    pub fn to(file: impl Into<PathBuf>) -> Triggers {
        Triggers {
            file: file.into(),
            keep: None,
            oom: false,
            signals: Vec::new(),
            exit: false,
            panic: false,
            every: None,
            every_bytes: None,
            peak_bytes: None,
        }
    }

    /// Keeps the newest `n` files and removes older ones with the same name, except for `{time}`, `{n}`, `{cause}` and
    /// the number added to a taken name. Default: all files are kept.
    pub fn keep(self, n: usize) -> Triggers {
        Triggers { keep: Some(n), ..self }
    }

    /// Writes a snapshot when a request fails, before its error is returned; the error names the file. After a
    /// snapshot, failures in the next second write none.
    pub fn oom(self) -> Triggers {
        Triggers { oom: true, ..self }
    }

    /// Writes a snapshot at each of these signals. The program's own handler is called after memreel's.
    pub fn signal(mut self, signal: Signal) -> Triggers {
        if !self.signals.contains(&signal) {
            self.signals.push(signal);
        }
        self
    }

    /// Writes a snapshot when the process exits, or earlier, when the last handle of the reel is dropped. A reel that
    /// never allocated writes none when it is dropped.
    pub fn exit(self) -> Triggers {
        Triggers { exit: true, ..self }
    }

    /// Writes a snapshot at a panic, before the program's hook runs; at most one per second.
    pub fn panic(self) -> Triggers {
        Triggers { panic: true, ..self }
    }

    /// Writes a snapshot every `interval`, the first one after the first interval.
    pub fn every(self, interval: Duration) -> Triggers {
        Triggers { every: Some(interval), ..self }
    }

    /// Writes a snapshot each time another `bytes` bytes were allocated, summed over all devices.
    pub fn every_bytes(self, bytes: u64) -> Triggers {
        Triggers { every_bytes: Some(bytes), ..self }
    }

    /// Writes a snapshot when the peak of allocated bytes of a device exceeds `bytes`, and again each time the peak has
    /// grown by a twentieth.
    pub fn peak_above(self, bytes: u64) -> Triggers {
        Triggers { peak_bytes: Some(bytes), ..self }
    }

    /// Returns whether the thread of triggers must check the reel from time to time.
    pub(in crate::trigger) fn watches_bytes(&self) -> bool {
        self.every_bytes.is_some() || self.peak_bytes.is_some()
    }

    /// Returns whether memreel's thread writes snapshots: those of failed requests need none.
    pub(in crate::trigger) fn needs_thread(&self) -> bool {
        self.exit || self.panic || !self.signals.is_empty() || self.every.is_some() || self.watches_bytes()
    }

    /// Returns the template of the files.
    ///
    /// # Errors
    /// [`Error::is_invalid_option`] for an unknown placeholder, and for values that can never fire.
    pub(in crate::trigger) fn check(&self) -> Result<Template> {
        let template = match self.file.to_str() {
            Some(text) => Template::parse(text).map_err(|unknown| {
                let why = format!(
                    "unknown placeholder {:?} at character {} of {text:?}; {PLACEHOLDERS}",
                    unknown.text, unknown.at
                );
                Error::invalid_settings("the triggers", why)
            })?,
            None => Template::lenient(&self.file, &[]),
        };
        let invalid = |why: &str| Err(Error::invalid_settings("the triggers", why.to_owned()));
        if self.file.as_os_str().is_empty()
            || self.file.file_name().is_none()
            || ends_in_separator(&self.file)
        {
            return invalid("the path has no file name; use for example snap-{pid}.pickle");
        }
        if self.keep == Some(0) {
            return invalid("no file would be kept; keep at least 1");
        }
        if self.every == Some(Duration::ZERO) || self.every_bytes == Some(0) {
            return invalid("a snapshot every 0 seconds or bytes would never end; use a longer interval");
        }
        if !self.oom && !self.needs_thread() {
            return invalid("no trigger is set; use for example Triggers::to(path).oom()");
        }
        Ok(template)
    }
}

fn ends_in_separator(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The placeholders, in messages.
pub(in crate::trigger) const PLACEHOLDERS: &str =
    "the placeholders are {host}, {rank}, {pid}, {time}, {n} and {cause}";
