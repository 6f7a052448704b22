//! The baseline of `memreel gate`: an older snapshot, or the small file with its figures for a repository.

#![forbid(unsafe_code)]

use std::{
    borrow::Cow,
    fs,
    io::{self, Read, Write},
    path::Path,
};

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{Check, DeviceHistory, Figures, Histories, devices},
    pickle,
    place::open_plain,
    rewrite::Slim,
};
use serde::{Deserialize, Serialize};

use super::kept_figures::{KeptFigures, N_SITES, SiteBytes, at, at_peak};
use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, heap, is_baseline, is_stdin, list, name},
    options::output,
    text::{Bytes, Page, Table, clean, diff_command::what_it_has_more, print_text},
};

/// Frames of each stack that the snapshot of a baseline needs.
const N_FRAMES: usize = 20;

/// The version of the keys of the small form.
const VERSION: u32 = 1;

/// More than any baseline has.
const MAX_BYTES: u64 = 16 << 20;

/// The small form of a baseline.
#[derive(Serialize, Deserialize)]
pub(super) struct SmallBaseline {
    /// The version of the keys.
    memreel_baseline: u32,
    devices: Vec<KeptFigures>,
}

/// A baseline as it is in a file.
pub(super) enum BaselineFile {
    Snapshot(Opened),
    Small(String, SmallBaseline),
}

impl BaselineFile {
    pub(super) fn open(path: &Path, opener: &Opener) -> Result<BaselineFile, Failure> {
        let is_file = opener.snapshot(path).is_none() && !is_stdin(path);
        if is_file && fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            let why = format!(
                "{}: baseline not found; create one from a run that you trust with --update-baseline, and commit it",
                name(path)
            );
            return Err(Failure::Message(Exit::Unreadable, why));
        }
        let of_file = |failure: Failure| failure.of_file(&name(path));
        if is_file && let Some(small) = SmallBaseline::read(path).map_err(of_file)? {
            return Ok(BaselineFile::Small(name(path), small));
        }
        opener.open(path).map(BaselineFile::Snapshot).map_err(of_file)
    }
}

impl SmallBaseline {
    /// Reads a file; `None` if it is not of this form.
    fn read(path: &Path) -> Result<Option<SmallBaseline>, Failure> {
        let mut bytes = Vec::new();
        // What cannot be read, and what is a pipe, is reported as a snapshot would be.
        let Ok(mut file) = open_plain(path) else { return Ok(None) };
        if (&mut file).take(64).read_to_end(&mut bytes).is_err() || !is_baseline(&bytes) {
            return Ok(None);
        }
        let unreadable = |why: String| Failure::Message(Exit::Unreadable, why);
        let read = file.take(MAX_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        let small: SmallBaseline = serde_json::from_slice(&bytes).map_err(|error| {
            unreadable(format!("not a readable baseline; write it again with --update-baseline: {error}"))
        })?;
        match small.memreel_baseline {
            VERSION => Ok(Some(small)),
            other => Err(unreadable(format!(
                "a baseline of version {other}; this memreel reads version {VERSION}"
            ))),
        }
    }

    fn of(snapshot: &Snapshot) -> SmallBaseline {
        let histories = Histories::new(snapshot);
        let kept = |device| {
            let history = histories.of(device);
            KeptFigures::of(&history, true).with_sites(&history)
        };
        SmallBaseline {
            memreel_baseline: VERSION,
            devices: devices(snapshot).into_iter().map(kept).collect(),
        }
    }
}

/// Writes a baseline: the small form if the name ends in `.json`, else a snapshot.
pub(super) fn write(path: &Path, snapshot: &Snapshot) -> Result<(), Failure> {
    if path.extension().is_none_or(|ending| ending != "json") {
        return Ok(pickle::save(&Slim::new().depth(N_FRAMES).over(snapshot)?, path)?);
    }
    let small = SmallBaseline::of(snapshot);
    output::replace(path, |file| {
        serde_json::to_writer_pretty(&mut *file, &small)?;
        file.write_all(b"\n")
    })
}

/// The figures of an older run, which are limits.
pub(super) struct Baseline<'a> {
    file: &'a BaselineFile,
    /// Those of its snapshot.
    histories: Option<Histories<'a>>,
    devices: Vec<DeviceId>,
    /// Which of the devices is the heap.
    heap: Option<DeviceId>,
}

