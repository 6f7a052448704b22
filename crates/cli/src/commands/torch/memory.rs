//! `memreel memory`: each stream's blocks by state.

#![forbid(unsafe_code)]

use std::{collections::BTreeMap, io};

use memreel_snapshot::{BlockState, DeviceId, StreamId, analysis::Grouping, model::Segment};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, folded::FoldedForm},
    options::Input,
    text::{Bytes, Page, Table, labels::stream as handle, print_line},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without options, `memreel memory` prints, for each stream, the bytes in blocks
of each state. With --folded, it prints the same lines as PyTorch's
`_memory_viz.py memory`, byte for byte: stream, state and stack of each block,
with its bytes.

Examples:
  memreel memory snapshot.pickle
  memreel memory --svg memory.svg snapshot.pickle

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
    options.form.answer(&options.input, opener, Grouping::Memory, out, |file, device, segments, out| {
        if is_json { objects(file, device, segments, out) } else { table(segments, out) }
    })
}

/// The blocks of a state on a stream.
#[derive(Default)]
struct Sum {
    bytes: u64,
    n_blocks: usize,
}

/// Returns the sums of all blocks, by stream and state.
fn sums(segments: &[&Segment]) -> BTreeMap<(i64, Option<BlockState>), Sum> {
    let mut sums: BTreeMap<_, Sum> = BTreeMap::new();
    for segment in segments {
        for block in &segment.blocks {
            let sum = sums.entry((segment.stream.0, block.state)).or_default();
            sum.bytes = sum.bytes.saturating_add(block.size);
            sum.n_blocks += 1;
        }
    }
    sums
}

fn state_name(state: Option<BlockState>) -> &'static str {
    state.map_or("unknown", BlockState::name)
}

fn table(segments: &[&Segment], out: &mut Page) -> io::Result<()> {
    let mut table = Table::new(&["state", "bytes", "blocks", "stream"]);
    for ((stream, state), Sum { bytes, n_blocks }) in sums(segments) {
        let (bytes, stream) = (Bytes(bytes).to_string(), handle(StreamId(stream)));
        table.row(vec![state_name(state).to_owned(), bytes, n_blocks.to_string(), stream]);
    }
    table.print(out)
}

fn objects(file: &str, device: DeviceId, segments: &[&Segment], out: &mut Page) -> io::Result<()> {
    sums(segments).into_iter().try_for_each(|((stream, state), Sum { bytes, n_blocks })| {
        let state = state_name(state);
        let answer = json!({"stream": stream, "state": state, "bytes": bytes, "blocks": n_blocks});
        print_line(file, device, &answer, out)
    })
}
