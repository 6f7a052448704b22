//! Reads the files of many ranks on all cores, one file per core at a time.

#![forbid(unsafe_code)]

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use memreel_snapshot::{
    DeviceId,
    analysis::{
        Histories,
        ranks::{RankFigures, rank_of},
    },
};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{
        Opener,
        own_memory::{is_host, is_own},
    },
    options::Devices,
    text::Progress,
};

/// The figures of a file, or why there are none and the exit status of that.
pub(super) type Found = Result<OfFile, (Exit, String)>;

/// The figures of a file.
#[derive(Debug)]
pub(super) struct OfFile {
    /// Those of each device that is compared.
    pub(super) devices: Vec<RankFigures>,
    /// The memory of the host, where a GPU is compared.
    pub(super) hosts: Vec<DeviceId>,
    /// Whether the file is a tape that a program still writes.
    pub(super) is_growing: bool,
}

/// What a file says: the figures of its devices, or why there are none.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) path: PathBuf,
    /// The rank that the file's name has.
    pub(super) rank: Option<u64>,
    pub(super) found: Found,
}

/// Reads files in order, keeping only the figures of each.
pub(super) fn read(files: Vec<PathBuf>, device: Devices, opener: &Opener) -> Vec<Read> {
    let found: Vec<OnceLock<Found>> = files.iter().map(|_| OnceLock::new()).collect();
    let (next, progress) = (AtomicUsize::new(0), Progress::new(files.len() as u64));
    let n_threads = thread::available_parallelism().map_or(1, NonZero::get).min(files.len());
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some((path, found)) = files.get(at).zip(found.get(at)) else { break };
        let _is_first = found.set(figures(path, device, opener));
        progress.add(1);
    };
    match n_threads {
        // Where no thread can be started, this is the only one.
        ..=1 => work(),
        _ => thread::scope(|scope| (0..n_threads).for_each(|_| drop(scope.spawn(work)))),
    }
    drop(progress);
    let found = found.into_iter().map(|found| {
        found.into_inner().unwrap_or_else(|| Err((Exit::Unreadable, "was not read".to_owned())))
    });
    files
        .into_iter()
        .zip(found)
        .map(|(path, found)| Read { rank: rank_of(&path.to_string_lossy()), path, found })
        .collect()
}

/// Reads the devices on which a rank has memory of its own; for a rank without a GPU, all devices.
fn figures(path: &Path, device: Devices, opener: &Opener) -> Found {
    let why = |failure: Failure| match failure {
        Failure::Message(exit, why) => (exit, why),
        Failure::Output(error) => (Exit::Unreadable, error.to_string()),
    };
    let opened = opener.open_quietly(path).map_err(why)?;
    let devices: Vec<DeviceId> = opened.devices(device).map_err(why)?;
    let histories = Histories::new(&opened.snapshot);
    let usage = opened.snapshot.usage();
    let (hosts, gpus): (Vec<_>, Vec<_>) = devices.into_iter().partition(|device| is_host(&usage, *device));
    let figures = |devices: Vec<DeviceId>| -> Vec<RankFigures> {
        devices.into_iter().map(|device| RankFigures::new(&histories.of(device))).collect()
    };
    let (own, mapped): (Vec<_>, Vec<_>) =
        figures(gpus).into_iter().partition(|one| is_own(&one.peak, one.oom.is_some()));
    if own.is_empty() {
        let devices = mapped.into_iter().chain(figures(hosts)).collect();
        return Ok(OfFile { devices, hosts: Vec::new(), is_growing: opened.is_growing });
    }
    Ok(OfFile { devices: own, hosts, is_growing: opened.is_growing })
}
