//! The runs on the command line, each with its size.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use memreel::{
    fit::{Size, SizedRun},
    whatif::Change,
};
use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{MarkedFrame, ShownFrames, StackNumbers, owners},
};

use crate::{
    failure::Failure,
    input::{Opened, Opener, list},
    options::Devices,
    text::clean,
};

/// A size as it is written: its numbers, with their names if it has some.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Written {
    numbers: [u64; 2],
    names: Vec<String>,
    n: usize,
}

/// A file and its size.
#[derive(Debug)]
pub(super) struct SizedFile {
    written: Written,
    path: PathBuf,
}

impl SizedFile {
    /// Reads `batch=4` or `4`, and a path.
    pub(super) fn new(size: &str, path: &str) -> Result<SizedFile, Failure> {
        Ok(SizedFile { written: Written::parse(size)?, path: path.into() })
    }

    /// Reads `4=PATH`, `batch=4=PATH` or `4,512=PATH`.
    pub(super) fn joined(text: &str) -> Result<SizedFile, Failure> {
        // A path may have an `=` of its own, and so has a size with names.
        let ends = text.match_indices('=').map(|(at, _)| at);
        let mut found = ends.filter_map(|at| {
            let written = Written::parse(&text[..at]).ok()?;
            Some(SizedFile { written, path: text[at + 1..].into() })
        });
        found.next_back().ok_or_else(|| {
            Failure::usage(format!("{:?} is not of the form SIZE=FILE, such as 4=batch4.pickle", clean(text)))
        })
    }
}

impl Written {
    fn parse(text: &str) -> Result<Written, Failure> {
        let refuse = || {
            let forms = "use a whole number such as 4, a name with it such as batch=4, or two such as batch=4,seq=512";
            Failure::usage(format!("{:?} is not a size: {forms}", clean(text)))
        };
        let mut written = Written { numbers: [1; 2], names: Vec::new(), n: 0 };
        for part in text.split(',') {
            let (name, number) = match part.split_once('=') {
                Some((name, number)) if !name.is_empty() => (Some(name), number),
                Some(_) => return Err(refuse()),
                None => (None, part),
            };
            let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(refuse)?;
            *written.numbers.get_mut(written.n).ok_or_else(refuse)? = number;
            written.names.extend(name.map(str::to_owned));
            written.n += 1;
        }
        let is_twice = written.names.len() == 2 && written.names[0] == written.names[1];
        let is_named = written.names.is_empty() || written.names.len() == written.n;
        if is_named && !is_twice { Ok(written) } else { Err(refuse()) }
    }

    fn size(&self) -> Result<Size, Failure> {
        Ok(Size::of(self.numbers)?)
    }
}

/// The owner of what PyTorch's allocator reserves, in owner tables.
const PYTORCH: &str = "pytorch";

/// The opened runs.
#[derive(Debug)]
pub(super) struct Runs {
    runs: Vec<(Size, Opened)>,
    /// The names of the numbers of a size.
    numbers: Vec<String>,
}

impl Runs {
    pub(super) fn open(named: Vec<SizedFile>, opener: &Opener) -> Result<Runs, Failure> {
        let Some(first) = named.first().filter(|_| named.len() > 1) else {
            let example = "for example `memreel fit 4=batch4.pickle 8=batch8.pickle --limit 80GiB`";
            return Err(Failure::usage(format!("a prediction needs runs of two sizes: {example}")));
        };
        let of_first = &first.written;
        if let Some(other) = named.iter().find(|of| !of.written.is_like(of_first)) {
            let (one, other) = (first.path.display().to_string(), other.path.display().to_string());
            let what = format!(
                "the sizes of {} and {} have different numbers of values, or different names",
                clean(&one),
                clean(&other)
            );
            return Err(Failure::usage(what));
        }
        let numbers = match &of_first.names[..] {
            [] if of_first.n == 1 => vec!["size".to_owned()],
            [] => vec!["first".to_owned(), "second".to_owned()],
            names => names.to_vec(),
        };
        let open = |of: &SizedFile| Ok((of.written.size()?, opened(&of.path, opener)?));
        Ok(Runs { runs: named.iter().map(open).collect::<Result<_, Failure>>()?, numbers })
    }

