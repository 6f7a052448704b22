//! Watches processes for the page that follows them: a thread reads, and the page requests the latest result.
//!
//! `curve` is the memory of a device over time, and `kept` what the page has of all devices; both have a bound. `page` is where
//! the page of a run is.

#![forbid(unsafe_code)]

mod curve;
mod kept;
pub(crate) mod page;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use super::view::Live;
use crate::{
    exit::Exit,
    failure::Failure,
    row::Maker,
    run::{all::All, detail::Detail, found::Source, saved::write},
};

use kept::KeptDevices;

/// The time between two looks, at least.
const LOOK: Duration = Duration::from_millis(300);

/// The rows of each list.
const N_ROWS: usize = 12;

/// Finds what the words name, and follows it until this process ends.
///
/// # Errors
/// Nothing that can be watched is there.
pub(crate) fn follow(words: &[PathBuf], make: Maker) -> Result<Arc<Live>, Failure> {
    let sources = words.iter().map(|word| Source::of(&word.to_string_lossy()));
    let mut all = All::new(sources.collect::<Result<_, _>>()?, Detail::by_a_person(N_ROWS));
    all.begin()?;
    if all.is_empty() {
        let why = all.refused.values().next().cloned();
        let none = "no recorded process to follow; start one with `memreel record -- PROGRAM`";
        return Err(Failure::usage(why.unwrap_or_else(|| none.to_owned())));
    }
    on_a_thread(all, make).map_err(|error| {
        Failure::Message(Exit::Unreadable, format!("the processes cannot be followed: {error}"))
    })
}

/// Follows the processes of a run that may have none yet, until this process ends.
pub(crate) fn follow_run(run: &Path, make: Maker) -> io::Result<Arc<Live>> {
    on_a_thread(All::new(vec![Source::Run(run.to_owned())], Detail::of_a_run(N_ROWS)), make)
}

fn on_a_thread(all: All, make: Maker) -> io::Result<Arc<Live>> {
    let live = Arc::new(Live::new(save, make));
    let of_thread = live.clone();
    let looks = move || look_again_and_again(all, &of_thread);
    thread::Builder::new().name("looks".into()).spawn(looks)?;
    Ok(live)
}

fn look_again_and_again(mut all: All, live: &Live) {
    let mut kept = KeptDevices::default();
    loop {
        // A folder that cannot be read is read again.
        let _ = all.find();
        all.look();
        let figures = all.figures();
        kept.take(&figures);
        // The last figures of what has ended are kept; the number of processes that come and go has no bound.
        all.forget_ended();
        live.set(kept.text(), kept.tapes());
        thread::sleep(all.pause(LOOK));
    }
}

/// Writes a snapshot of each tape into the current folder.
fn save(tapes: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let folder =
        std::env::current_dir().map_err(|error| format!("cannot find the current folder: {error}"))?;
    tapes.iter().map(|tape| Ok(folder.join(write(tape)?))).collect()
}
