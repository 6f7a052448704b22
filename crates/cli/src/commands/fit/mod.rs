//! `memreel fit`: which size of a program fits, predicted from recorded runs of other sizes.

#![forbid(unsafe_code)]

mod answer;
mod runs;
mod text;

use std::{io::Write, num::NonZeroU64};

use clap::ArgAction;
use memreel::{
    fit::{Largest, Size, SizedRun, Sizes},
    whatif::grid,
};

use answer::Answer;
use runs::{Runs, SizedFile};
use text::Report;

use crate::{
    exit::Exit,
    failure::Failure,
    input::Opener,
    options::{Devices, changes::Changes, device},
    text::{Bytes, Page, Waiting, bytes},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Which batch size, sequence length or number of layers fits? Record the program
at two sizes that fit, for two or three steps each, starting before the model is
built. memreel matches up the requests of the runs and works out how each one
scales with the size: constant, linear, quadratic, or the sum of two of these.
It then replays the requests at another size, including the allocator's
rounding, caching and fragmentation.

A size is one number, such as a batch size, or two, such as a batch size and a
sequence length: `4=a.pickle`, `4,512=a.pickle` or, with names, `--size
batch=4,seq=512 a.pickle`. If sizes have two numbers, memreel finds the largest
first number that fits in --limit; the second comes from --at or, without --at,
from the largest run.

--without, --scale and --free-after-use simulate a change to the program: they
remove requests, change their sizes, or add a checkpoint.

With three sizes, memreel also tests its predictions: it predicts each size from
the other two. The confidence depends on how far the bounds are from the best
estimate: it is `certain` up to 1 %, `high` up to 3 %, `fair` up to 10 %, and
`low` above that. The bounds account for requests that follow no pattern, and
for the order in which a call frees its blocks (three random orders are tried).
For sizes more than eight times that of the nearest run, the confidence is at
most `fair`.

With --limit, the allocator releases its cache before a request fails, as
PyTorch does, so a size may fit even if its peak without a limit is above the
limit. --limit applies only to what PyTorch's allocator reserves. The CUDA
context, NCCL and other processes need additional memory: for runs recorded with
`memreel record`, the output shows how much they used, and `memreel owners`
lists each of them.

Examples:
  memreel fit 4=batch4.pickle 8=batch8.pickle --limit 80GiB
  memreel fit 4=batch4.pickle 8=batch8.pickle --at 24
  memreel fit --size n=4 a.pickle --size n=8 b.pickle --limit 24GiB --sweep

Exit status: 0 success; 1 a history is missing or inconsistent; 2 usage error,
or the runs cannot be compared; 3 a file cannot be read or is not a snapshot.")]
pub(crate) struct Options {
    /// A run: its size, such as batch=4, and its snapshot; may be repeated
    #[arg(long, value_names = ["SIZE", "SNAPSHOT"], num_args = 2, action = ArgAction::Append)]
    size: Vec<String>,

    /// Find the largest size that reserves at most this much: 80GiB, 512MiB, 1.5GiB or a number of bytes
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    limit: Option<u64>,

    /// Predict the peaks at this size; may be repeated
    #[arg(long, value_name = "SIZE", action = ArgAction::Append)]
    at: Vec<String>,

    /// Search only multiples of this number
    #[arg(long, value_name = "N", default_value = "1", requires = "limit")]
    step: NonZeroU64,

    /// Predict for this value of PYTORCH_ALLOC_CONF [default: the recorded setting]
    #[arg(long, value_name = "SETTING")]
    conf: Option<String>,

    /// Also try a grid of settings, and name the one that allows the largest size
    #[arg(long, requires = "limit", conflicts_with = "conf")]
    sweep: bool,

    #[command(flatten)]
    changes: Changes,

    /// Select a device, or the heap; `all` selects the one device that all runs have in common
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Two or more runs, each with its size
    #[arg(value_name = "SIZE=SNAPSHOT")]
    sized_files: Vec<String>,
}

/// The limits that are no slip of the pen.
const LEAST_LIMIT: u64 = 1 << 20;
const MOST_LIMIT: u64 = 1 << 50;

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    if let Some(conf) = &options.conf {
        conf.parse::<memreel::allocator::Settings>().map_err(Failure::usage)?;
    }
    if let Some(limit) = options.limit.filter(|limit| !(LEAST_LIMIT..=MOST_LIMIT).contains(limit)) {
        let what =
            format!("a limit of {} is too small for a device; add a unit, such as 24GiB", Bytes(limit));
        return Err(Failure::usage(what));
    }
    let named = options.size.chunks(2).map(|pair| SizedFile::new(&pair[0], &pair[1]));
    let named = named.chain(options.sized_files.iter().map(|text| SizedFile::joined(text)));
    let runs = Runs::open(named.collect::<Result<_, _>>()?, opener)?;
    let asked: Vec<Size> = options.at.iter().map(|text| runs.size(text)).collect::<Result<_, _>>()?;
    let device = runs.device(options.device)?;
    let sized = runs.sized(device, &options.changes.read()?)?;
    let waiting = Waiting::new("predicting".to_owned());
    let sizes = Sizes::new(&sized.iter().collect::<Vec<&SizedRun>>())?;
    let sizes = match &options.conf {
        Some(conf) => sizes.with_conf(conf.as_str()),
        None => sizes,
    };
    let second = asked.first().copied().unwrap_or_else(|| runs.largest()).numbers()[1];
    let largest = |sizes: &Sizes<'_>| {
        let with = |first: NonZeroU64| Size::of([first.get(), second]);
        options.limit.map(|limit| sizes.largest(limit, options.step, with)).transpose()
    };
    let found = largest(&sizes)?;
    let best = if options.sweep { best(&sized, &found, largest)? } else { None };
    let answer = Answer {
        runs: &runs,
        recorded: sizes.recorded()?,
        changes: options.changes.words(),
        recorded_conf: sized[0].requests().recorded().usable_conf(),
        predicted: asked.iter().map(|size| sizes.at(*size)).collect::<Result<_, _>>()?,
        largest: found,
        best,
        limit_bytes: options.limit,
        beside: options.limit.and_then(|_| runs.beside(device)),
        step: options.step,
        has_sweep: options.sweep,
        sizes: &sizes,
        device,
    };
    drop(waiting);
    if options.json {
        writeln!(out, "{}", answer.line())?;
    } else {
        Report { answer: &answer }.print(out)?;
    }
    Ok(Exit::Fine)
}

/// Returns the setting of the grid under which a larger size fits than `found`.
fn best(
    sized: &[SizedRun],
    found: &Option<Largest>,
    largest: impl Fn(&Sizes<'_>) -> Result<Option<Largest>, memreel_snapshot::Error>,
) -> Result<Option<(String, Largest)>, Failure> {
    let size = |of: &Largest| of.fits.as_ref().map(|fits| fits.size);
    let mut most = found.as_ref().and_then(size);
    let mut best = None;
    let reader = sized[0].requests().recorded().reader();
    let mut sizes = Sizes::new(&sized.iter().collect::<Vec<_>>())?;
    for conf in grid(Some(1)).into_iter().filter(|conf| reader.takes(conf)) {
        sizes = sizes.with_conf(conf.as_str());
        if let Some(found) = largest(&sizes)?
            && size(&found) > most
        {
            most = size(&found);
            best = Some((conf, found));
        }
    }
    Ok(best)
}