    /// Reads a size as those of the runs are written; names may be left out.
    pub(super) fn size(&self, text: &str) -> Result<Size, Failure> {
        let written = Written::parse(text)?;
        if written.n != self.numbers.len() || !written.names.is_empty() && written.names != self.numbers {
            let form = self.numbers.iter().map(|name| format!("{name}=N")).collect::<Vec<_>>().join(",");
            return Err(Failure::usage(format!(
                "{:?} is not a size of these runs: write {form}",
                clean(text)
            )));
        }
        written.size()
    }

    /// Returns the device of `--device`, or the only one that has a history in every run.
    pub(super) fn device(&self, which: Devices) -> Result<DeviceId, Failure> {
        let has = |opened: &Opened, device: DeviceId| !opened.snapshot.trace(device).is_empty();
        let first = self.runs[0].1.devices(which)?;
        let mut common = first.clone();
        common.retain(|device| self.runs.iter().all(|(_, opened)| has(opened, *device)));
        match (&common[..], which) {
            ([device], _) => Ok(*device),
            // Their requests say what is missing.
            ([], Devices::All) => Ok(DeviceId(0)),
            ([], _) => Ok(first[0]),
            (several, _) => {
                let what = format!(
                    "every run has a history for devices {}; choose one with --device",
                    list(several)
                );
                Err(Failure::usage(what))
            }
        }
    }

    pub(super) fn sized(&self, device: DeviceId, changes: &[Change]) -> Result<Vec<SizedRun>, Failure> {
        let mut stacks = StackNumbers::default();
        let sized = self.runs.iter().map(|(size, opened)| {
            SizedRun::new(*size, &opened.snapshot, device, changes, &mut stacks)
                .map_err(|error| Failure::from(error).of_file(&opened.name))
        });
        sized.collect()
    }

    pub(super) fn largest(&self) -> Size {
        let sizes = self.runs.iter().map(|(size, _)| *size);
        sizes.max().unwrap_or(self.runs[0].0)
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.runs.iter().map(|(_, opened)| &*opened.name).collect()
    }

    /// Returns the names of the numbers of a size.
    pub(super) fn numbers(&self) -> &[String] {
        &self.numbers
    }

    /// Returns the numbers of a size.
    pub(super) fn numbers_of(&self, size: Size) -> Vec<u64> {
        size.numbers()[..self.numbers.len()].to_vec()
    }

    /// Returns the frames of the stack of an event in the run of a size.
    pub(super) fn stack(&self, size: Size, device: DeviceId, entry: usize) -> Option<Vec<MarkedFrame<'_>>> {
        let snapshot = self.snapshot(size)?;
        let stack = snapshot.trace(device)[entry].stack?;
        Some(ShownFrames::new(snapshot).marked(stack).collect())
    }

    /// Returns the snapshot of the run of a size.
    pub(super) fn snapshot(&self, size: Size) -> Option<&Snapshot> {
        self.runs.iter().find(|(of, _)| *of == size).map(|(_, opened)| &*opened.snapshot)
    }

    /// Returns the most that a run of `memreel record` had on a device in addition to what PyTorch reserved, and its
    /// size.
    pub(super) fn beside(&self, device: DeviceId) -> Option<(Size, u64)> {
        let of_run = |(size, opened): &(Size, Opened)| {
            let tables = owners(&[&opened.snapshot]);
            let table = tables.iter().find(|table| table.device == device)?;
            Some((*size, table.peak_beside_bytes(PYTORCH)?))
        };
        self.runs.iter().filter_map(of_run).max_by_key(|(_, bytes)| *bytes)
    }

    /// Returns a size in words: `26`, or `batch 26, seq 512`.
    pub(super) fn words(&self, size: Size) -> String {
        let parts = self.numbers.iter().zip(size.numbers()).map(|(name, number)| format!("{name} {number}"));
        parts.collect::<Vec<_>>().join(", ")
    }
}

impl Written {
    fn is_like(&self, other: &Written) -> bool {
        self.n == other.n && self.names == other.names
    }
}

fn opened(path: &Path, opener: &Opener) -> Result<Opened, Failure> {
    opener.open(path).map_err(|failure| failure.of_file(&crate::input::name(path)))
}
