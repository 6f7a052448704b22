//! `memreel memory`: each stream's blocks by state.

#![forbid(unsafe_code)]

use std::{collections::BTreeMap, io::Write};

use memreel::{BlockState, DeviceId, StreamId, analysis::Grouping};
use serde_json::json;

use crate::{
    bytes::Bytes, each::each_device, exit::Exit, failure::Failure, folded::FoldedForm, input::Opened,
    labels::stream as handle, options::Input, table::Table,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an option, prints the bytes of each stream's blocks by state. With --folded, the lines of PyTorch's
`_memory_viz.py memory`, byte for byte: stream, state and stack of each block, with its bytes.

Example:
  memreel memory snapshot.pickle
  memreel memory --svg memory.svg snapshot.pickle

Exit status: 0 answered, 1 nothing to draw, 2 wrong usage, 3 a file that cannot be read or written.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    form: FoldedForm,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    if let Some(done) = options.form.show(&options.input, Grouping::Memory, out) {
        return done;
    }
    let is_json = options.input.json;
    each_device(&options.input, out, |opened, device, out| print(opened, device, is_json, out))
}

fn print(opened: &Opened, device: DeviceId, is_json: bool, out: &mut impl Write) -> Result<Exit, Failure> {
    // Bytes and blocks, by stream and state.
    let mut sums: BTreeMap<(i64, Option<BlockState>), (u64, usize)> = BTreeMap::new();
    for segment in opened.snapshot.segments.iter().filter(|segment| segment.device == device) {
        for block in &segment.blocks {
            let (bytes, n) = sums.entry((segment.stream.0, block.state)).or_default();
            (*bytes, *n) = (bytes.saturating_add(block.size), *n + 1);
        }
    }
    if sums.is_empty() && !is_json {
        writeln!(out, "no segments: the process holds no memory of the device")?;
        return Ok(Exit::Fine);
    }
    let mut table = Table::new(&["state", "bytes", "blocks", "stream"]);
    for ((stream, state), (bytes, n)) in sums {
        let state = state.map_or("unknown", BlockState::name);
        if is_json {
            let object = json!({
                "file": opened.name, "device": device.0, "stream": stream, "state": state, "bytes": bytes, "blocks": n,
            });
            writeln!(out, "{object}")?;
        }
        table.row(vec![state.to_owned(), Bytes(bytes).to_string(), n.to_string(), handle(StreamId(stream))]);
    }
    if !is_json {
        table.print(out)?;
    }
    Ok(Exit::Fine)
}
