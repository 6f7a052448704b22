//! `memreel churn`: sites that allocate and free the same size again and again.

#![forbid(unsafe_code)]

use std::io::Write;

use serde_json::json;

use crate::{
    bytes::Bytes,
    each::each_history,
    exit::Exit,
    failure::Failure,
    options::{Input, Listing},
    sites::Sites,
    text::count,
    warnings::print_warnings,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A cycle is an alloc and its completed free, both in the history. A site with many short cycles of one
size could keep one buffer instead.

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
            asked.print_json(&json!({"cycles": n_cycles, "sites": listed}), out)?;
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
        for site in found.iter().take(options.listing.n) {
            let (size, n, life) = (Bytes(site.size_bytes).to_string(), site.n_cycles, site.mean_life_entries);
            writeln!(
                out,
                "{}",
                sites.row(&format!("{n:>7} x {size:>11}, for {life:>6} events"), &site.site)
            )?;
        }
        Ok(Exit::Fine)
    })
}
