//! The options of `memreel leaks`.

#![forbid(unsafe_code)]

use crate::options::{Input, Listing};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without options, `memreel leaks` lists the sites that hold blocks at the end.
First come leaks: sites that grew in each of at least three steps, or throughout
a long history, and freed none of what they added. Next come sites that hold
more than in any earlier step, and then possible leaks, each with the reason why
it may not be one. Weights, caches, warm-up allocations, blocks that are due to
a larger step, and what a single call allocates do not count as any of these.

Columns: `share`: the site's share of all memory allocated at the end; `bytes`
and `live`: the size and number of its blocks that are still live at that point;
`freed`: how many of its blocks were allocated and freed, within the history or,
for a heap recorded with `memreel record`, over the whole run.

Given several snapshots of one program, it lists the sites that hold more in
each file than in the one before, in the order of the files' last events.

If a scope occurs several times, refer to it by number: step#0 is the first
scope `step` on the device, step#1 the second, and so on in the order in which
they start. `memreel slim --scope` counts in the same way. If a scope is itself
named step#1, it takes precedence.

Examples:
  memreel leaks snapshot.pickle
  memreel leaks monday.pickle tuesday.pickle wednesday.pickle
  memreel leaks --between step#1 step#2 snapshot.pickle
  memreel leaks --older-than 10000 snapshot.pickle

Exit status: 0 success; 2 usage error or unknown scope; 3 a file cannot be read
or is not a snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) input: Input,

    /// Show blocks allocated after the end of the first scope and held at the end of the second
    #[arg(long, num_args = 2, value_names = ["SCOPE", "SCOPE"], conflicts_with = "older_than")]
    pub(super) between: Vec<String>,

    /// Show blocks held at the end that are at least this many events old
    #[arg(long, value_name = "EVENTS")]
    pub(super) older_than: Option<usize>,

    #[command(flatten)]
    pub(super) listing: Listing,
}
