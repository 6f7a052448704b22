//! `memreel at`: the allocator's state after an event, or who had an address.

#![forbid(unsafe_code)]

mod address;

use std::{
    convert::Infallible,
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use memreel_snapshot::{
    Action, Address,
    analysis::{By, DeviceHistory, Gap, SegmentLayout, Totals},
    history::Life,
};
use serde_json::{Value, json};

use address::Question;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_device},
    options::{At, Devices, Input, device, moment},
    text::{
        Bytes, Page, Sites, Table, clean, count, labels::stream, print_text, print_warnings, shell_word,
        sites::call,
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel at` shows the state after the event: the segments, how full each one
is, and the stacks that hold the most. `in use` is explained in `memreel top
--help`; `in blocks` is the same plus rounding. At a moment before the end, the
rounding of a block that is freed later is not known exactly, so the smallest
possible value is used. The map of a segment shows its addresses from left to
right: █ full, ▓ less than half free, ░ more than half free, · free. Blocks
outside all segments appear in the trace, but their segment is missing from the
file.

--address lists every block that has covered an address, or any byte of a range,
with the stacks that allocated these blocks and the segments around them. It
then lists what covers the address at the given moment: a block, a free that
waits for a stream, a segment, and a private pool. Pool (n, 0) belongs to a
captured graph, which writes to it on every replay; pool (0, n) is a MemPool of
the program.

Examples:
  memreel at 1500 snapshot.pickle
  memreel at peak --device 0 snapshot.pickle
  memreel at --address 0x7f3a2c000400 snapshot.pickle
  memreel at --address 0x7f3a2c000000+2MiB snapshot.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    /// The moment: an event number, start, peak, oom or end. If only one file is given, it may be left out; it
    /// is then the end
    #[arg(value_name = "WHEN", value_parser = |text: &str| Ok::<_, Infallible>(Word::read(text)))]
    at: Option<Word>,

    /// Snapshot files; `-` is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Show which blocks have used this address: 0x7f3a2c000400, a range 0x…..0x…, or 0x…+4KiB
    #[arg(long, value_name = "ADDRESS", value_parser = address::parse)]
    address: Option<Range<Address>>,

    /// With --address, list at most the last COUNT blocks
    #[arg(short, value_name = "COUNT", default_value_t = 20)]
    n: usize,

    /// Select a device, the heap, or all devices with recorded memory
    #[arg(long, value_name = "N|heap|all", default_value = "all", allow_negative_numbers = true, value_parser = device)]
    device: Devices,

    /// Print one JSON object per file and device, one per line
    #[arg(long)]
    json: bool,
}

/// The first word.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    Moment(At),
    /// The only file, or a mistake: the word, and why it is not a moment.
    Other(String, String),
}

impl Word {
    fn read(text: &str) -> Word {
        moment::parse(text).map_or_else(|why| Word::Other(text.to_owned(), why), Word::Moment)
    }
}

impl Options {
    /// Returns the moment and the files.
    fn asked(&self) -> Result<(At, Input), Failure> {
        let input = |files| Input { files, device: self.device, json: self.json };
        match (&self.at, &self.files[..]) {
            (Some(Word::Moment(at)), [_, ..]) => Ok((*at, input(self.files.clone()))),
            (Some(Word::Other(file, _)), []) => Ok((At::End, input(vec![file.into()]))),
            (Some(Word::Other(file, why)), _) if Path::new(file).exists() => {
                Err(Failure::usage(format!("{why}, before the file: memreel at peak {}", shell_word(file))))
            }
            (Some(Word::Other(word, why)), _) => Err(Failure::usage(format!("{:?}: {why}", clean(word)))),
            _ => Err(Failure::usage("no file given; use for example memreel at peak snapshot.pickle")),
        }
    }
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let (at, input) = options.asked()?;
    each_device(&input, opener, out, |asked, out| {
        let history = asked.history();
        let moment = at.moment(history)?;
        match &options.address {
            Some(range) => {
                let question = Question { history, range, moment, n: options.n };
                if input.json {
                    question.print_json(asked, out)?;
                } else {
                    question.print(out)?;
                }
            }
            None if input.json => asked.print_json(&state(history, history.totals_at(moment)), out)?,
            None => print(history, history.totals_at(moment), out)?,
        }
        Ok(Exit::Fine)
    })
}

fn state(history: &DeviceHistory<'_>, totals: Totals) -> Value {
    let block = |life: &&Life| {
        json!({
            "address": life.address,
            "bytes": life.bytes,
            "requested_bytes": life.requested_bytes,
            "is_pending": !life.is_allocated_at(totals.moment),
            "allocated_by_event": life.from,
            "names": history.names_of(life),
        })
    };
    let segment = |SegmentLayout { range, blocks, .. }: &SegmentLayout<'_>| {
        json!({
            "address": range.address,
            "bytes": range.bytes,
            "stream": range.stream,
            "is_expandable": range.is_expandable,
            "blocks": blocks.iter().map(block).collect::<Vec<_>>(),
        })
    };
    json!({
        "event": totals.moment,
        "allocated_bytes": totals.allocated_bytes,
        "active_bytes": totals.active_bytes,
        "reserved_bytes": totals.reserved_bytes,
        "n_blocks": totals.n_blocks,
        "segments": history.layout(totals.moment).iter().map(segment).collect::<Vec<_>>(),
        "outside_segments": history.outside_segments(totals.moment).iter().map(block).collect::<Vec<_>>(),
        "is_exact": history.trust().is_exact(),
    })
}

fn print(history: &DeviceHistory<'_>, totals: Totals, out: &mut Page) -> Result<(), Failure> {
    let moment = totals.moment;
    let pending = match totals.active_bytes.saturating_sub(totals.allocated_bytes) {
        0 => String::new(),
        bytes => format!(" ({} of it pending: freed, but waiting for a stream)", Bytes(bytes)),
    };
    let text = format!(
        "{}: {} in use in {}{pending}, {} reserved",
        moment::words(history, moment),
        Bytes(totals.active_bytes),
        count(totals.n_blocks, "block"),
        Bytes(totals.reserved_bytes),
    );
    print_text(text, out)?;
    if let Some(entry) = moment.entry().and_then(|entry| history.entries().get(entry)) {
        let action = entry.action.map_or("unknown event", |action| action.name());
        let shown = history.shown_frames();
        let frame = entry.stack.and_then(|stack| shown.innermost(stack));
        let by = frame.map(|frame| format!(" by {}", call(frame, out.width_left(2)).join(" ")));
        let name = match entry.action {
            Some(Action::Annotate) => format!(": {}", clean(history.snapshot().user_metadata(entry))),
            _ => String::new(),
        };
        let text = format!("last event: {action} of {}{}{name}", Bytes(entry.size), by.unwrap_or_default());
        print_text(text, out)?;
    }
    print_warnings(history, out)?;
    segments(&history.layout(moment), out)?;
    let outside = history.outside_segments(moment);
    if !outside.is_empty() {
        let bytes = outside.iter().fold(0, |sum: u64, life| sum.saturating_add(life.requested_bytes));
        let blocks = count(outside.len(), "block");
        print_text(format!("in no segment of the file: {} in {blocks}", Bytes(bytes)), out)?;
    }
    writeln!(out, "\nlargest sites:\n{}", Sites::heading(out))?;
    let sites = Sites::new(history, 4);
    let groups = history.top(moment, By::Stack);
    sites.print_groups(&groups[..groups.len().min(5)], totals.active_bytes, out)?;
    Ok(())
}

/// How many segments are printed; the others are only counted.
const N_SEGMENTS: usize = 20;

fn segments(segments: &[SegmentLayout<'_>], out: &mut Page) -> io::Result<()> {
    if segments.is_empty() {
        return Ok(());
    }
    let mut sorted: Vec<&SegmentLayout<'_>> = segments.iter().collect();
    sorted.sort_by_key(|segment| (std::cmp::Reverse(segment.range.bytes), segment.range.address));
    let mut table = Table::new(&["segment", "size", "in blocks", "blocks", "largest free", "stream"]);
    for segment in sorted.iter().take(N_SEGMENTS) {
        table.row(vec![
            format!("{:#x}", segment.range.address),
            Bytes(segment.range.bytes).to_string(),
            Bytes(segment.used_bytes()).to_string(),
            segment.blocks.len().to_string(),
            Bytes(segment.largest_gap_bytes()).to_string(),
            stream(segment.range.stream),
        ]);
    }
    let n_parts = table.columns_left(out).map_or(PARTS, |left| left.clamp(LEAST_PARTS, PARTS));
    table.column("map", sorted.iter().map(|segment| map(segment, n_parts)));
    writeln!(out)?;
    table.print(out)?;
    print_text("map: █ full, ▓ less than half free, ░ more than half free, · free", out)?;
    match sorted.len().saturating_sub(N_SEGMENTS) {
        0 => Ok(()),
        n => writeln!(out, "and {}; --json lists them all", count(n, "smaller segment")),
    }
}

/// The most and the least characters of the map of a segment.
const PARTS: usize = 20;
const LEAST_PARTS: usize = 8;

/// Draws a segment in a few characters: full, partly used, or free.
fn map(segment: &SegmentLayout<'_>, n_parts: usize) -> String {
    let (start, bytes) = (segment.range.address, u128::from(segment.range.bytes.max(1)));
    let mut free = vec![0_u128; n_parts];
    for Gap { address, bytes: gap, .. } in &segment.gaps {
        let from = u128::from(*address - start) * n_parts as u128;
        let to = from + u128::from(*gap) * n_parts as u128;
        for (at, free) in free.iter_mut().enumerate() {
            let (low, high) = (at as u128 * bytes, (at as u128 + 1) * bytes);
            *free += to.min(high).saturating_sub(from.max(low));
        }
    }
    let letter = |free: u128| match free {
        0 => '█',
        free if free >= bytes => '·',
        free if free * 2 > bytes => '░',
        _ => '▓',
    };
    free.into_iter().map(letter).collect()
}
