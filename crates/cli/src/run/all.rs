//! The processes that are watched. They come and go.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use super::{
    detail::Detail,
    figures::Figures,
    found::{Source, of_this_user},
    watched::Watched,
    work::Work,
};
use crate::{exit::Exit, failure::Failure, input::unreadable, text::ShownPath};

/// The minimum pause, as a multiple of the time that the work took, which takes at most a twentieth of a processor.
const PAUSE_BY_WORK: u32 = 20;

/// How often tapes are opened at the beginning until one can be read, and the time between.
const BEGINNINGS: u32 = 10;
const BETWEEN_BEGINNINGS: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// The time in which a thread of a process writes an event that it has begun.
const BETWEEN_READINGS: Duration = Duration::from_millis(20);

/// The processes, by the path of their tapes.
#[derive(Debug)]
pub(crate) struct All {
    /// Empty for all processes of this user.
    sources: Vec<Source>,
    detail: Detail,
    pub(crate) processes: BTreeMap<PathBuf, Watched>,
    /// Why tapes that were found cannot be read, such as those of another version.
    pub(crate) refused: BTreeMap<PathBuf, String>,
    /// The tapes of processes that ended and are not watched any more, while they are there.
    ended: BTreeSet<PathBuf>,
    search_after: Option<Instant>,
    /// The time taken by the work since the last pause, and by the work before that.
    worked: Duration,
    worked_before: Duration,
}

impl All {
    pub(crate) fn new(sources: Vec<Source>, detail: Detail) -> All {
        let (processes, refused, ended) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let (worked, worked_before) = (Duration::ZERO, Duration::ZERO);
        All { sources, detail, processes, refused, ended, search_after: None, worked, worked_before }
    }

    /// Returns whether these are all recorded processes of this user, including those that start later.
    pub(crate) fn is_of_this_user(&self) -> bool {
        self.sources.is_empty()
    }

    /// Looks for tapes for the first time. A process that has just started may not have written the start of its tape.
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        for _ in 0..BEGINNINGS {
            self.search_after = None;
            self.find()?;
            if !self.is_empty() || self.refused.is_empty() {
                break;
            }
            thread::sleep(BETWEEN_BEGINNINGS);
        }
        Ok(())
    }

    /// Looks for tapes that are not watched yet.
    pub(crate) fn find(&mut self) -> Result<(), Failure> {
        if self.search_after.is_some_and(|after| Instant::now() < after) {
            return Ok(());
        }
        let begun = Work::begin();
        let is_first = self.search_after.is_none();
        let mut tapes = Vec::new();
        for source in &self.sources {
            match source.tapes() {
                Ok(found) => tapes.extend(found),
                Err(failure) if is_first => return Err(failure),
                // A process that has ended.
                Err(_) => {}
            }
        }
        if self.sources.is_empty() {
            tapes = of_this_user();
        }
        for tape in tapes {
            if self.processes.contains_key(&tape) || self.ended.contains(&tape) {
                continue;
            }
            match Watched::attach(&tape, self.detail) {
                Ok(watched) => {
                    self.refused.remove(&tape);
                    self.processes.insert(tape, watched);
                }
                Err(error) => {
                    let named = self.sources.contains(&Source::Tape(tape.clone()));
                    let Failure::Message(_, what) = unreadable(error) else { continue };
                    let what = format!("{}: {what}", ShownPath(&tape));
                    if is_first && named {
                        return Err(Failure::Message(Exit::Unreadable, what));
                    }
                    // It is not written whole yet, gone again, or of another version.
                    if tape.exists() {
                        self.refused.insert(tape, what);
                    }
                }
            }
        }
        self.refused.retain(|tape, _| tape.exists());
        self.search_after = Some(Instant::now() + self.detail.search.max(begun.time() * PAUSE_BY_WORK));
        Ok(())
    }

    /// Reads what is new of each process. An event counts once a second reading has seen that none before it was missing,
    /// so there are two.
    pub(crate) fn look(&mut self) {
        let begun = Work::begin();
        self.processes.values_mut().for_each(Watched::read);
        self.worked += begun.time();
        thread::sleep(BETWEEN_READINGS);
        let begun = Work::begin();
        self.processes.values_mut().for_each(Watched::look);
        self.worked += begun.time();
    }

    /// Stops watching the processes that have ended.
    pub(crate) fn forget_ended(&mut self) {
        self.ended.retain(|tape| tape.exists());
        let has_ended = |(_, process): &(&PathBuf, &Watched)| !process.is_running();
        self.ended.extend(self.processes.iter().filter(has_ended).map(|(tape, _)| tape.clone()));
        self.processes.retain(|_, process| process.is_running());
    }

    /// Returns the figures of all devices.
    pub(crate) fn figures(&mut self) -> Vec<Figures> {
        let begun = Work::begin();
        let figures = self.processes.values().flat_map(Watched::figures).collect();
        self.worked += begun.time();
        figures
    }

    /// Returns the figures of one process.
    pub(crate) fn figures_of(&mut self, tape: &PathBuf) -> Vec<Figures> {
        let begun = Work::begin();
        let figures = self.processes.get(tape).map(Watched::figures).unwrap_or_default();
        self.worked += begun.time();
        figures
    }

    /// Returns how long to wait: at least `least`, and long enough for the work to be a small part of it. Work that is done
    /// once, such as finding names, does not count.
    pub(crate) fn pause(&mut self, least: Duration) -> Duration {
        let worked = std::mem::take(&mut self.worked);
        let usual = worked.min(std::mem::replace(&mut self.worked_before, worked));
        // What is new grows with the pause, so a pause without an end would grow too.
        least.max((usual * PAUSE_BY_WORK).min(LONGEST))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.processes.values().any(Watched::is_running)
    }
}
