//! The options of `memreel leaks`.

#![forbid(unsafe_code)]

use crate::options::{Input, Listing};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an option, lists the sites that hold blocks at the end. First come leaks,
which grew in each of at least three steps or over the whole of a long history
and freed none of it; then what grew, to more than in every earlier step; then
what may be a leak, with the reason for the doubt. Weights, caches, warm-up, the
blocks of a larger step and what one call makes are none of these.
Columns: `share` of all that is allocated at the end, `bytes` of the site's
blocks that are live then, `live` their number, and `freed` how many blocks of
the site were allocated and freed: within the history, or over the whole run of
a heap that memreel record recorded.

Of several files, which are snapshots of one program in the order of their
times, lists the sites that hold more in each file than in the one before.

A scope that occurs several times is named with its number: step#0 is the first
scope `step` of the device, step#1 the second, in the order in which they begin.
`memreel slim --scope` counts in the same way. If the name of a scope is step#1
itself, that scope is meant.

Example:
  memreel leaks snapshot.pickle
  memreel leaks monday.pickle tuesday.pickle wednesday.pickle
  memreel leaks --between step#1 step#2 snapshot.pickle
  memreel leaks --older-than 10000 snapshot.pickle

Exit status: 0 answered, 2 wrong usage or an unknown scope, 3 a file that cannot
be read or is not a snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) input: Input,

    /// Show blocks allocated after the end of the first scope and held at the end of the second
    #[arg(long, num_args = 2, value_names = ["SCOPE", "SCOPE"], conflicts_with = "older_than")]
    pub(super) between: Vec<String>,

    /// Show blocks held at the end that are at least this number of events old
    #[arg(long, value_name = "EVENTS")]
    pub(super) older_than: Option<usize>,

    #[command(flatten)]
    pub(super) listing: Listing,
}
