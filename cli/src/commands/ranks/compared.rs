//! The ranks of all files, compared: outliers first, then the others, then the files that cannot be read.

#![forbid(unsafe_code)]

use std::{cmp::Reverse, path::PathBuf};

use memreel::analysis::ranks::{RankFigures, RankVerdict, outliers};

use super::read::Read;
use crate::{exit::Exit, text::count};

/// One device of one rank, compared with the others.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) path: PathBuf,
    pub(super) rank: Option<u64>,
    /// Its name in tables.
    pub(super) name: String,
    pub(super) figures: RankFigures,
    pub(super) verdict: RankVerdict,
}

/// A file without figures.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) path: PathBuf,
    pub(super) rank: Option<u64>,
    pub(super) why: String,
    pub(super) exit: Exit,
}

/// The ranks, the outliers first: those whose requests failed, by the time of the failure, then the others by how far they are.
#[derive(Debug)]
pub(super) struct All {
    pub(super) ranks: Vec<Compared>,
    pub(super) broken: Vec<Broken>,
    pub(super) n_files: usize,
}

impl All {
    pub(super) fn new(files: Vec<Read>) -> All {
        let n_files = files.len();
        let (mut broken, mut named, mut figures) = (Vec::new(), Vec::new(), Vec::new());
        for Read { path, rank, found } in files {
            match found {
                Err((exit, why)) => broken.push(Broken { path, rank, why, exit }),
                Ok(found) => {
                    let n_devices = found.len();
                    for one in found {
                        named.push((path.clone(), rank, name(&path, rank, &one, n_devices)));
                        figures.push(one);
                    }
                }
            }
        }
        let verdicts = outliers(&figures);
        let all = named.into_iter().zip(figures).zip(verdicts);
        let mut ranks: Vec<Compared> = all
            .map(|(((path, rank, name), figures), verdict)| Compared { path, rank, name, figures, verdict })
            .collect();
        ranks.sort_by_key(|one| {
            let failed_us =
                one.figures.oom.as_ref().filter(|_| one.verdict.is_out_of_memory()).map(|oom| oom.time_us);
            (
                !one.verdict.is_outlier(),
                failed_us.is_none(),
                failed_us,
                Reverse(one.verdict.apart_bytes()),
                one.rank,
            )
        });
        All { ranks, broken, n_files }
    }

    pub(super) fn n_outliers(&self) -> usize {
        self.ranks.iter().filter(|one| one.verdict.is_outlier()).count()
    }

    /// Returns what a reader should know about the files, one sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.numbers());
        notes.extend(self.clocks());
        if self.ranks.len() > 1 && self.ranks.iter().all(|one| one.figures.steps.is_empty()) {
            notes.push(
                "no rank has scopes; ranks are compared by the time since their first event".to_owned(),
            );
        }
        let n_warned = self.ranks.iter().filter(|one| !one.figures.warnings.is_empty()).count();
        if n_warned > 0 {
            notes.push(format!(
                "the histories of {} are not whole, so that figures may be too low; memreel summary FILE has the reasons",
                count(n_warned, "rank")
            ));
        }
        notes
    }

    /// Returns which ranks have several files, and which have none.
    fn numbers(&self) -> Vec<String> {
        let of_broken = self.broken.iter().map(|one| (one.rank, &one.path));
        let mut files: Vec<(u64, &PathBuf)> = self
            .ranks
            .iter()
            .map(|one| (one.rank, &one.path))
            .chain(of_broken)
            .filter_map(|(rank, path)| Some((rank?, path)))
            .collect();
        files.sort();
        files.dedup();
        let twice = files.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let twice: Vec<String> = twice.map(|pair| pair[0].0.to_string()).collect();
        files.dedup_by_key(|(rank, _)| *rank);
        let last = files.last().map_or(0, |(rank, _)| rank.saturating_add(1));
        let n_missing = usize::try_from(last).unwrap_or(usize::MAX).saturating_sub(files.len());
        let missing = (0..last).filter(|rank| files.binary_search_by_key(rank, |(rank, _)| *rank).is_err());
        let missing: Vec<String> = missing.take(MAX_LISTED).map(|rank| rank.to_string()).collect();
        let mut notes = Vec::new();
        if !twice.is_empty() {
            notes.push(format!("several files are of rank {}", listed(&twice, twice.len())));
        }
        if n_missing > 0 && files.len() > 1 {
            notes.push(format!("no file is of rank {}", listed(&missing, n_missing)));
        }
        notes
    }

    /// Returns a note if the clocks disagree, so that times of several ranks cannot be compared.
    fn clocks(&self) -> Option<String> {
        const HOUR_US: i64 = 3_600_000_000;
        let dated = || self.ranks.iter().map(|one| one.figures.first_us).filter(|time_us| *time_us != 0);
        let apart_us = dated().max()?.saturating_sub(dated().min()?);
        (apart_us > HOUR_US).then(|| {
            format!(
                "the first events are {} h apart: the clocks disagree, or the files are of several runs",
                apart_us / HOUR_US
            )
        })
    }
}

/// The most ranks in a note.
const MAX_LISTED: usize = 20;

fn listed(ranks: &[String], n: usize) -> String {
    let shown = ranks.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    if n > MAX_LISTED { format!("{shown} and {} more", n - MAX_LISTED) } else { shown }
}

fn name(path: &std::path::Path, rank: Option<u64>, figures: &RankFigures, n_devices: usize) -> String {
    let file = || {
        path.file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    let name = rank.map_or_else(file, |rank| format!("rank {rank}"));
    if n_devices > 1 { format!("{name}, device {}", figures.device) } else { name }
}
