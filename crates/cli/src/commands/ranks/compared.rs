//! Compares the ranks of all files: first the outliers, then the others, then the files that cannot be read.

#![forbid(unsafe_code)]

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use memreel_snapshot::{
    DeviceId,
    analysis::ranks::{MIN_RANKS, RankFigures, RankVerdict, outliers},
};

use super::read::{OfFile, Read};
use crate::{
    exit::Exit,
    input::{self, is_stdin},
    text::{count, fit::path_ending},
};

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

/// A file without figures, or a folder or pattern without files.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) path: PathBuf,
    pub(super) rank: Option<u64>,
    pub(super) why: String,
    pub(super) exit: Exit,
}

/// The ranks: first those whose requests failed, by the time of the failure, then the others, most unusual first.
#[derive(Debug)]
pub(super) struct All {
    pub(super) ranks: Vec<Compared>,
    pub(super) broken: Vec<Broken>,
    pub(super) n_files: usize,
    /// The number of files that a program still writes.
    n_growing: usize,
    /// The memory of the host, which is not compared where ranks have GPUs.
    hosts: BTreeSet<DeviceId>,
}

impl All {
    /// Compares what was read. Other files are already known to be broken.
    pub(super) fn new(files: Vec<Read>, no_files: Vec<Broken>) -> All {
        let (n_files, n_of_name) = (files.len(), n_of_name(&files));
        let (mut broken, mut named, mut figures, mut n_growing) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let mut of_hosts = BTreeSet::new();
        for file in files {
            let name = full_name(&file, &n_of_name);
            let Read { path, rank, found } = file;
            match found {
                Err((exit, why)) => broken.push(Broken { path, rank, why, exit }),
                Ok(OfFile { devices, hosts, is_growing }) => {
                    n_growing += usize::from(is_growing);
                    of_hosts.extend(hosts);
                    let n_devices = devices.len();
                    for one in devices {
                        let device = one.device;
                        let name =
                            if n_devices > 1 { format!("{name}, device {device}") } else { name.clone() };
                        named.push((path.clone(), rank, name));
                        figures.push(one);
                    }
                }
            }
        }
        broken.sort_by_key(|one| (one.rank.is_none(), one.rank));
        broken.extend(no_files);
        let verdicts = outliers(&figures);
        let all = named.into_iter().zip(figures).zip(verdicts);
        let mut ranks: Vec<Compared> = all
            .map(|(((path, rank, name), figures), verdict)| Compared { path, rank, name, figures, verdict })
            .collect();
        ranks.sort_by_key(|one| {
            let failed_us = one.figures.oom.as_ref().map(|oom| oom.time_us);
            (
                !one.verdict.is_outlier(),
                failed_us.is_none(),
                failed_us,
                Reverse(one.verdict.apart_bytes()),
                one.rank,
            )
        });
        All { ranks, broken, n_files, n_growing, hosts: of_hosts }
    }

    pub(super) fn n_outliers(&self) -> usize {
        self.ranks.iter().filter(|one| one.verdict.is_outlier()).count()
    }

    /// Returns the ranks whose requests failed, in the order in which they did, if they are more than half: then a
    /// failure does not make a rank an outlier.
    pub(super) fn mostly_failed(&self) -> Vec<&Compared> {
        // An unknown time is 0.
        let failed_us = |one: &&Compared| one.figures.oom.as_ref().map(|oom| (oom.time_us == 0, oom.time_us));
        let mut failed: Vec<&Compared> = self.ranks.iter().filter(|one| one.figures.oom.is_some()).collect();
        failed.sort_by_key(failed_us);
        if failed.len() * 2 > self.ranks.len() { failed } else { Vec::new() }
    }

