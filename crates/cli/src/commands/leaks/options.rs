//! The options of `memreel leaks`.

#![forbid(unsafe_code)]

use crate::options::{Input, Listing};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an option, lists the sites that hold blocks at the end. First come
leaks: they grew in each of at least three steps, or throughout a long history,
and freed none of it. Then what grew, to more than in every earlier step; then
what may be a leak, with the reason for the doubt. Weights, caches, warm-up, the
blocks of a larger step and what one call allocates are none of these.
Columns: `share` of all that is allocated at the end, `bytes` of the site's
blocks that are live then, `live` their number, and `freed` how many blocks of
the site were allocated and freed: within the history, or over the whole run of
a heap that memreel record recorded.

With several files, which must be snapshots of one program in order of time,
lists the sites that hold more in each file than in the one before.

A scope that occurs several times is named with its number: step#0 is the first
scope `step` of the device, step#1 the second, in the order of their starts.
`memreel slim --scope` counts in the same way. If a scope is itself named
step#1, it takes precedence.

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

    /// Show blocks held at the end that are at least this many events old
    #[arg(long, value_name = "EVENTS")]
    pub(super) older_than: Option<usize>,

    #[command(flatten)]
    pub(super) listing: Listing,
}
