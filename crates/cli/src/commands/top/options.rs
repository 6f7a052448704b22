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
The peak is the first moment with the most bytes in use, as in the viewer's
timeline. In every command, a block is in use from its allocation until its free
is complete: it is allocated (live, held) until the free is requested, and then
pending while the free waits for a stream. `in use` (PyTorch and --json: active)
is allocated plus pending, in requested bytes; reserved is what the allocator
holds from the device.

By function, file or line, `own bytes` is what it allocated itself, `with
callees` adds what the functions that it called allocated, and the share is of
its own bytes. A row shows the Python frames of a stack, or its compiled frames
if it has no Python frames, without those of allocators, operators, interpreters
and standard libraries. Stacks whose shown frames have the same names, files and
lines are one group. --json has all frames of the stack with the most bytes,
with those shown marked, and the number of stacks. --tree has the outermost 1024
calls of a stack, and counts the rest.

--new counts only blocks that are allocated after --since: the most bytes held
at once, and what is left at the end. A block counts until its free is
requested, so the figures do not depend on when the GPU finishes its work. --at
is then the peak of these blocks, or another moment.

--allocated counts all blocks that were allocated, including freed ones. For a
heap that memreel record recorded, the sums cover the whole run, whatever the
ring lost, and `peak` is the most that was live at once; for other memory they
cover the events in the file.

Example:
  memreel top snapshot.pickle
  memreel top --at end --by function -n 20 snapshot.pickle
  memreel top --tree snapshot.pickle
  memreel top --new --since 10s --at end snapshot.pickle
  memreel top --allocated snapshot.pickle

Exit status: 0 answered, 2 wrong usage, 3 a file that cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) input: Input,

    /// Show this moment: an event number, start, peak or end
    #[arg(long, value_name = "WHEN", default_value = "peak", value_parser = moment::parse)]
    pub(super) at: At,

    /// Group blocks by
    #[arg(long, value_enum, default_value = "stack")]
    pub(super) by: Grouping,

    /// Print the call tree from the outermost call inward, without branches below 1 %
    #[arg(long, conflicts_with = "by")]
    pub(super) tree: bool,

    /// Count all that was ever allocated, by stack; for a heap from `memreel record`, over the whole run
    #[arg(long, conflicts_with_all = ["tree", "by", "at", "new"])]
    pub(super) allocated: bool,

    /// Count only what is allocated after --since, until its free is requested
    #[arg(long, conflicts_with = "tree")]
    pub(super) new: bool,

    /// Start --new at 1.5s or 200ms after the first event, or a number as in `time_us` [default: the start]
    #[arg(long, value_name = "TIME", value_parser = instant::parse, requires = "new")]
    pub(super) since: Option<Instant>,

    #[command(flatten)]
    pub(super) listing: Listing,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Grouping {
    /// The whole stack
    Stack,
    /// The function that allocated
    Function,
    /// Its source file
    File,
    /// The line that allocated
    Line,
    /// The scope, from user metadata or annotations
    Scope,
    /// The name that the program gave the block
    Name,
    /// The stream
    Stream,
    /// The pool: the default one, a graph's, or a `MemPool`
    Pool,
    /// The library that allocated memory from the device: segments, not blocks
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