impl<'a> Baseline<'a> {
    pub(super) fn new(file: &'a BaselineFile) -> Baseline<'a> {
        match file {
            BaselineFile::Snapshot(opened) => {
                let (devices, heap) = (devices(&opened.snapshot), heap(&opened.snapshot, &[]).ok());
                Baseline { file, histories: Some(Histories::new(&opened.snapshot)), devices, heap }
            }
            BaselineFile::Small(_, small) => {
                let devices = small.devices.iter().map(KeptFigures::device).collect();
                let heap = small.devices.iter().find(|kept| kept.is_heap).map(KeptFigures::device);
                Baseline { file, histories: None, devices, heap }
            }
        }
    }

    fn name(&self) -> &str {
        match self.file {
            BaselineFile::Snapshot(opened) => &opened.name,
            BaselineFile::Small(name, _) => name,
        }
    }

    /// Returns the figures to compare a device with: of the one with the same number, of the heap for a heap, or of the
    /// only one if both files have only one, as in the files of two ranks; otherwise the reason why there are none.
    pub(super) fn counterpart(
        &self,
        opened: &Opened,
        device: DeviceId,
        has_owners: bool,
    ) -> Result<Cow<'a, KeptFigures>, String> {
        let known = &self.devices;
        // The number of a heap depends on how many GPUs the machine has.
        let is_heap = heap(&opened.snapshot, &[]).is_ok_and(|heap| heap == device);
        let other = self.heap.filter(|_| is_heap).unwrap_or(device);
        let place = match known[..] {
            _ if known.contains(&other) => known.iter().position(|known| *known == other),
            [_] if devices(&opened.snapshot).len() == 1 => Some(0),
            _ => None,
        };
        match (place, self.file, &self.histories) {
            (Some(place), BaselineFile::Small(_, small), _) => Ok(Cow::Borrowed(&small.devices[place])),
            (Some(place), _, Some(histories)) => {
                Ok(Cow::Owned(KeptFigures::of(&histories.of(known[place]), has_owners)))
            }
            _ => {
                let (known, name) = (list(known), clean(self.name()));
                Err(format!("the baseline {name} has no device {device}; its devices with memory: {known}"))
            }
        }
    }

    /// Prints what a run has more, if blocks can show it: the command that compares two snapshots, or the call sites.
    pub(super) fn print_growth(
        &self,
        opened: &Opened,
        (history, figures): (&DeviceHistory<'_>, &Figures),
        checks: &[Check],
        before: &KeptFigures,
        out: &mut Page,
    ) -> io::Result<()> {
        let of_baseline = checks.iter().filter(|check| check.is_baseline && !check.is_passed);
        let Some(what) = of_baseline.map(|check| &*check.what).find(|what| ["peak", "live"].contains(what))
        else {
            return Ok(());
        };
        let is_peak = what == "peak";
        match self.file {
            // Standard input cannot be read again.
            BaselineFile::Snapshot(file) if file.is_stdin || opened.is_stdin => Ok(()),
            BaselineFile::Snapshot(file) => {
                let device = history.device();
                let of_several = self.devices.len() > 1 && self.devices.contains(&device);
                let at = if is_peak { "peak" } else { "end" };
                let device = of_several.then_some(device);
                writeln!(out, "{}", what_it_has_more(at, device, &file.name, &opened.name, out))
            }
            BaselineFile::Small(..) if is_peak => {
                print_grown(&before.peak_sites, &at_peak(history, figures), out)
            }
            BaselineFile::Small(..) => print_grown(&before.live_sites, &at(history, history.end()), out),
        }
    }
}

/// Prints the call sites that have more than before, the largest growth first. A site that was not kept had at most as much as
/// the smallest that was.
fn print_grown(before: &SiteBytes, now: &SiteBytes, out: &mut Page) -> io::Result<()> {
    let most_unkept = if before.len() < N_SITES { 0 } else { before.values().copied().min().unwrap_or(0) };
    let grown = |(site, now): (&String, &u64)| {
        let known = before.get(site).copied();
        let grown = now.checked_sub(known.unwrap_or(most_unkept)).filter(|grown| *grown > 0)?;
        Some((grown, known, *now, site.clone()))
    };
    let mut all: Vec<(u64, Option<u64>, u64, String)> = now.iter().filter_map(grown).collect();
    all.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.3.cmp(&other.3)));
    let mut table = Table::new(&["grew since the baseline", "before", "now"]);
    for (_, known, now, site) in all.into_iter().take(5) {
        let before = match known {
            None if most_unkept > 0 => format!("< {}", Bytes(most_unkept)),
            known => Bytes(known.unwrap_or(0)).to_string(),
        };
        table.row(vec![clean(&site).into_owned(), before, Bytes(now).to_string()]);
    }
    if !table.is_empty() {
        table.print(out)?;
    }
    print_text(
        format!(
            "a JSON baseline has the {N_SITES} largest call sites; `memreel diff` of two snapshots has all"
        ),
        out,
    )
}
