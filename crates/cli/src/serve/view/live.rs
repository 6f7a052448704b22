//! A page that follows programs while they run: what they hold now, and a closer look at one moment.
//!
//! `live` is answered with the text of the last reading, and `live?after=N` with that of a later one than N,
//! as soon as there is one. `pause` begins a look: the tapes as they are at that moment, read into memory, with a page of their
//! own at `look/N/`, which is that of any file.

#![forbid(unsafe_code)]

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};

use super::{
    answering::{answer_about, desk},
    question::Desk,
    refusal::Refusal,
    route::Answer,
};
use crate::row::Maker;

/// The most looks that are kept. An older one ends: the memory of the server has a bound.
const MAX_LOOKS: usize = 2;

/// How long a page waits for a reading, at most.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The followed processes.
pub(crate) struct Live {
    state: Mutex<State>,
    has_read: Notify,
}

#[derive(Default)]
struct State {
    now: Value,
    tapes: Vec<PathBuf>,
    looks: VecDeque<(u64, Desk)>,
    n_looks: u64,
    save: Option<Save>,
    make: Option<Maker>,
}

/// Writes a snapshot of each tape, and returns their names.
pub(crate) type Save = fn(&[PathBuf]) -> Result<Vec<PathBuf>, String>;

impl Live {
    /// Returns what is followed; `save` writes snapshots, and `make` makes the program whose commands answer about a look.
    pub(crate) fn new(save: Save, make: Maker) -> Live {
        let state =
            State { now: json!({"devices": []}), save: Some(save), make: Some(make), ..State::default() };
        Live { state: Mutex::new(state), has_read: Notify::new() }
    }

    /// Keeps what the last reading found: the text for the page, and the tapes that a look reads.
    pub(crate) fn set(&self, now: Value, tapes: Vec<PathBuf>) {
        let mut state = self.lock();
        (state.now, state.tapes) = (now, tapes);
        drop(state);
        self.has_read.notify_waiters();
    }

    pub(super) fn now(&self) -> Answer {
        Answer::json(&self.lock().now)
    }

    /// Waits for a reading that is later than a time of another one, and returns its text.
    pub(super) async fn after(&self, us: u64) -> Answer {
        // From here on it is woken, also by what is read before it waits.
        let has_read = self.has_read.notified();
        if self.lock().now["now_us"].as_u64().unwrap_or(0) <= us {
            // Without a new one in this time, the last.
            let _ = timeout(LONGEST_WAIT, has_read).await;
        }
        self.now()
    }

    /// Begins a look at the tapes as they are now.
    pub(super) fn pause(&self) -> Answer {
        let mut state = self.lock();
        let (Some(make), false) = (state.make, state.tapes.is_empty()) else {
            return Refusal::missing("no tape to show: no recorded process is running").into();
        };
        let (desk, queues) = desk();
        let tapes = state.tapes.clone();
        let work = move || answer_about(&tapes, make, &queues, |_| ());
        if let Err(error) = thread::Builder::new().name("look".into()).spawn(work) {
            return Refusal::missing(format!("cannot pause: {error}")).into();
        }
        state.n_looks += 1;
        let look = state.n_looks;
        state.looks.push_back((look, desk));
        if state.looks.len() > MAX_LOOKS {
            state.looks.pop_front();
        }
        Answer::json(&json!({ "look": look }))
    }

    /// Writes a snapshot of each tape into the folder of this process. It may take seconds.
    pub(super) fn save(&self) -> Answer {
        let (tapes, save) = {
            let state = self.lock();
            (state.tapes.clone(), state.save)
        };
        let saved = match save {
            Some(_) if tapes.is_empty() => Err("no tape: no recorded process is running".to_owned()),
            Some(save) => save(&tapes),
            None => Err("nothing is being followed".to_owned()),
        };
        match saved {
            Ok(paths) => {
                let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                Answer::json(&json!({ "files": names }))
            }
            Err(why) => Refusal::missing(why).into(),
        }
    }

    /// Returns where to ask about a look.
    pub(super) fn look(&self, look: u64) -> Option<Desk> {
        self.lock().looks.iter().find(|(number, _)| *number == look).map(|(_, desk)| desk.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
