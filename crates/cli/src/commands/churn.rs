//! `memreel churn`: sites that allocate and free the same size again and again.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Write},
};

use memreel_answers::{Churn, ChurnQuestion, Question};
use memreel_snapshot::analysis::{ChurnSite, DeviceHistory};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_device},
    options::{Input, Listing},
    text::{
        Bytes, Page, Sites, count, print_text, print_warnings,
        sites::{figures, heading, print_rows},
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A cycle is an alloc and its completed free, both in the history. A site with
many short cycles of the same size could instead reuse one buffer. Stacks with
the same calls belong to one site, as in `memreel top`. Columns: the number of
`cycles`, the `size` of each block, and the mean number of `events` from a
block's allocation to its completed free.

Examples:
  memreel churn snapshot.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    listing: Listing,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    each_device(&options.input, opener, out, |asked, out| {
        let churn = ChurnQuestion { n: options.listing.n }.ask(asked.subject())?;
        match options.input.json {
            true => asked.print_answer(&churn, out)?,
            false => print(&churn, asked.history(), options, out)?,
        }
        Ok(Exit::Fine)
    })
}

fn print(
    churn: &Churn<'_>,
    history: &DeviceHistory<'_>,
    options: &Options,
    out: &mut Page,
) -> io::Result<()> {
    let (cycles, found) = (churn.cycles, &churn.sites);
    if found.all().is_empty() {
        writeln!(out, "no sites repeatedly allocated and freed blocks of the same size")?;
    } else {
        let (cycles, sites) = (count(cycles, "cycle"), count(found.all().len(), "site"));
        let each = if found.all().len() == 1 { "with" } else { "each with" };
        print_text(format!("{cycles} of alloc and free at {sites}, {each} blocks of the same size"), out)?;
    }
    print_warnings(history, out)?;
    let (sites, listed) = (Sites::new(history, options.listing.calls()), found.listed());
    if !listed.is_empty() {
        let figures = figures("cycles", "size", "events");
        writeln!(out, "{}", heading(&figures, "allocated and freed by ← called by", out))?;
    }
    let row = |(site, size): (&'_ ChurnSite, String)| figures(site.n_cycles, size, site.mean_life_entries);
    let rows = listed.iter().zip(sizes(listed, &sites)).map(row);
    print_rows(rows.zip(listed).map(|(figures, site)| (figures, &sites, &site.site)), out)?;
    if churn.rest.count > 0 {
        let n_cycles: usize = found.others().iter().map(|site| site.n_cycles).sum();
        writeln!(out, "{n_cycles:>7}                    in {} more; use -n to show more", churn.rest.count)?;
    }
    Ok(())
}

/// Returns the sizes of the blocks of sites: in bytes where two sizes of one site have the same text.
fn sizes(listed: &[ChurnSite], sites: &Sites<'_>) -> Vec<String> {
    let text = |site: &ChurnSite| (Bytes(site.size_bytes).to_string(), sites.plain(&site.site));
    let texts: Vec<_> = listed.iter().map(text).collect();
    let mut exact: HashMap<&(String, String), BTreeSet<u64>> = HashMap::new();
    for (site, text) in listed.iter().zip(&texts) {
        exact.entry(text).or_default().insert(site.size_bytes);
    }
    let of = |(site, text): (&ChurnSite, &(String, String))| match exact[text].len() {
        1 => text.0.clone(),
        _ => format!("{} B", site.size_bytes),
    };
    listed.iter().zip(&texts).map(of).collect()
}
