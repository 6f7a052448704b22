//! The leaks of several snapshots of one program.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
};

use memreel_snapshot::{
    DeviceId,
    analysis::{Histories, Pace, Series, SeriesSite},
};
use serde_json::json;

use super::options::Options;
use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, name},
    options::Devices,
    text::{
        Bytes, List, Page, Sites, WithList, WithRest, clean, count,
        fit::command,
        print_text,
        rest::rest,
        shell_word,
        sites::{heading, print_rows},
    },
};

/// Answers for each device that all of the files have.
pub(super) fn answer(
    options: &Options,
    files: &[PathBuf],
    opener: &Opener,
    out: &mut Page,
) -> Result<Exit, Failure> {
    let (mut opened, mut worst): (Vec<Opened>, _) = (Vec::new(), Exit::Fine);
    for path in files {
        match opener.open(path) {
            Ok(file) => opened.push(file),
            Err(failure) => worst = worst.max(failure.of_file(&name(path)).report()?),
        }
    }
    if let [one] = &opened[..] {
        let command = command("for this file alone: ", &["memreel", "leaks", &shell_word(&one.name)], out);
        print_text(format!("{} is the only readable file; a series needs several", clean(&one.name)), out)?;
        writeln!(out, "{command}")?;
    }
    if opened.len() < 2 {
        return Ok(worst);
    }
    let is_sorted = opened.is_sorted_by_key(last_us);
    if !is_sorted && opened.iter().all(|file| last_us(file) > 0) {
        opened.sort_by_key(last_us);
        if !options.input.json {
            print_text("note: the files are compared in the order of their last events", out)?;
        }
    }
    let all: Vec<Histories<'_>> = opened.iter().map(|file| Histories::new(&file.snapshot)).collect();
    let devices: Vec<BTreeSet<DeviceId>> = opened
        .iter()
        .map(|file| Ok(file.devices(options.input.device)?.into_iter().collect()))
        .collect::<Result<_, Failure>>()?;
    let is_shared = |device: &&DeviceId| devices.iter().all(|of| of.contains(device));
    let shared: Vec<&DeviceId> = devices[0].iter().filter(is_shared).collect();
    if shared.is_empty() {
        return Err(Failure::usage(
            "the files have no device in common; give snapshots of one process, or compare ranks with \
             memreel ranks",
        ));
    }
    for device in shared {
        let asked = DeviceOfFile::new(options, &all, *device);
        if options.input.json {
            asked.print_json(options, &opened, out)?;
        } else {
            asked.print(options, out)?;
            if !asked.found.iter().any(|site| site.is_growing) {
                print_without_last(&opened, &asked.found, options.input.device, out)?;
            }
        }
    }
    Ok(worst)
}

/// Returns the time of the last event of a file, in microseconds; 0 if it is not known. A shell sorts `-10` before `-9`.
fn last_us(file: &Opened) -> i64 {
    let last = file.snapshot.device_traces.iter().filter_map(|trace| trace.last());
    last.map(|entry| entry.time_us).max().unwrap_or(0)
}

/// A device of the files. Only what the answer needs is kept of each history.
struct DeviceOfFile<'a> {
    device: DeviceId,
    found: Vec<SeriesSite>,
    sites: Vec<Sites<'a>>,
    /// The times of the last events of the first file and of the last one, in microseconds.
    ended_us: [i64; 2],
}

impl<'a> DeviceOfFile<'a> {
    fn new(options: &Options, all: &[Histories<'a>], device: DeviceId) -> DeviceOfFile<'a> {
        let (mut series, mut sites, mut ended_us) = (Series::new(all.len()), Vec::new(), Vec::new());
        for (number, histories) in all.iter().enumerate() {
            let history = histories.of(device);
            series.add(number, &history);
            sites.push(Sites::new(&history, options.listing.calls()));
            ended_us.push(history.entries().last().map_or(0, |last| last.time_us));
        }
        let ended_us = [ended_us.first(), ended_us.last()].map(|us| us.copied().unwrap_or(0));
        DeviceOfFile { device, found: series.sites(), sites, ended_us }
    }
}

/// Reports if sites grew up to the last file: a program that ends gives back what it held.
fn print_without_last(
    opened: &[Opened],
    found: &[SeriesSite],
    device: Devices,
    out: &mut Page,
) -> io::Result<()> {
    let before = opened.len() - 1;
    let growing = found.iter().filter(|site| site.grows_until(before)).count();
    if growing == 0 {
        return Ok(());
    }
    let grew = count(growing, "site");
    print_text(
        format!(
            "note: {grew} grew in each file before the last one, which may have been written as the \
             program ended"
        ),
        out,
    )?;
    let files: Vec<String> = opened[..before].iter().map(|file| shell_word(&file.name)).collect();
    let device = match device {
        Devices::All => Vec::new(),
        Devices::Heap | Devices::One(_) => vec!["--device".to_owned(), device.to_string()],
    };
    let words = ["memreel", "leaks"].into_iter().chain(device.iter().chain(&files).map(String::as_str));
    let words: Vec<&str> = words.collect();
    writeln!(out, "{}", command("without it: ", &words, out))
}

impl DeviceOfFile<'_> {
    fn print_json(&self, options: &Options, opened: &[Opened], out: &mut Page) -> io::Result<()> {
        let (DeviceOfFile { found, sites, .. }, n) = (self, options.listing.n);
        let listed: Vec<_> =
            found.iter().take(n).map(|site| sites[site.snapshot].with_frames(site)).collect();
        let files: Vec<&str> = opened.iter().map(|file| &*file.name).collect();
        let head = json!({
            "files": files,
            "device": self.device,
            "n_growing": found.iter().filter(|site| site.is_growing).count(),
        });
        let rest = WithRest { rest: rest(found, n, SeriesSite::grown_bytes) };
        serde_json::to_writer(&mut *out, &WithList { head, list: List("sites", &listed), rest })?;
        writeln!(out)
    }

    fn print(&self, options: &Options, out: &mut Page) -> io::Result<()> {
        let DeviceOfFile { device, found, sites, ended_us } = self;
        let n_files = sites.len();
        let growing: Vec<&SeriesSite> = found.iter().filter(|site| site.is_growing).collect();
        let grown = growing.iter().map(|site| site.grown_bytes()).fold(0, u64::saturating_add);
        let pace = Pace::between(grown, ended_us[0], ended_us[1]);
        let pace = pace.map_or_else(String::new, |pace| format!(", {pace}"));
        let finding = match growing.first() {
            None => {
                format!(
                    "device {device}: no site holds more in each of {n_files} files than in the one before"
                )
            }
            Some(first) => format!(
                "device {device}: {} grew in each of {n_files} files, by {}{pace}; most of it at {}",
                count(growing.len(), "site"),
                Bytes(grown),
                clean(&sites[first.snapshot].plain(&first.site)),
            ),
        };
        print_text(finding, out)?;
        if growing.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "{}",
            heading(&format!("{:>11}  held in each file", "grown"), "allocated by ← called by", out)
        )?;
        let row = |site: &&SeriesSite| {
            let each: Vec<String> = site.bytes.iter().map(|bytes| Bytes(*bytes).to_string()).collect();
            let figures = format!("{:>11}  {}", Bytes(site.grown_bytes()).to_string(), each.join(" → "));
            (figures, site.snapshot)
        };
        let rows = growing.iter().take(options.listing.n).map(|site| {
            let (figures, snapshot) = row(site);
            (figures, &sites[snapshot], &site.site)
        });
        print_rows(rows, out)
    }
}
