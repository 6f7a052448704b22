//! `memreel churn`: sites that allocate and free the same size again and again.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeSet, HashMap},
    io::Write,
};

use memreel::analysis::ChurnSite;
use serde_json::json;

use crate::{
    bytes::Bytes,
    each::each_history,
    exit::Exit,
    failure::Failure,
    options::{Input, Listing},
    rest::rest,
    sites::{Sites, print_rows},
    text::count,
    warnings::print_warnings,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A cycle is an alloc and its completed free, both in the history. A site with many short cycles of one
size could keep one buffer instead. Stacks with the same calls are one site, as in `memreel top`.

Example:
  memreel churn snapshot.pickle

Exit status: 0 answered, 2 wrong usage, 3 a file that cannot be read or is not a snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    listing: Listing,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    each_history(&options.input, out, |asked, out| {
        let sites = Sites::new(&asked.opened.snapshot, options.listing.frames);
        let found = asked.history.churn();
        let n_cycles: usize = found.iter().map(|site| site.n_cycles).sum();
        if options.input.json {
            let listed = sites.first_with_frames(&found, options.listing.n);
            let rest = rest(&found, options.listing.n, |site| site.bytes);
            asked.print_json(&json!({"cycles": n_cycles, "sites": listed, "rest": rest}), out)?;
            return Ok(Exit::Fine);
        }
        if found.is_empty() {
            writeln!(out, "no site allocated and freed one size twice or more")?;
        } else {
            writeln!(
                out,
                "{} of alloc and free at {} that repeat one size",
                count(n_cycles, "cycle"),
                count(found.len(), "site"),
            )?;
        }
        print_warnings(&asked.history, out)?;
        let listed = &found[..found.len().min(options.listing.n)];
        let figures = |(site, size): (&ChurnSite, String)| {
            format!("{:>7} x {size:>11}, for {:>6} events", site.n_cycles, site.mean_life_entries)
        };
        let figures = listed.iter().zip(sizes(listed, &sites)).map(figures);
        print_rows(figures.zip(listed).map(|(figures, site)| (figures, &sites, &site.site)), out)?;
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
