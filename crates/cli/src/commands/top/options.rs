//! The options of `memreel top`.

#![forbid(unsafe_code)]

use clap::ValueEnum;
use memreel_snapshot::analysis::By;

use crate::options::{
    At, Input, Listing,
    instant::{self, Instant},
    moment,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The peak is the moment when the most bytes are in use (the first, if there are
several), as in the viewer's timeline. In every command, a block is in use from
its allocation until it is completely freed: it is allocated (also called live
or held) until the free is requested, and then pending while the free waits for
a stream. `in use` (PyTorch and --json: active) is allocated plus pending, in
requested bytes; reserved is what the allocator has taken from the device and
not returned.

When blocks are grouped by function, file or line, `own bytes` is what the
function, file or line allocated itself, `with callees` includes what its
callees allocated, and `share` is based on own bytes. A row shows the Python
frames of a stack, or its native frames if it has no Python frames, without
those of allocators, operators, interpreters and standard libraries. Stacks form
one group if the frames shown have the same names, files and lines. For each
group, --json prints the number of stacks and all frames of the stack with the
most bytes, and marks the frames that the table shows. --tree shows at most the
outermost 1024 calls of a stack, and the number of calls left out.

--new counts only blocks allocated after --since, and prints the most bytes that
they occupied at once and the bytes that they still occupy at the end. A block
counts until its free is requested, so the figures do not depend on when the GPU
finishes its work. With --new, `--at peak` selects the peak of these blocks;
other moments work as usual.

--allocated counts all blocks that were allocated, including freed ones. For a
heap recorded with `memreel record`, the sums cover the whole run, even if the
ring lost events, and `peak` is the most bytes that were live at once; for other
memory, the sums cover only the events in the file.

Examples:
  memreel top snapshot.pickle
  memreel top --at end --by function -n 20 snapshot.pickle
  memreel top --tree snapshot.pickle
  memreel top --new --since 10s --at end snapshot.pickle
  memreel top --allocated snapshot.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) input: Input,

    /// Show this moment: an event number, start, peak, oom or end
    #[arg(long, value_name = "WHEN", default_value = "peak", value_parser = moment::parse)]
    pub(super) at: At,

    /// Group blocks by what they have in common
    #[arg(long, value_enum, default_value = "stack")]
    pub(super) by: Grouping,

    /// Print the call tree from the outermost call inward, without branches below 1 %
    #[arg(long, conflicts_with = "by")]
    pub(super) tree: bool,

    /// Count everything that was ever allocated, by stack; for a heap recorded with `memreel record`, this
    /// covers the whole run
    #[arg(long, conflicts_with_all = ["tree", "by", "at", "new"])]
    pub(super) allocated: bool,

    /// Count only blocks allocated after --since; a block counts until the program frees it
    #[arg(long, conflicts_with = "tree")]
    pub(super) new: bool,

    /// Start --new at this time: the time since the first event, such as 1.5s or 200ms, or a timestamp in
    /// microseconds, as in `time_us` [default: the start]
    #[arg(long, value_name = "TIME", value_parser = instant::parse, requires = "new")]
    pub(super) since: Option<Instant>,

    #[command(flatten)]
    pub(super) listing: Listing,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Grouping {
    /// The complete stack
    Stack,
    /// The function that allocated the block
    Function,
    /// The source file that allocated the block
    File,
    /// The line that allocated the block
    Line,
    /// The scope, from user metadata or annotations
    Scope,
    /// The name that the program gave the block
    Name,
    /// The stream
    Stream,
    /// The pool: the default one, a graph's, or a `MemPool`
    Pool,
    /// The library that allocated the memory from the device (counts segments, not blocks)
    Owner,
}

impl Grouping {
    pub(super) fn by(self) -> By {
        match self {
            Grouping::Stack => By::Stack,
            Grouping::Function => By::Function,
            Grouping::File => By::File,
            Grouping::Line => By::Line,
            Grouping::Stream => By::Stream,
            Grouping::Pool => By::Pool,
            Grouping::Scope => By::Scope,
            Grouping::Name => By::Name,
            Grouping::Owner => By::Owner,
        }
    }
}
