//! A part of a summary: its text, and where the page shows what it is about.

#![forbid(unsafe_code)]

use std::io;

use memreel_snapshot::history::Moment;
use serde::Serialize;

use crate::text::{Page, print_wrapped};

/// What a part of a summary is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topic {
    Device,
    Peak,
    End,
    Reserved,
    Warning,
    Failure,
    Cause,
    CloseCall,
    Kept,
    Quiet,
    Growth,
    Sites,
    Pools,
}

/// Where the page shows something: a view, at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Place {
    view: &'static str,
    moment: u32,
}

impl Place {
    pub(super) fn moment(view: &'static str, moment: Moment) -> Place {
        Place { view, moment: moment.0 }
    }
}

/// A part of a summary: lines of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SummaryPart {
    pub(crate) topic: Topic,
    pub(crate) text: String,
    pub(crate) place: Option<Place>,
}

/// The parts of a summary, as they are added.
pub(super) struct Parts<'p> {
    pub(super) all: Vec<SummaryPart>,
    /// Where they are printed.
    pub(super) page: &'p Page,
}

impl<'p> Parts<'p> {
    pub(super) fn on(page: &'p Page) -> Parts<'p> {
        Parts { all: Vec::new(), page }
    }

    /// Adds what is written, unless it is nothing.
    pub(super) fn add(
        &mut self,
        topic: Topic,
        place: Option<Place>,
        write: impl FnOnce(&mut Page) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut part = self.page.part();
        write(&mut part)?;
        let bytes = part.into_bytes();
        if !bytes.is_empty() {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.all.push(SummaryPart { topic, text, place });
        }
        Ok(())
    }

    /// Adds a sentence.
    pub(super) fn line(&mut self, topic: Topic, place: Option<Place>, text: &str) -> io::Result<()> {
        self.add(topic, place, |out| print_wrapped(text, 2, out))
    }
}
