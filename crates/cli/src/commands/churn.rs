//! `memreel churn`: sites that allocate and free the same size again and again.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeSet, HashMap},
    io::Write,
};

use memreel_snapshot::analysis::ChurnSite;
use serde_json::json;

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
        let sites = Sites::new(asked.history(), options.listing.calls());
        let found = asked.history().churn();
        let n_cycles: usize = found.iter().map(|site| site.n_cycles).sum();
        if options.input.json {
            let head = json!({"cycles": n_cycles});
            asked.print_list(head, "sites", &found, options.listing.n, |site| site.bytes, out)?;
            return Ok(Exit::Fine);
        }
        if found.is_empty() {
            writeln!(out, "no sites repeatedly allocated and freed blocks of the same size")?;
        } else {
            let (cycles, sites) = (count(n_cycles, "cycle"), count(found.len(), "site"));
            let each = if found.len() == 1 { "with" } else { "each with" };
            print_text(
                format!("{cycles} of alloc and free at {sites}, {each} blocks of the same size"),
                out,
            )?;
        }
        print_warnings(asked.history(), out)?;
        let listed = &found[..found.len().min(options.listing.n)];
        if !listed.is_empty() {
            let figures = figures("cycles", "size", "events");
            writeln!(out, "{}", heading(&figures, "allocated and freed by ← called by", out))?;
        }
        let row =
            |(site, size): (&'_ ChurnSite, String)| figures(site.n_cycles, size, site.mean_life_entries);
        let rows = listed.iter().zip(sizes(listed, &sites)).map(row);
        print_rows(rows.zip(listed).map(|(figures, site)| (figures, &sites, &site.site)), out)?;
        if let Some(rest) = found.get(options.listing.n..).filter(|rest| !rest.is_empty()) {
            let n_cycles: usize = rest.iter().map(|site| site.n_cycles).sum();
            writeln!(out, "{n_cycles:>7}                    in {} more; use -n to show more", rest.len())?;
        }
        Ok(Exit::Fine)
    })
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
