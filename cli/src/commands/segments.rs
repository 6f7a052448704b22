//! `memreel segments`: what each segment holds.

#![forbid(unsafe_code)]

use std::io::Write;

use memreel::{BlockState, DeviceId, analysis::Grouping, snapshot::Segment};
use serde_json::json;

use crate::{
    bytes::Bytes,
    each::each_device,
    exit::Exit,
    failure::Failure,
    folded::FoldedForm,
    input::Opened,
    labels::{pool, stream},
    options::Input,
    table::Table,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an option, prints a table of the segments, the fullest last. With --folded, the lines of PyTorch's
`_memory_viz.py segments`, byte for byte: stream, segment, state and stack of each block, with its bytes.

Example:
  memreel segments snapshot.pickle
  memreel segments --svg segments.svg snapshot.pickle

Exit status: 0 answered, 1 nothing to draw, 2 wrong usage, 3 a file that cannot be read or written.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    form: FoldedForm,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    if let Some(done) = options.form.show(&options.input, Grouping::Segments, out) {
        return done;
    }
    each_device(&options.input, out, |opened, device, out| {
        if options.input.json { objects(opened, device, out) } else { table(opened, device, out) }
    })
}

fn of(opened: &Opened, device: DeviceId) -> Vec<&Segment> {
    let is_of = |segment: &&Segment| segment.device == device;
    opened.snapshot.segments.iter().filter(is_of).collect()
}

/// Returns the bytes and the number of the blocks in a state.
fn sum(segment: &Segment, is_asked: fn(BlockState) -> bool) -> (u64, usize) {
    let blocks = segment.blocks.iter().filter(|block| block.state.is_some_and(is_asked));
    blocks.fold((0, 0), |(bytes, n), block| (u64::saturating_add(bytes, block.size), n + 1))
}

fn table(opened: &Opened, device: DeviceId, out: &mut impl Write) -> Result<Exit, Failure> {
    let mut segments = of(opened, device);
    if segments.is_empty() {
        writeln!(out, "no segments: the process holds no memory of the device")?;
        return Ok(Exit::Fine);
    }
    segments.sort_by_cached_key(|segment| (sum(segment, BlockState::is_active).0, segment.address));
    let mut table =
        Table::new(&["address", "size", "in use", "%", "blocks", "largest free", "pool", "stream"]);
    for segment in segments {
        let (used, n) = sum(segment, BlockState::is_active);
        let free = segment.blocks.iter().filter(|block| block.state == Some(BlockState::Inactive));
        #[allow(clippy::cast_precision_loss)]
        let percent = used as f64 / segment.total_size.max(1) as f64 * 100.0;
        table.row(vec![
            format!("{:#x}", segment.address),
            Bytes(segment.total_size).to_string(),
            Bytes(used).to_string(),
            format!("{percent:.0}"),
            n.to_string(),
            Bytes(free.map(|block| block.size).max().unwrap_or(0)).to_string(),
            pool(segment),
            stream(segment.stream),
        ]);
    }
    table.print(out)?;
    Ok(Exit::Fine)
}

fn objects(opened: &Opened, device: DeviceId, out: &mut impl Write) -> Result<Exit, Failure> {
    for segment in of(opened, device) {
        let (active, n) = sum(segment, BlockState::is_active);
        let object = json!({
            "file": opened.name,
            "device": device.0,
            "address": segment.address,
            "bytes": segment.total_size,
            "active_bytes": active,
            "n_active_blocks": n,
            "stream": segment.stream.0,
            "pool": segment.kind.map(|kind| kind.name()),
            "pool_id": [segment.pool.graph, segment.pool.user],
            "is_expandable": segment.is_expandable,
        });
        writeln!(out, "{object}")?;
    }
    Ok(Exit::Fine)
}
