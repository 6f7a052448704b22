//! The state of the screen: the list of processes, the selected one, and what the keys have chosen.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use memreel_snapshot::words::Bytes;

use crate::run::{all::All, figures::Figures};

/// A process in the list.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) path: PathBuf,
    pub(super) process: u32,
    pub(super) rank: Option<String>,
    pub(super) is_running: bool,
    /// The bytes that the devices use, or that are live if no device reports them.
    pub(super) bytes: u64,
    pub(super) allocations_per_s: u64,
    pub(super) n_ooms: u64,
}

/// The order of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    #[default]
    Bytes,
    Rate,
    Rank,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Bytes => "bytes",
            Order::Rate => "allocations",
            Order::Rank => "rank",
        }
    }

    pub(super) fn next(self) -> Order {
        match self {
            Order::Bytes => Order::Rate,
            Order::Rate => Order::Rank,
            Order::Rank => Order::Bytes,
        }
    }
}

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) processes: Vec<Process>,
    pub(super) selected: Option<PathBuf>,
    pub(super) figures: Vec<Figures>,
    pub(super) order: Order,
    /// Processes whose number, rank or path lacks this text, and sites that lack it, are not shown.
    pub(super) filter: String,
    pub(super) is_typing: bool,
    pub(super) is_frozen: bool,
    pub(super) has_help: bool,
    pub(super) scroll: u16,
    pub(super) message: String,
    /// Why a tape that was found cannot be read.
    pub(super) refused: Option<String>,
}

impl View {
    /// Takes what the processes have now.
    pub(super) fn take(&mut self, all: &mut All) {
        self.processes = all
            .processes
            .iter()
            .map(|(path, watched)| Process {
                path: path.clone(),
                process: watched.process(),
                rank: watched.rank.clone(),
                is_running: watched.is_running(),
                bytes: watched
                    .devices()
                    .iter()
                    .map(|device| device.report.map_or(device.live_bytes, |report| report.used_bytes))
                    .sum::<Bytes>()
                    .0,
                allocations_per_s: watched.allocations_per_s(),
                n_ooms: watched.n_ooms(),
            })
            .collect();
        self.refused = all.refused.values().next().cloned();
        self.sort();
        let shown = self.shown();
        let is_there = |path: &PathBuf| shown.iter().any(|process| process.path == *path);
        if !self.selected.as_ref().is_some_and(is_there) {
            self.selected = shown.first().map(|process| process.path.clone());
        }
        self.figures = self.selected.as_ref().map(|tape| all.figures_of(tape)).unwrap_or_default();
    }

    pub(super) fn sort(&mut self) {
        let number = |process: &Process| process.rank.as_ref().and_then(|rank| rank.parse::<u64>().ok());
        match self.order {
            Order::Bytes => self.processes.sort_by_key(|process| std::cmp::Reverse(process.bytes)),
            Order::Rate => self.processes.sort_by_key(|process| std::cmp::Reverse(process.allocations_per_s)),
            Order::Rank => self.processes.sort_by_key(|process| (number(process), process.process)),
        }
    }

    /// Returns the processes that the filter lets through: all, if it lets none through, because it may be about sites.
    pub(super) fn shown(&self) -> Vec<&Process> {
        let passes = |process: &&Process| {
            let rank = process.rank.as_ref().map(|rank| format!("rank {rank}")).unwrap_or_default();
            let texts = [process.process.to_string(), rank, process.path.display().to_string()];
            texts.iter().any(|text| text.contains(&self.filter))
        };
        let found: Vec<&Process> = self.processes.iter().filter(passes).collect();
        if found.is_empty() { self.processes.iter().collect() } else { found }
    }

    /// Selects the process that is `by` places further in the list.
    pub(super) fn select(&mut self, by: isize) {
        let shown = self.shown();
        let at = shown.iter().position(|process| Some(&process.path) == self.selected.as_ref()).unwrap_or(0);
        let at = at.saturating_add_signed(by).min(shown.len().saturating_sub(1));
        self.selected = shown.get(at).map(|process| process.path.clone());
        self.scroll = 0;
    }
}