    /// Returns what users should know about the files, one sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.first_failed());
        notes.extend(self.numbers());
        notes.extend(self.not_compared());
        notes.extend(self.clocks());
        if (1..MIN_RANKS).contains(&self.ranks.len()) && self.n_outliers() == 0 {
            let of_two = match self.mostly_failed().is_empty() {
                true => "; of two ranks, one differs only if its requests failed",
                false => "",
            };
            notes.push(format!("with fewer than {MIN_RANKS} ranks, no figure is typical{of_two}"));
        }
        if self.n_growing > 0 {
            notes.push(format!(
                "{} {} still written, so the last step and the end may differ for that reason alone",
                count(self.n_growing, "file"),
                if self.n_growing == 1 { "is" } else { "are" },
            ));
        }
        let n_warned = self.ranks.iter().filter(|one| !one.figures.warnings.is_empty()).count();
        if n_warned > 0 {
            notes.push(format!(
                "the histories of {} are incomplete, so figures may be too low; memreel summary FILE shows \
                 why",
                count(n_warned, "rank")
            ));
        }
        notes
    }

    /// Returns whether several ranks have no scopes.
    pub(super) fn are_without_scopes(&self) -> bool {
        self.ranks.len() > 1 && self.ranks.iter().all(|one| one.figures.steps.is_empty())
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
        let mut twice: Vec<String> = twice.map(|pair| pair[0].0.to_string()).collect();
        twice.dedup();
        files.dedup_by_key(|(rank, _)| *rank);
        let last = files.last().map_or(0, |(rank, _)| rank.saturating_add(1));
        let n_missing = usize::try_from(last).unwrap_or(usize::MAX).saturating_sub(files.len());
        let missing = (0..last).filter(|rank| files.binary_search_by_key(rank, |(rank, _)| *rank).is_err());
        let missing: Vec<String> = missing.take(MAX_LISTED).map(|rank| rank.to_string()).collect();
        let mut notes = Vec::new();
        if !twice.is_empty() {
            let ranks = listed(&twice, twice.len());
            notes.push(format!("several files belong to rank {ranks}; each is compared as a separate rank"));
        }
        if n_missing > 0 && files.len() > 1 {
            notes.push(format!("no file for rank {}", listed(&missing, n_missing)));
        }
        notes
    }

    /// Returns which devices are not compared.
    fn not_compared(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().map(|device| {
            format!("device {device} is host memory and is not compared; use --device {device} to compare it")
        })
    }

    /// Returns which rank ran out of memory first, if several did.
    #[allow(clippy::cast_precision_loss)]
    fn first_failed(&self) -> Option<String> {
        let failed =
            |one: &'_ Compared| one.figures.oom.as_ref().map(|oom| oom.time_us).filter(|us| *us != 0);
        let mut failed: Vec<(i64, &str)> =
            self.ranks.iter().filter_map(|one| Some((failed(one)?, &*one.name))).collect();
        failed.sort_unstable();
        let [(first_us, first), (next_us, next), ..] = failed[..] else { return None };
        let apart_s = next_us.saturating_sub(first_us) as f64 / 1e6;
        Some(format!(
            "{} ran out of memory first, {apart_s:.3} s before {} by their clocks, of {}",
            first,
            next,
            count(failed.len(), "rank")
        ))
    }

    /// Returns a note if the clocks disagree, so that times of several ranks cannot be compared.
    fn clocks(&self) -> Option<String> {
        const HOUR_US: u64 = 3_600_000_000;
        let dated = || self.ranks.iter().map(|one| one.figures.first_us).filter(|time_us| *time_us != 0);
        let apart_us = dated().max()?.abs_diff(dated().min()?);
        let n_hours = apart_us.saturating_add(HOUR_US / 2) / HOUR_US;
        (apart_us > HOUR_US).then(|| {
            format!(
                "the first events are {n_hours} h apart: the clocks disagree, or the files are from several \
                 runs"
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

/// The most columns of a path in a name.
const PATH_COLUMNS: usize = 24;

/// Returns the name of a file: its rank, or otherwise the file's own name.
fn name(path: &Path, rank: Option<u64>) -> String {
    match (rank, path.file_name()) {
        (Some(rank), _) => format!("rank {rank}"),
        (None, Some(name)) if !is_stdin(path) => name.to_string_lossy().into_owned(),
        (None, _) => input::name(path),
    }
}

/// Returns how many files with figures have each name.
fn n_of_name(files: &[Read]) -> HashMap<String, usize> {
    let mut n_of_name = HashMap::new();
    for file in files.iter().filter(|file| file.found.is_ok()) {
        *n_of_name.entry(name(&file.path, file.rank)).or_default() += 1;
    }
    n_of_name
}

/// Returns the name of a file, with its path if several files have that name.
fn full_name(file: &Read, n_of_name: &HashMap<String, usize>) -> String {
    let name = name(&file.path, file.rank);
    if n_of_name.get(&name).is_none_or(|n| *n < 2) {
        return name;
    }
    let path = path_ending(&file.path.display().to_string(), PATH_COLUMNS);
    if file.rank.is_some() { format!("{name}, {path}") } else { path }
}
