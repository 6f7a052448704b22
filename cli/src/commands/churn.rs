//! `memreel churn`: sites that allocate and free the same size again and again.

#![forbid(unsafe_code)]

use std::io::Write;

use memreel::analysis::{ChurnSite, DeviceHistory};
use serde_json::{Value, json};

use crate::{
    bytes::Bytes,
    each::each_device,
    exit::Exit,
    failure::Failure,
    json::joined,
    options::{Input, Listing},
    sites::Sites,
    text::count,
    warnings::warnings,
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
    each_device(&options.input, out, |opened, device, out| {
        let history = DeviceHistory::new(&opened.snapshot, device);
        let sites = Sites::new(&opened.snapshot, options.listing.frames);
        let found = history.churn();
        let n_cycles: usize = found.iter().map(|site| site.n_cycles).sum();
        if options.input.json {
            let all: Vec<Value> =
                found.iter().take(options.listing.n).map(|site| object(site, &sites)).collect();
            let warnings = history.trust().warnings();
            let object = json!({
                "file": opened.name, "device": device.0, "cycles": n_cycles, "sites": all, "warnings": warnings,
            });
            writeln!(out, "{object}")?;
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
        warnings(&history).iter().try_for_each(|warning| writeln!(out, "{warning}"))?;
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

fn object(site: &ChurnSite, sites: &Sites<'_>) -> Value {
    let object = json!({
        "cycles": site.n_cycles,
        "size_bytes": site.size_bytes,
        "bytes": site.bytes,
        "mean_life_events": site.mean_life_entries,
    });
    joined(object, sites.json(&site.site))
}
