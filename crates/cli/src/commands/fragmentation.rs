//! `memreel fragmentation`: the reserved memory that no block uses.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_answers::{FragmentationQuestion, Fragmented, Question};
use memreel_snapshot::{
    DeviceId,
    analysis::{DeviceHistory, PinnedSegment, Site, Wanted},
};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_device},
    options::{At, Input, moment},
    text::{
        Bytes, Page, Sites, Table, count, percent,
        pool_table::{print_idle_pools, print_pools},
        print_text, print_warnings,
        sites::heading,
        stream_table::{print_findings, print_streams},
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`reserved` = `in use` + `external waste` + `internal waste`: external waste is
reserved memory that is not in any block, and internal waste is what rounding
adds to blocks; `in use` is explained in `memreel top --help`. The rows show the
moment when the most was reserved, the moment when the external waste was
largest, and the moment of --at. For blocks that are freed before the end, only
the smallest possible rounding is known, so at earlier moments the internal
waste may be higher than shown and the external waste lower.

A pinned segment contains both free memory and blocks at the --at moment. If a
request failed, only segments that it could have used are listed: those of its
stream, its pool and its block size (small or large). Otherwise, the listed
segments are those for the largest request made after --at, if there is one.

Free memory is also listed by stream, because a free block can only be reused by
requests on its own stream, and by pool if there are pools other than the
default one: (n, 0) belongs to a captured graph, and (0, n) is a MemPool of the
program. empty_cache returns only the default pool's memory. A graph's pool is
listed even if no block uses it, because PyTorch up to 2.13 never releases the
memory of a captured graph if the capture failed.

Examples:
  memreel fragmentation snapshot.pickle
  memreel fragmentation --at peak snapshot.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Show free pieces and pinned segments at this moment: an event number, start, peak, oom (the last failed
    /// request) or end [default: oom if a request failed, or else end]
    #[arg(long, value_name = "WHEN", value_parser = moment::parse)]
    at: Option<At>,

    /// Show at most COUNT pinned segments, streams and pools
    #[arg(short, value_name = "COUNT", default_value_t = 10)]
    n: usize,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    each_device(&options.input, opener, out, |asked, out| {
        let question = FragmentationQuestion { at: options.at, n: options.n };
        let found = question.ask(asked.subject())?;
        match options.input.json {
            true => asked.print_answer(&found, out)?,
            false => print(options, asked.history(), &found, out)?,
        }
        Ok(Exit::Fine)
    })
}

fn print(
    options: &Options,
    history: &DeviceHistory<'_>,
    found: &Fragmented<'_>,
    out: &mut Page,
) -> io::Result<()> {
    let sites = &Sites::new(history, 3);
    print_warnings(history, out)?;
    let mut table = Table::new(&[
        "when",
        "reserved",
        "in use",
        "external waste",
        "% of reserved",
        "internal waste",
        "event",
    ]);
    let at = match found.at.moment {
        moment if moment == history.end() => "at the end".to_owned(),
        moment => {
            moment.entry().map_or_else(|| "at the start".to_owned(), |entry| format!("after event {entry}"))
        }
    };
    let rows = [
        ("most reserved", found.most_reserved),
        ("most external waste", found.most_waste),
        (at.as_str(), found.at),
    ];
    for (name, waste) in rows {
        table.row(vec![
            name.to_owned(),
            Bytes(waste.reserved_bytes).to_string(),
            Bytes(waste.active_bytes).to_string(),
            Bytes(waste.external_bytes).to_string(),
            percent(waste.external_bytes, waste.reserved_bytes).trim().trim_end_matches(" %").to_owned(),
            Bytes(waste.internal_bytes).to_string(),
            waste.moment.entry().map_or_else(|| "-".to_owned(), |entry| entry.to_string()),
        ]);
    }
    table.print(out)?;
    writeln!(out)?;
    let empty_cache = match history.device() {
        DeviceId::HOST => "torch.accelerator.memory.empty_host_cache",
        _ => "empty_cache",
    };
    let empty = match (found.empty_segments_bytes, found.returnable_bytes) {
        (0, _) => String::new(),
        (empty, bytes) if bytes == empty => {
            format!("; {} in empty segments ({empty_cache} returns them)", Bytes(empty))
        }
        (empty, 0) => format!(
            "; {} in empty segments of private pools, which {empty_cache} does not return",
            Bytes(empty)
        ),
        (empty, bytes) => {
            format!("; {} in empty segments ({empty_cache} returns {} of them)", Bytes(empty), Bytes(bytes))
        }
    };
    let when = moment::words(history, found.at.moment);
    let free = match found.free_pieces {
        0 => "nothing is free in the segments".to_owned(),
        n => format!(
            "{} free in {}, the largest {}",
            Bytes(found.free_bytes),
            count(n, "piece"),
            Bytes(found.largest_free_bytes)
        ),
    };
    print_text(format!("{when}: {free}{empty}"), out)?;
    print_idle_pools(&found.idle_pools, out)?;
    print_pinned(found, sites, out)?;
    print_streams(found.streams.all(), options.n, sites, out)?;
    print_findings(found.idle_streams.all(), sites, out)?;
    print_pools(found.pools.all(), options.n, sites, true, out)
}

fn print_pinned(found: &Fragmented<'_>, sites: &Sites<'_>, out: &mut Page) -> io::Result<()> {
    if found.pinned.all().is_empty() {
        return Ok(());
    }
    let pinned_bytes = found.pinned.all().iter().map(|pinned| pinned.free_bytes).fold(0, u64::saturating_add);
    let keep = match found.pinned.all().len() {
        1 => "it keep this segment",
        _ => "them keep these segments",
    };
    let text = format!(
        "{} is free in {}{}; blocks in {keep} from being returned to the device:",
        Bytes(pinned_bytes),
        count(found.pinned.all().len(), "segment"),
        found.wanted.as_ref().map_or_else(String::new, served),
    );
    print_text(text, out)?;
    let figures = format!("{:>11} {:>11} {:>6}", "free", "segment", "blocks");
    writeln!(out, "{}", heading(&figures, "largest block allocated by ← called by", out))?;
    for pinned in found.pinned.listed() {
        let PinnedSegment { range, free_bytes, n_blocks, largest, .. } = pinned;
        let [free, size] = [*free_bytes, range.bytes].map(|bytes| Bytes(bytes).to_string());
        let figures = format!("{free:>11} {size:>11} {n_blocks:>6}");
        writeln!(out, "{}", sites.row(&figures, &Site::from_life(largest), out))?;
    }
    match found.rest.count {
        0 => Ok(()),
        n => writeln!(out, "and {}; use -n to show more", count(n, "more segment")),
    }
}

/// Returns of which request's stream and pool the segments are.
fn served(wanted: &Wanted) -> String {
    let which = if wanted.has_failed { "failed" } else { "largest later" };
    format!(
        " of the {which} request's stream and pool (a request for {} at event {})",
        Bytes(wanted.bytes),
        wanted.event
    )
}
