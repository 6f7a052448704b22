//! The leaks of several snapshots of one program.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
};

use memreel_snapshot::{
    DeviceId,
    analysis::{DeviceHistory, Histories, Pace, SeriesSite, series},
};
use serde_json::json;

use super::options::Options;
use crate::{
    bytes::Bytes,
    exit::Exit,
    failure::Failure,
    fit::{command, print_text},
    input::{Opened, name, open},
    json::{List, WithList},
    options::Devices,
    rest::rest,
    sites::{Sites, heading, print_rows},
    text::{clean, count, shell_word},
};

/// Answers for each device that all of the files have.
pub(super) fn answer(options: &Options, files: &[PathBuf], out: &mut impl Write) -> Result<Exit, Failure> {
    let (mut opened, mut worst): (Vec<Opened>, _) = (Vec::new(), Exit::Fine);
    for path in files {
        match open(path) {
            Ok(file) => opened.push(file),
            Err(failure) => worst = worst.max(failure.of_file(&name(path)).report()?),
        }
    }
    if let [one] = &opened[..] {
        let command = command("ask about it alone: ", &["memreel", "leaks", &shell_word(&one.name)]);
        print_text(
            format!("{} is the only file that can be read, and shows no series", clean(&one.name)),
            out,
        )?;
        writeln!(out, "{command}")?;
    }
    if opened.len() < 2 {
        return Ok(worst);
    }
    let all: Vec<Histories<'_>> = opened.iter().map(|file| Histories::new(&file.snapshot)).collect();
    let devices: Vec<Vec<DeviceId>> =
        opened.iter().map(|file| file.devices(options.input.device)).collect::<Result<_, _>>()?;
    let is_shared = |device: &&DeviceId| devices.iter().all(|of| of.contains(device));
    let shared: Vec<&DeviceId> = devices[0].iter().filter(is_shared).collect();
    if shared.is_empty() {
        return Err(Failure::usage(
            "the files have no device in common; give snapshots of one process. Those of several ranks are compared by \
             memreel ranks",
        ));
    }
    for device in shared {
        let histories: Vec<DeviceHistory<'_>> = all.iter().map(|of| of.of(*device)).collect();
        let found = series(&histories);
        if options.input.json {
            print_json(options, &opened, &histories, &found, out)?;
        } else {
            print(options, &histories, &found, out)?;
            if !found.iter().any(|site| site.is_growing) {
                print_without_last(&opened, &histories, options.input.device, out)?;
            }
        }
    }
    Ok(worst)
}

/// Says if sites grew up to the last file: a program that ends gives back what it held.
fn print_without_last(
    opened: &[Opened],
    histories: &[DeviceHistory<'_>],
    device: Devices,
    out: &mut impl Write,
) -> io::Result<()> {
    let before = &histories[..histories.len() - 1];
    let growing = series(before).iter().filter(|site| site.is_growing).count();
    if growing == 0 {
        return Ok(());
    }
    let grew = count(growing, "site");
    print_text(
        format!("note: {grew} grew in each file before the last one, which may be that of the program's end"),
        out,
    )?;
    let files: Vec<String> = opened[..before.len()].iter().map(|file| shell_word(&file.name)).collect();
    let device = match device {
        Devices::One(device) => vec!["--device".to_owned(), device.to_string()],
        Devices::All => Vec::new(),
    };
    let words = ["memreel", "leaks"].into_iter().chain(device.iter().chain(&files).map(String::as_str));
    let words: Vec<&str> = words.collect();
    writeln!(out, "{}", command("without it: ", &words))
}

fn sites<'a>(options: &Options, histories: &[DeviceHistory<'a>]) -> Vec<Sites<'a>> {
    histories.iter().map(|history| Sites::new(history, options.listing.calls())).collect()
}

fn print_json(
    options: &Options,
    opened: &[Opened],
    histories: &[DeviceHistory<'_>],
    found: &[SeriesSite],
    out: &mut impl Write,
) -> io::Result<()> {
    let sites = sites(options, histories);
    let n = options.listing.n;
    let listed: Vec<_> = found.iter().take(n).map(|site| sites[site.snapshot].with_frames(site)).collect();
    let files: Vec<&str> = opened.iter().map(|file| &*file.name).collect();
    let head = json!({
        "files": files,
        "device": histories[0].device(),
        "n_growing": found.iter().filter(|site| site.is_growing).count(),
    });
    let rest = rest(found, n, SeriesSite::grown_bytes);
    serde_json::to_writer(&mut *out, &WithList { head, list: List("sites", &listed), rest })?;
    writeln!(out)
}

fn print(
    options: &Options,
    histories: &[DeviceHistory<'_>],
    found: &[SeriesSite],
    out: &mut impl Write,
) -> io::Result<()> {
    let (sites, n_files) = (sites(options, histories), histories.len());
    let growing: Vec<&SeriesSite> = found.iter().filter(|site| site.is_growing).collect();
    let device = histories[0].device();
    let grown = growing.iter().map(|site| site.grown_bytes()).fold(0, u64::saturating_add);
    let ended_us =
        |of: Option<&DeviceHistory<'_>>| of.and_then(|of| of.entries().last()).map_or(0, |last| last.time_us);
    let pace = Pace::between(grown, ended_us(histories.first()), ended_us(histories.last()));
    let pace = pace.map_or_else(String::new, |pace| format!(", {pace}"));
    let finding = match growing.first() {
        None => {
            format!("device {device}: no site holds more in each of {n_files} files than in the one before")
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
    writeln!(out, "{}", heading(&format!("{:>11}  held in each file", "grown"), "allocated by ← called by"))?;
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
