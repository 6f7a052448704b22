//! `memreel segments`: what each segment holds.

#![forbid(unsafe_code)]

use std::io;

use memreel_snapshot::{BlockState, DeviceId, analysis::Grouping, model::Segment};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, folded::FoldedForm},
    options::Input,
    text::{
        Bytes, Page, Table,
        labels::{pool, stream},
        print_line,
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without options, `memreel segments` prints a table of the segments, the fullest
last; `in blocks` and `%` count the blocks in use, including rounding. With
--folded, it prints the same lines as PyTorch's `_memory_viz.py segments`, byte
for byte: stream, segment, state and stack of each block, with its bytes.

Examples:
  memreel segments snapshot.pickle
  memreel segments --svg segments.svg snapshot.pickle

Exit status: 0 success; 1 nothing to draw; 2 usage error; 3 a file cannot be
read or written, or has more than 16 MiB of stacks to draw.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    form: FoldedForm,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let is_json = options.input.json;
    options.form.answer(&options.input, opener, Grouping::Segments, out, |file, device, segments, out| {
        if is_json { objects(file, device, segments, out) } else { table(segments, out) }
    })
}

/// The blocks of a segment that are in use, with what rounding adds to them.
struct InUse {
    bytes: u64,
    n_blocks: usize,
}

fn in_use(segment: &Segment) -> InUse {
    let blocks = segment.blocks.iter().filter(|block| block.state.is_some_and(BlockState::is_active));
    blocks.fold(InUse { bytes: 0, n_blocks: 0 }, |InUse { bytes, n_blocks }, block| InUse {
        bytes: bytes.saturating_add(block.size),
        n_blocks: n_blocks + 1,
    })
}

fn table(segments: &[&Segment], out: &mut Page) -> io::Result<()> {
    let mut segments = segments.to_vec();
    segments.sort_by_cached_key(|segment| (in_use(segment).bytes, segment.address));
    let mut table =
        Table::new(&["address", "size", "in blocks", "%", "blocks", "largest free", "pool", "stream"]);
    for segment in segments {
        let InUse { bytes, n_blocks } = in_use(segment);
        let free = segment.blocks.iter().filter(|block| block.state == Some(BlockState::Inactive));
        #[allow(clippy::cast_precision_loss)]
        let percent = bytes as f64 / segment.total_size.max(1) as f64 * 100.0;
        table.row(vec![
            format!("{:#x}", segment.address),
            Bytes(segment.total_size).to_string(),
            Bytes(bytes).to_string(),
            format!("{percent:.0}"),
            n_blocks.to_string(),
            Bytes(free.map(|block| block.size).max().unwrap_or(0)).to_string(),
            pool(segment),
            stream(segment.stream),
        ]);
    }
    table.print(out)
}

fn objects(file: &str, device: DeviceId, segments: &[&Segment], out: &mut Page) -> io::Result<()> {
    segments.iter().try_for_each(|segment| {
        let InUse { bytes, n_blocks } = in_use(segment);
        let answer = json!({
            "address": segment.address,
            "bytes": segment.total_size,
            "active_bytes": bytes,
            "n_active_blocks": n_blocks,
            "stream": segment.stream,
            "pool": segment.kind,
            "pool_id": segment.pool,
            "is_expandable": segment.is_expandable,
        });
        print_line(file, device, &answer, out)
    })
}
