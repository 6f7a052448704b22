//! `memreel diff`: the stacks that hold more or less memory than in another snapshot.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::ValueEnum;
use memreel_snapshot::{
    DeviceId,
    analysis::{DeviceHistory, GroupChange, Histories, Totals},
    history::Moment,
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{
        Opened, Opener,
        own_memory::{is_host, is_own},
    },
    options::{At, Devices, device, moment},
    text::{
        Bytes, List, Page, Sites, WithList,
        bytes::signed,
        clean, count, print_text,
        sites::{heading, print_rows},
        warnings::warnings,
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each snapshot's state is reconstructed from its segments and its history, so
blocks that were already allocated before either history started do not show up
as differences. Two stacks belong to the same site if the frames that `memreel
top` shows have the same names, files and lines. Each line of code therefore
appears as one change, and the changes add up to the total difference. Stacks
with the same functions also match if their files were moved to another folder.
They also match if their line numbers changed, provided that they hold exactly
as much as before, or that other lines of the same files moved by the same
distance.

Sites that grew are listed first, then sites that shrank, both with the largest
change first. `added` marks a site that is only in the later snapshot, and
`gone` marks one that is only in the earlier one. Devices are matched by number.
If each file has only one device, or only one GPU with blocks, these two are
compared regardless of their numbers, which is useful if the files are from two
ranks. If a rank has also mapped memory on other GPUs, use --device N to compare
that memory.

Examples:
  memreel diff before.pickle after.pickle
  memreel diff --at peak monday.pickle tuesday.pickle
  memreel diff --by owner before.pickle after.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    /// Compare both snapshots at this moment: start, peak, oom, end or an event number
    #[arg(long, value_name = "WHEN", default_value = "end", value_parser = moment::parse)]
    at: At,

    /// Compare by stack, or by owner of device memory
    #[arg(long, value_enum, default_value = "stack")]
    by: Grouping,

    /// Select a device, the heap, or all devices with recorded memory
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Print one JSON object per device, one per line
    #[arg(long)]
    json: bool,

    /// Show at most COUNT sites that grew, and COUNT that shrank
    #[arg(short, value_name = "COUNT", default_value_t = 10)]
    n: usize,

    /// Show at most COUNT calls per stack
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    frames: usize,

    /// The earlier snapshot; `-` is standard input
    before: PathBuf,

    /// The later snapshot
    after: PathBuf,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Grouping {
    /// The complete stack
    Stack,
    /// The library that allocated the memory from the device (counts segments, not blocks)
    Owner,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let both = opener.open_both(&options.before, &options.after)?;
    let all = both.each_ref().map(|opened| Histories::new(&opened.snapshot));
    let [before, after] = &both;
    let pairs = pairs(options, [before, after], &all)?;
    let has_several = pairs.len() > 1;
    for devices in pairs {
        match devices {
            _ if options.json => {}
            [one, other] if one != other => {
                let of =
                    |device: DeviceId, opened: &Opened| format!("device {device} of {}", clean(&opened.name));
                let (one, other) = (of(one, before), of(other, after));
                let is_only = |opened: &Opened| opened.devices(Devices::All).is_ok_and(|all| all.len() == 1);
                let are_only = both.iter().all(is_only);
                let why = if are_only { "the only device in each file" } else { "the only GPU in each file" };
                print_text(format!("comparing {one} with {other} ({why})"), out)?;
            }
            [device, _] if has_several => writeln!(out, "device {device}")?,
            _ => {}
        }
        let histories = [all[0].of(devices[0]), all[1].of(devices[1])];
        one_device(options, &both, histories, out)?;
    }
    Ok(Exit::Fine)
}

/// Returns the devices to compare, before and after: those of one number, the only ones, or the GPUs of two ranks.
fn pairs(
    options: &Options,
    [before, after]: [&Opened; 2],
    histories: &[Histories<'_>; 2],
) -> Result<Vec<[DeviceId; 2]>, Failure> {
    // One file may lack a device; a device that both lack is a usage error.
    let (one, other) = match (before.devices(options.device), after.devices(options.device)) {
        (Err(failure), Err(_)) => return Err(failure),
        (one, other) => (one.unwrap_or_default(), other.unwrap_or_default()),
    };
    if let ([one], [other]) = (&one[..], &other[..]) {
        return Ok(vec![[*one, *other]]);
    }
    let mut all = [&one[..], &other[..]].concat();
    all.sort_unstable();
    all.dedup();
    if options.device == Devices::All
        && let Some(one) = gpu(before, &histories[0], one)
        && let Some(other) = gpu(after, &histories[1], other)
        && one != other
    {
        let usages = [before, after].map(|opened| opened.snapshot.usage());
        all.retain(|device| usages.iter().any(|usage| is_host(usage, *device)));
        let hosts = all.into_iter().map(|device| [device; 2]);
        return Ok([[one, other]].into_iter().chain(hosts).collect());
    }
    Ok(all.into_iter().map(|device| [device; 2]).collect())
}

/// Returns the GPU of a rank: the only one with memory of its own.
fn gpu(opened: &Opened, histories: &Histories<'_>, devices: Vec<DeviceId>) -> Option<DeviceId> {
    let usage = opened.snapshot.usage();
    let mut own = devices.into_iter().filter(|device| !is_host(&usage, *device)).filter(|device| {
        let history = histories.of(*device);
        is_own(&history.peak(), history.oom().is_some())
    });
    own.next().filter(|_| own.next().is_none())
}

fn one_device(
    options: &Options,
    [before, after]: &[Opened; 2],
    histories: [DeviceHistory<'_>; 2],
    out: &mut Page,
) -> Result<(), Failure> {
    let moments = [options.at.moment(&histories[0])?, options.at.moment(&histories[1])?];
    let changes = match options.by {
        Grouping::Stack => histories[0].diff(moments[0], &histories[1], moments[1]),
        Grouping::Owner => histories[0].diff_owners(moments[0], &histories[1], moments[1]),
    };
    let totals = [histories[0].totals_at(moments[0]), histories[1].totals_at(moments[1])];
    let sites = [0, 1].map(|at| Sites::new(&histories[at], options.frames));
    if options.json {
        let side = |change: &GroupChange| &sites[usize::from(change.after.is_some())];
        let all: Vec<_> = changes.iter().map(|change| side(change).with_frames(change)).collect();
        let head = json!({
            "before": before.name,
            "after": after.name,
            "device": histories[0].device(),
            "after_device": histories[1].device(),
            "before_event": moments[0],
            "after_event": moments[1],
            "before_bytes": totals[0].active_bytes,
            "after_bytes": totals[1].active_bytes,
            "before_reserved_bytes": totals[0].reserved_bytes,
            "after_reserved_bytes": totals[1].reserved_bytes,
            "before_peak_bytes": histories[0].peak().active_bytes,
            "after_peak_bytes": histories[1].peak().active_bytes,
        });
        let warnings: Vec<String> = histories.iter().flat_map(|history| history.trust().warnings()).collect();
        let rest = json!({"warnings": warnings});
        serde_json::to_writer(&mut *out, &WithList { head, list: List("changes", &all), rest })
            .map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    head(&histories, moments, &totals, [before, after], out)?;
    for (history, opened) in histories.iter().zip([before, after]) {
        let warnings = warnings(history);
        let has_lost = history.trust().has_lost;
        let serious = warnings.iter().filter(|warning| has_lost || warning.starts_with("warning"));
        serious
            .into_iter()
            .try_for_each(|warning| print_text(format!("{}: {warning}", clean(&opened.name)), out))?;
    }
    if changes.is_empty() {
        writeln!(out, "no change: every site holds as much as before")?;
    }
    print(options, &changes, &sites, out)?;
    Ok(())
}

/// Prints the two moments, a line each, and how their figures differ.
fn head(
    histories: &[DeviceHistory<'_>; 2],
    moments: [Moment; 2],
    totals: &[Totals; 2],
    opened: [&Opened; 2],
    out: &mut Page,
) -> io::Result<()> {
    let figures = [0, 1]
        .map(|at| [totals[at].active_bytes, totals[at].reserved_bytes, histories[at].peak().active_bytes]);
    for (at, opened) in opened.into_iter().enumerate() {
        let [active, reserved, peak] = figures[at].map(Bytes);
        let when = moment::words(&histories[at], moments[at]);
        let text =
            format!("{}: {active} in use {when}, {reserved} reserved; peak {peak}", clean(&opened.name));
        print_text(text, out)?;
    }
    let of = |figure: usize| change(i128::from(figures[1][figure]) - i128::from(figures[0][figure]));
    let [active, reserved, peak] = [0, 1, 2].map(of);
    print_text(format!("difference: {active} in use, {reserved} reserved; peak {peak}"), out)
}

fn print(
    options: &Options,
    changes: &[GroupChange],
    sites: &[Sites<'_>; 2],
    out: &mut Page,
) -> io::Result<()> {
    if !changes.is_empty() {
        let figures = format!("{:6} {:>12} {:>6}", "change", "bytes", "blocks");
        let what = match options.by {
            Grouping::Stack => "allocated by ← called by",
            Grouping::Owner => "owner",
        };
        writeln!(out, "{}", heading(&figures, what, out))?;
    }
    let n_grown = changes.iter().take_while(|change| change.bytes() >= 0).count();
    let (grown, shrunk) = changes.split_at(n_grown);
    let listed = [grown, shrunk].map(|part| &part[..part.len().min(options.n)]);
    let rows = listed.iter().copied().flatten().filter_map(|change| {
        let (word, group, side) = match (&change.before, &change.after) {
            (None, Some(group)) => ("added", group, 1),
            (Some(group), None) => ("gone", group, 0),
            (_, Some(group)) if change.bytes() >= 0 => ("grown", group, 1),
            (_, Some(group)) => ("shrunk", group, 1),
            (None, None) => return None,
        };
        let figures = format!("{word:6} {:>12} {:>+6}", self::change(change.bytes()), change.n_blocks());
        Some((figures, &sites[side], &group.site))
    });
    print_rows(rows, out)?;
    match changes.len() - listed[0].len() - listed[1].len() {
        0 => Ok(()),
        n => writeln!(out, "and {}; use -n to show more", count(n, "smaller change")),
    }
}

fn change(bytes: i128) -> String {
    format!("{}{}", if bytes < 0 { "" } else { "+" }, signed(bytes))
}
