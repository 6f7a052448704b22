//! The options of `memreel leaks`.

#![forbid(unsafe_code)]

use crate::options::{Input, Listing};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without options, `memreel leaks` lists the sites that hold blocks at the end.
First come leaks: sites that grew in each of at least three steps, or throughout
a long history, and freed none of what they added. Next come sites that hold
more than in any earlier step, and then possible leaks, each with the reason why
it may not be one. None of these three groups includes weights, caches, warm-up
allocations, extra blocks that a step needs only because it is larger than
earlier ones, or growth within a single call, such as a loop over layers.

Columns: `share` is the site's share of all memory allocated at the end, `bytes`
and `live` are the total size and the number of its blocks that are still
allocated at that point, and `freed` is how many of its blocks were freed,
during the history or, for a heap recorded with `memreel record`, during the
whole run.

Given several snapshots of one program, `memreel leaks` sorts them by the time
of their last events and lists the sites that hold more in each file than in the
one before.

If a scope occurs several times, refer to it by number: step#0 is the first
scope `step` on the device, step#1 the second, and so on in the order in which
they start. `memreel slim --scope` uses the same numbers. A scope whose own name
is step#1 takes precedence.

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

    /// Show blocks allocated after the first scope (a named range, such as a step) ended and still held when
    /// the second ended
    #[arg(long, num_args = 2, value_names = ["SCOPE", "SCOPE"], conflicts_with = "older_than")]
    pub(super) between: Vec<String>,

    /// Show blocks that are held at the end and were allocated at least this many events before it
    #[arg(long, value_name = "EVENTS")]
    pub(super) older_than: Option<usize>,

    #[command(flatten)]
    pub(super) listing: Listing,
}
